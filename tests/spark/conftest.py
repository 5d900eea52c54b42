"""The two ways of Spark to read a table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops.spark.read import file_index, file_list
from delta_ops.spark.read.file_index import IndexUnavailableError
from delta_ops.spark.versions import arrow_of

if not hasattr(DataFrame, "toArrow"):  # before Spark 4.0
    setattr(DataFrame, "toArrow", arrow_of)  # noqa: B010  mypy rejects the assignment


@pytest.fixture
def registered(spark: SparkSession) -> Iterator[None]:
    """The format `delta` of the session is ours during the test."""
    ds.register(spark)
    yield
    ds.unregister(spark)


@pytest.fixture(params=["file index", "file list"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways to read."""
    if request.param == "file index":
        refuse(monkeypatch, file_list, "scan", AssertionError)
    else:
        switch_off_file_index(monkeypatch)
    return str(request.param)


def switch_off_file_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by the list of files."""
    refuse(monkeypatch, file_index, "relation", IndexUnavailableError)


def refuse(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, error: type[Exception]
) -> None:
    """Let a function of a module raise this error."""

    def refused(*_args: object, **_options: object) -> None:
        raise error("the other way was chosen")

    monkeypatch.setattr(module, name, refused)
