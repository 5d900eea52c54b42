"""The local backend: the file system of this machine. `storage.local` reads and writes it."""

from __future__ import annotations

from delta_ops.storage.backends.backend import Backend
from delta_ops.store_names import StoreNames

LOCAL = Backend(names=StoreNames(schemes=("file", "local")), is_local=True)
