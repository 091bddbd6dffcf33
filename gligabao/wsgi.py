"""WSGI entry point. The live feed needs ASGI; `manage.py up` serves that."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gligabao.settings")

application = get_wsgi_application()
