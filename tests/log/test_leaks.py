"""Long-running writers: a process keeps no memory of its commits."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path

import pytest

from delta_ops import begin
from delta_ops.protocol.file_names import log_file_name
from delta_ops.protocol.json.codec import encode_commit
from tests.support.tables import add, write_log


def num_objects() -> int:
    log_file_name.cache_clear()  # bounded, and larger than the counted values
    gc.collect()
    return len(gc.get_objects())


def test_encoding_a_thousand_commits_leaves_no_object() -> None:
    encode_commit([add("a")])
    before = num_objects()
    for _ in range(1_000):
        encode_commit([add("a")])
    assert num_objects() - before < 100


@pytest.mark.full
@pytest.mark.parametrize("count", [100, 1_000])
def test_commits_leave_no_object(tmp_path: Path, count: int) -> None:
    log = write_log(tmp_path, [[add("a")]])
    numbers = itertools.count()

    def commit(count: int) -> None:
        for number in itertools.islice(numbers, count):
            transaction = begin(log)
            transaction.set_transaction(("app", number))
            transaction.commit(operation="WRITE")

    commit(20)
    before = num_objects()
    commit(count)
    assert num_objects() - before < count // 2
