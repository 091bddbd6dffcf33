"""The upload request: parts into a stored dataset, and who may send it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from copy import copy
from typing import Any

from django.conf import settings
from django.http import HttpRequest, QueryDict, UnreadablePostError
from django.utils.datastructures import MultiValueDict
from rest_framework import parsers

from datasets.api.multipart import Part, parts_of
from datasets.formats import check_filename
from datasets.models import Dataset
from datasets.services import Outcome, Staged, staged, store
from gligabao.errors import InvalidRequest
from gligabao.rest import SessionAuthentication

TEXT_FIELDS = ("name", "description")


class HeaderSessionAuthentication(SessionAuthentication):
    """The console's login, with the CSRF token in the header X-CSRFToken only.

    Django would look for the token among the form's fields first, and read the whole upload for
    it, before anybody is known to be allowed to send one.
    """

    def enforce_csrf(self, request: HttpRequest) -> None:
        without_form = copy(request)
        without_form._post = QueryDict()
        without_form._files = MultiValueDict()
        super().enforce_csrf(without_form)


class UploadForm(QueryDict):
    """A form whose fields are not here but come one by one. Django asks it as any other form."""

    parts: Iterator[Part]


class UploadParser(parsers.BaseParser):
    """Hands the parts to the view one by one; nothing is read before it asks."""

    media_type = "multipart/form-data"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> UploadForm:
        form = UploadForm()
        form.parts = parts_of(stream, media_type)
        return form


def receive(parts: Iterable[Part], *, db: str) -> tuple[Dataset, Outcome]:
    """Store the one file of an upload. Raises InvalidRequest, TooLarge, StorageError."""
    filename = ""
    item: Staged | None = None
    texts: dict[str, str] = {}
    with ExitStack() as stack:
        for part in _readable(parts):
            if part.name in TEXT_FIELDS and part.filename is None and part.name not in texts:
                texts[part.name] = part.text()
                continue
            _check_is_file(part, is_first=item is None)
            filename = part.filename
            item = stack.enter_context(staged(part.content, max_bytes=settings.MAX_UPLOAD_BYTES))
        if item is None:
            raise InvalidRequest("There is no file. Send one as the field 'file'.", code="no_file")
        return store(
            item,
            filename=filename,
            name=texts.get("name"),
            description=texts.get("description"),
            db=db,
        )


def _check_is_file(part: Part, *, is_first: bool) -> None:
    if part.name in TEXT_FIELDS:
        raise InvalidRequest(f"The field {part.name!r} is a file or comes twice.", code="bad_field")
    if part.name != "file":
        raise InvalidRequest(
            f"Unknown field {part.name[:60]!r}. Known: file, {', '.join(TEXT_FIELDS)}.",
            code="unknown_field",
        )
    if part.filename is None:
        raise InvalidRequest("The field 'file' is not a file: it has no name.", code="no_file")
    if not is_first:
        raise InvalidRequest("There are two files. Send one at a time.", code="two_files")
    check_filename(part.filename)


def _readable(parts: Iterable[Part]) -> Iterator[Part]:
    try:
        yield from parts
    except UnreadablePostError as error:
        raise InvalidRequest("The upload was cut off.", code="broken_multipart") from error
