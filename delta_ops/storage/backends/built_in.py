"""The backends of delta_ops."""

from __future__ import annotations

from delta_ops.storage.backends.azure import AZURE
from delta_ops.storage.backends.backend import Backend
from delta_ops.storage.backends.gcs import GCS
from delta_ops.storage.backends.memory import MEMORY
from delta_ops.storage.backends.s3 import S3
from delta_ops.store_names import StoreNames

LOCAL = Backend(names=StoreNames(schemes=("file", "local")), is_local=True)
"""The file system of this machine; `storage.local` reads and writes it."""

BACKENDS = (MEMORY, S3, GCS, AZURE, LOCAL)
