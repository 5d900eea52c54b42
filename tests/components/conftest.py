"""Real Dagster instances, and folders of definitions loaded as in a project."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from dagster.components.testing.utils import DefsFolderSandbox, create_defs_folder_sandbox


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory, for runs in this process."""
    with dg.DagsterInstance.ephemeral() as real:
        yield real


@pytest.fixture
def sandbox() -> Iterator[DefsFolderSandbox]:
    with create_defs_folder_sandbox() as folder:
        yield folder
