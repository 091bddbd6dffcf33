"""The Django project: settings, and what every app shares."""

from gligabao.celery import app as celery_app

__all__ = ["celery_app"]
__version__ = "0.1.0"
