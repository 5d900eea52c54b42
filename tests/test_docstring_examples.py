"""The examples in docstrings of public names run, and each public name that users call has one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.docs.api_pages import PACKAGES
from tests.support.docstring_examples import (
    names_with_examples,
    names_without_examples,
    run_examples,
)

WITH_SPARK = ("delta_ops.spark", "delta_ops.tables")
"""Packages whose examples tests/spark runs."""
WITH_ZARR = ("delta_ops.arrays",)
"""Packages whose names need Zarr, which an environment made earlier may lack."""
TESTED = [
    each
    for each in PACKAGES
    if each not in WITH_SPARK and (each not in WITH_ZARR or find_spec("zarr"))
]
EXAMPLES = [
    pytest.param(package, name, id=f"{package}.{name}")
    for package in TESTED
    for name in names_with_examples(package)
]
NAMED_PACKAGES = [each for each in TESTED if each != "delta_ops.errors"]
WITHOUT_EXAMPLE = {
    # Their parts are on docs/pipes.md and docs/components.md, where tests run them.
    "delta_ops.pipes": {"write_asset"},
    "delta_ops.components": {
        "DeltaLakeComponent",
        "DeltaMaintenanceComponent",
        "DeltaTableComponent",
    },
    # `MaintenanceConfig` is made from the registry; `run_available_now` is on docs/streaming.md.
    "delta_ops.orchestration": {
        "ChangedValues",
        "MaintenanceConfig",
        "TableRead",
        "run_available_now",
    },
    "delta_ops.maintenance": {
        "AdvisedLayout",
        "Failure",
        "Finding",
        "FoundTables",
        "HealthFigures",
        "HealthReport",
        "IndexInfo",
        "IndexRefresh",
        "IndexesRefresh",
        "LayoutAdvice",
        "TableHealth",
        "TableMaintenance",
    },
}
"""Names without an example of their own: users receive these values from a call that has one."""
RECEIVED = ("Result", "Plan")
"""Ends of further names of this kind."""


@pytest.mark.parametrize(("package", "name"), EXAMPLES)
def test_the_example_runs(
    package: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(package, name)


@pytest.mark.parametrize("package", NAMED_PACKAGES)
def test_each_public_name_has_an_example(package: str) -> None:
    without = {name for name in names_without_examples(package) if not name.endswith(RECEIVED)}
    assert without == WITHOUT_EXAMPLE.get(package, set())
