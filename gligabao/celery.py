"""The Celery app. Without Redis its broker is a folder under DATA_DIR.

No task's loss matters: whatever has to happen is a row with a state and a lease, and the
sweep of `training.tasks` sends what is due again. That is why a broker made of files is enough.
"""

from __future__ import annotations

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gligabao.settings")

TRANSPORT_ALIASES["files"] = "gligabao.file_queue:Transport"

app = Celery("gligabao")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["training", "datasets"])
