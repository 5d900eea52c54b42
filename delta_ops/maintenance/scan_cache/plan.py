"""Whether a table needs a scan cache. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.storage import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCachePlan:
    """Whether a version needs a scan cache."""

    version: int
    cached_version: int | None
    """The version of the scan cache; None if there is none that can be used."""
    problem: str | None = None
    """Why the existing scan cache cannot be used, as part of a sentence."""
    needs_checkpoint: bool = False
    """Whether the checkpoint of the version is written first."""
    unused: tuple[FileInfo, ...] = ()
    """Cache files to delete: no reader uses them."""

    @property
    def is_missing(self) -> bool:
        """Whether the version has no scan cache yet."""
        return self.cached_version != self.version

    @property
    def has_work(self) -> bool:
        """Whether there is anything to write or to delete."""
        return self.is_missing or bool(self.unused)
