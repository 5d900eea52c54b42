"""The two ways in which Spark reads a table."""

from __future__ import annotations

from functools import partial

import pytest

from delta_ops.spark import file_index
from delta_ops.spark.file_index import IndexUnavailableError


@pytest.fixture(params=["file index", "file list"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways to read."""

    def refused(error: type[Exception], *_args: object) -> None:
        raise error("the other way was asked for")

    if request.param == "file index":
        monkeypatch.setattr("delta_ops.spark.file_list.scan", partial(refused, AssertionError))
    else:
        monkeypatch.setattr(file_index, "relation", partial(refused, IndexUnavailableError))
    return str(request.param)
