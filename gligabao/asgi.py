"""The ASGI application: Django behind the gate."""

from __future__ import annotations

import os
import tempfile

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gligabao.settings")
django_app = get_asgi_application()

# The gate needs the apps, which the line above has loaded.
from django.conf import settings  # noqa: E402

from gligabao.gate import gate  # noqa: E402

# Whatever is spooled lies in our folder, also where nobody names one.
tempfile.tempdir = str(settings.TEMP_DIR)

application = gate(django_app)
