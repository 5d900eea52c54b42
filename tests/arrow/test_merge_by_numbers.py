"""Merges by integer, date or time keys: near each other, far apart, and at the limits."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import delta_ops.arrow as da
from tests.support.examples import check_examples, few_or_many

TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us")]
BITS = {"date32[day]": 19, "timestamp[us]": 55}
"""Types whose values are limited to years that every library supports."""

Keys = list[int | None]


@st.composite
def keys_of(draw: st.DrawFn, data_type: pa.DataType) -> Keys:
    bits = BITS.get(str(data_type), data_type.bit_width - 1)
    least, most = -(2**bits), 2**bits - 1
    middle = draw(st.sampled_from([least, -3, 0, most, most // 3]))
    width = draw(st.sampled_from([4, 40, 10**5]))
    near = st.integers(max(least, middle - width), min(most, middle + width))
    return draw(st.lists(st.none() | near | st.sampled_from([least, 0, most]), max_size=40))


def table_of(keys: Keys, n: int, data_type: pa.DataType) -> pa.Table:
    numbers = pa.array(keys, pa.int32() if data_type == pa.date32() else pa.int64())
    return pa.table({"k": numbers.cast(data_type), "n": pa.array([n] * len(keys), pa.int64())})


def counted(path: Path) -> Counter[tuple[int | None, int]]:
    found = da.to_table(path)
    width = pa.int32() if found["k"].type == pa.date32() else pa.int64()
    numbers = found["k"].cast(width).to_pylist()
    return Counter(zip(numbers, found["n"].to_pylist(), strict=True))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("data_type", TYPES, ids=str)
@few_or_many(8, 40)
def test_rows_match_rows_with_the_same_number(data_type: pa.DataType, num_examples: int) -> None:
    def check(target: Keys, source: Keys) -> None:
        check_merges(data_type, target, source)

    keys = keys_of(data_type)
    check_examples(num_examples, check, keys, keys)


def check_merges(data_type: pa.DataType, target: Keys, source: Keys) -> None:
    distinct = [*dict.fromkeys(source)]
    with tempfile.TemporaryDirectory() as folder:
        taken, updated = Path(folder, "taken"), Path(folder, "updated")
        for path in (taken, updated):
            da.write(path, table_of(target, 0, data_type))
        merge = da.merge(taken, table_of(source, 1, data_type), "target.k = source.k")
        merge.when_matched_delete().when_not_matched_insert_all().execute()
        merge = da.merge(updated, table_of(distinct, 1, data_type), "target.k = source.k")
        merge.when_matched_update({"n": "target.n + source.n + 1"}).execute()
        new = [(key, 1) for key in source if key is None or key not in target]
        left = [(key, 0) for key in target if key is None or key not in source]
        assert counted(taken) == Counter(left + new)
        changed = Counter((key, 2) for key in target if key is not None and key in source)
        assert counted(updated) == Counter(left) + changed
