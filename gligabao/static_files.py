"""Static files under names that hold their digest: compressed once, cached by browsers for ever."""

from __future__ import annotations

import json

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from servestatic.storage import CompressedManifestStaticFilesStorage

from gligabao import __version__

# Collected again when any of these changes; see `_fingerprint`.
STAMP = "collected.json"


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Also rewrites the addresses in `import "./name.js"` to those with the digest."""

    support_js_module_import_aggregation = True


def collect_static_files() -> None:
    """Fill STATIC_ROOT, unless it holds just these files already.

    It takes seconds, so that a start without a change does not pay for it. Files of earlier
    versions are removed: a page that is open in a browser has loaded its own.
    """
    fingerprint = _fingerprint()
    stamp = settings.STATIC_ROOT / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == fingerprint:
        return
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp.write_text(fingerprint, encoding="utf-8")


def _fingerprint() -> str:
    """Names, sizes and times of all files that would be collected, and our version."""
    files = []
    for finder in get_finders():
        for path, storage in finder.list([]):
            files.append([path, storage.size(path), storage.get_modified_time(path).timestamp()])
    return json.dumps([__version__, sorted(files)])
