"""What can be done with datasets: upload, sync with the folder, open, inspect, delete."""

from datasets.services.deletion import delete, register_use_check
from datasets.services.folders import live_status
from datasets.services.inspection import get_dataset, rows, stored_path
from datasets.services.opening import OpenedDataset, default_dataset, open_for_job, open_version
from datasets.services.staging import Staged, staged
from datasets.services.sync import SyncResult, sync_from_directory
from datasets.services.uploads import Outcome, save_upload, store

__all__ = [
    "OpenedDataset",
    "Outcome",
    "Staged",
    "SyncResult",
    "default_dataset",
    "delete",
    "get_dataset",
    "live_status",
    "open_for_job",
    "open_version",
    "register_use_check",
    "rows",
    "save_upload",
    "staged",
    "store",
    "stored_path",
    "sync_from_directory",
]
