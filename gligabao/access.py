"""Roles, as Django groups: who may read, who may start things, who may administer."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

VIEWER = "viewer"
TRAINER = "trainer"
ADMIN = "admin"
ROLES = (VIEWER, TRAINER, ADMIN)  # each may do what those before it may


def role_of(user: Any) -> str | None:
    """The highest role of a user, None without any. A superuser is an admin."""
    if not user or not user.is_authenticated or not user.is_active:
        return None
    if user.is_superuser:
        return ADMIN
    names = set(user.groups.values_list("name", flat=True))
    return next((role for role in reversed(ROLES) if role in names), None)


def has_role(user: Any, wanted: str) -> bool:
    role = role_of(user)
    return role is not None and ROLES.index(role) >= ROLES.index(wanted)


class RolePermission(BasePermission):
    """Reading needs `viewer`, deleting `admin`, all else `trainer`.

    A view differs by `roles`, from method to role, such as {"DELETE": TRAINER}.
    """

    message = "Your role does not allow this. Ask an admin."

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user or not request.user.is_authenticated:
            return False
        return has_role(request.user, self._wanted(request, view))

    def _wanted(self, request: Request, view: Any) -> str:
        roles = getattr(view, "roles", {})
        if request.method in roles:
            return roles[request.method]
        if request.method in SAFE_METHODS:
            return VIEWER
        return ADMIN if request.method == "DELETE" else TRAINER
