"""The backends of delta_ops."""

from __future__ import annotations

from delta_ops.storage.backends.azure import AZURE
from delta_ops.storage.backends.gcs import GCS
from delta_ops.storage.backends.local import LOCAL
from delta_ops.storage.backends.memory import MEMORY
from delta_ops.storage.backends.s3 import S3

BACKENDS = (MEMORY, S3, GCS, AZURE, LOCAL)
