"""The examples in docstrings of the Spark engine and of `delta_ops.tables` run, in one session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.docstring_examples import (
    names_with_examples,
    names_without_examples,
    run_examples,
)

PACKAGES = ("delta_ops.spark", "delta_ops.tables")
EXAMPLES = [
    pytest.param(package, name, id=f"{package}.{name}")
    for package in PACKAGES
    for name in names_with_examples(package)
]


@pytest.mark.some_cases(8)
@pytest.mark.parametrize(("package", "name"), EXAMPLES)
def test_the_example_runs(
    package: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(package, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_has_an_example(package: str) -> None:
    names = names_without_examples(package)
    assert {name for name in names if not name.endswith("Exception")} == set()
