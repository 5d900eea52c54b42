"""Rows of a block: a look-up finds what the decoded rows hold."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from delta_ops.arrays.rows import VALUE_COLUMNS, BlockRows, Value, rows_of
from delta_ops.errors import ArrayKeyError

BLOCK = "10-0"
ROWS = [(f"a/c/{number}", Value(data=bytes([number]))) for number in range(8)]


def block_rows(rows: Iterable[tuple[str, Value]]) -> BlockRows:
    table = rows_of("/a", BLOCK, rows).select(VALUE_COLUMNS)
    batches = table.to_batches(max_chunksize=3)
    return BlockRows(table="t", version=1, node="/a", block=BLOCK, batches=batches)


def test_each_row_is_found_however_often_it_is_looked_up() -> None:
    block = block_rows(ROWS)
    for _ in range(20):
        assert [(key, block.find(key)) for key, _ in ROWS] == ROWS
    assert block.find("a/c/8") is None
    assert dict(ROWS) == block.all()


def test_a_row_is_found_after_the_block_was_decoded() -> None:
    block = block_rows(ROWS)
    assert dict(ROWS) == block.all()
    assert [(key, block.find(key)) for key, _ in ROWS] == ROWS


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param(ROWS[0], "two rows", id="a second row of a key"),
        pytest.param(("a/c/12", Value(data=b"1")), "belongs to block", id="a row of another block"),
        pytest.param(("b/c/2", Value(data=b"1")), "belongs to block", id="a row of another node"),
        pytest.param(("a/c/9", Value()), "neither data nor", id="a row without bytes"),
    ],
)
def test_an_invalid_row_is_rejected_by_its_look_up_and_by_reads_of_all_rows(
    row: tuple[str, Value], reason: str
) -> None:
    block = block_rows([*ROWS, row])
    with pytest.raises(ArrayKeyError, match=reason):
        block.find(row[0])
    assert block.find("a/c/5") == Value(data=b"\5")
    with pytest.raises(ArrayKeyError, match=reason):
        block.all()
