"""Partition values of many files, however their maps are laid out."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.log.pruning import _values_of
from delta_ops.protocol.arrow_schemas import STRING_MAP

VALUES = st.none() | st.text(max_size=2)
UNIFORM = st.lists(st.sampled_from("pqr"), unique=True, min_size=1).flatmap(
    lambda names: st.lists(
        st.lists(VALUES, min_size=len(names), max_size=len(names)).map(
            lambda values: list(zip(names, values, strict=True))
        )
    )
)
ODD = st.lists(
    st.none() | st.dictionaries(st.sampled_from("pqr"), VALUES).map(lambda d: [*d.items()])
)


@given(UNIFORM | ODD, st.sampled_from("pqx"), st.integers(0, 3), st.integers(0, 3))
def test_values_are_found_as_one_by_one(
    rows: list[list[tuple[str, str | None]] | None], name: str, skipped: int, left_out: int
) -> None:
    maps = pa.array(rows, STRING_MAP).slice(skipped, max(len(rows) - skipped - left_out, 0))
    expected = [None if row is None else dict(row).get(name) for row in maps.to_pylist()]
    assert _values_of(maps, name).to_pylist() == expected
