"""Row changes in a transaction with other changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import Transaction, begin, col
from delta_ops.errors import InvalidRequestError

FEED = {"delta.enableChangeDataFeed": "true"}


def merge(transaction: Transaction) -> object:
    source = pa.table({"a": [2]})
    return da.merge(transaction, source, "target.a = source.a").when_matched_delete().execute()


@pytest.mark.parametrize(
    "change",
    [
        lambda transaction: da.delete(transaction, "a = 2"),
        lambda transaction: da.update(transaction, {"a": "a + 10"}, "a = 2"),
        merge,
    ],
    ids=["delete", "update", "merge"],
)
@pytest.mark.parametrize("is_added", [True, False], ids=["rows added", "rows removed"])
@pytest.mark.parametrize("has_feed", [True, False], ids=["feed", "no feed"])
def test_a_commit_whose_feed_would_miss_rows_is_refused(
    tmp_path: Path, change: Callable[[Transaction], object], is_added: bool, has_feed: bool
) -> None:
    da.write(tmp_path, pa.table({"a": [1, 2, 3]}), configuration=FEED if has_feed else None)
    da.write(tmp_path, pa.table({"a": [100]}))
    transaction = begin(tmp_path)
    assert transaction.snapshot
    if is_added:
        transaction.stage(da.stage_write(transaction, pa.table({"a": [10]})))
    else:
        transaction.remove(transaction.snapshot.add_files(col("a") == 100))
    before = sorted(da.to_table(tmp_path)["a"].to_pylist())
    if has_feed:
        with pytest.raises(InvalidRequestError, match="the change data feed cannot record"):
            change(transaction)
        assert sorted(da.to_table(tmp_path)["a"].to_pylist()) == before
        return
    change(transaction)
    rows = set(da.to_table(tmp_path)["a"].to_pylist())
    assert rows >= {1, 3}
    assert (2 in rows, 10 in rows, 100 in rows) == (False, is_added, is_added)
