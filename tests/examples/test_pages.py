"""The examples of pages that need nothing from other pages, as printed; each page in a folder."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_ops import errors
from delta_ops.orchestration.arrays.array_settings import CHUNKS_KEY
from delta_ops.orchestration.io_manager import input_settings, output_settings
from delta_ops.orchestration.shared_tables import PUBLISHED_FROM_KEY, SHARED_KEY
from delta_ops.orchestration.tables import TABLE_KEY
from delta_ops.orchestration.tags import (
    IDEMPOTENCY_TAG,
    JOB_TAG,
    READ_TAG,
    REPRODUCE_TAG,
    TABLE_TAG,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
TESTS = Path(__file__).resolve().parents[1]
WITHOUT_SPARK = (
    "concurrency.md",
    "errors.md",
    "expressions.md",
    "from-deltalake.md",
    "how-a-table-works.md",
    "indexes.md",
    "maintenance-concepts.md",
    "metadata-keys.md",
    "predicates.md",
    "scan-cache.md",
    "branches.md",
    "releases.md",
    "reproduce.md",
    "tags.md",
    "write-audit-publish.md",
    "write-sessions.md",
    "arrays.md",
)
WITH_SPARK = ("from-delta-spark.md", "streaming.md")
IN_TEST_README = ("assets.md", "maintenance-jobs.md", "stores.md", "without-dagster.md")
"""Pages that test_readme.py runs together."""
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def has_packages(page: str) -> bool:
    """Whether the packages of a page's examples are installed."""
    return page != "arrays.md" or None not in map(find_spec, ("zarr", "xarray"))


def run_examples(page: str) -> None:
    examples = _BLOCK.findall((DOCS / page).read_text())
    assert examples
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples:
        exec(compile(example, page, "exec", dont_inherit=True), names)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=pytest.mark.skipif(not has_packages(page), reason="no zarr or xarray")
        )
        for page in WITHOUT_SPARK
    ],
)
def test_the_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(page)


@pytest.mark.parametrize("page", WITH_SPARK)
def test_the_examples_for_spark_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(page)


def test_every_page_with_an_example_has_a_test() -> None:
    tests = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    pages = [path.name for path in DOCS.glob("*.md") if _BLOCK.search(path.read_text())]
    without = [page for page in pages if page not in tests and page not in IN_TEST_README]
    assert pages
    assert without == []


def test_the_page_of_metadata_keys_has_each_key() -> None:
    rows = re.findall(r"^\| (`.+?) \| ", (DOCS / "metadata-keys.md").read_text(), re.MULTILINE)
    listed = [key for row in rows for key in re.findall(r"`([^`]+)`", row)]
    assert set(listed) == {
        *output_settings.OUTPUT_KEYS,
        *input_settings.INPUT_KEYS,
        IDEMPOTENCY_TAG,
        JOB_TAG,
        READ_TAG,
        REPRODUCE_TAG,
        TABLE_TAG,
        TABLE_KEY,
        CHUNKS_KEY,
        output_settings.PUBLISH_KEY,
        PUBLISHED_FROM_KEY,
        SHARED_KEY,
        "dagster/uri",
    }


def test_the_page_of_errors_has_each_error() -> None:
    listed = re.findall(r"^\| `(\w+)` \| ", (DOCS / "errors.md").read_text(), re.MULTILINE)
    kinds = [
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.DeltaOpsError)
    ]
    assert sorted(listed) == sorted(set(kinds) - {"DeltaOpsError"})
