"""What a training file may hold: a streaming validator, and rows as the trainer sees them.

Pure: no database, no settings, no network.
"""

from datasets.formats.names import check_filename
from datasets.formats.rows import FORMATS, detect, normalise
from datasets.formats.validator import Validation, validate

__all__ = ["FORMATS", "Validation", "check_filename", "detect", "normalise", "validate"]
