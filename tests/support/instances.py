"""Dagster instances for tests: each separate, on SQLite as by default."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg


@contextmanager
def new_instance() -> Iterator[dg.DagsterInstance]:
    """An unused instance; its tables are copied, because creating them is slow."""
    with TemporaryDirectory(prefix="dagster-") as folder:
        home = Path(folder) / "home"
        shutil.copytree(_unused_home().name, home)
        with dg.instance_for_test(temp_dir=str(home)) as instance:
            yield instance


@cache
def _unused_home() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="dagster-")
    with dg.instance_for_test(temp_dir=folder.name) as instance:
        # Each call creates the tables that it reads.
        instance.get_runs(limit=1)
        instance.fetch_materializations(dg.AssetKey("none"), limit=1)
        instance.all_instigator_state()
    return folder
