"""Texts and bytes that another writer stored as Arrow views, in files with deleted rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.nesting import has_views
from delta_ops.ddl import set_properties
from delta_ops.maintenance import optimize, purge
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.foreign_table import create, data_file, inline_vector
from tests.support.tables import rows, rows_by_polars

VIEW = pa.string_view()
KINDS = {
    "texts": (VIEW, ["a", None, "c", "a long text of more than twelve bytes"]),
    "bytes": (pa.binary_view(), [b"a", b"", None, b"d"]),
    "fields": (pa.struct([("q", VIEW), ("n", pa.int64())]), [{"q": "a", "n": 1}, None, {}, {}]),
    "lists": (pa.list_(VIEW), [["a", None], [], None, ["d"]]),
    "values of maps": (pa.map_(pa.string(), VIEW), [[("a", "b")], [], None, [("c", None)]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_left_are_read(tmp_path: Path, kind: str) -> None:
    data_type, values = KINDS[kind]
    assert has_views(data_type)
    stored = pa.table({"id": range(4), "v": pa.array(values, data_type)})
    file = data_file(tmp_path, "a.parquet", stored, deletion_vector=inline_vector([1, 2]))
    log = create(tmp_path, schema_from_arrow(stored.schema), [file])
    left: Any = da.to_table(log)
    assert left["id"].to_pylist() == [0, 3]
    expected = stored["v"].to_pylist()
    assert left["v"].to_pylist() == [expected[0], expected[3]]
    assert da.to_table(log, predicate=col("id") == 3)["v"].to_pylist() == [expected[3]]


def test_a_table_that_polars_wrote_is_changed_by_vectors(tmp_path: Path) -> None:
    data = {
        "id": [1, 2, 3, 4],
        "s": ["a", "b", None, "d"],
        "n": [{"q": "x"}, None, {"q": ""}, None],
    }
    pl.DataFrame(data).write_delta(str(tmp_path))
    set_properties(tmp_path, {"delta.enableDeletionVectors": "true"})
    da.delete(tmp_path, col("id") == 1)
    da.update(tmp_path, {"s": "concat(s, '!')"}, col("id") == 2)
    merge = da.merge(tmp_path, pa.table({"id": [3]}), "target.id = source.id")
    merge.when_matched_delete().execute()
    expected = [{"id": 2, "s": "b!", "n": None}, {"id": 4, "s": "d", "n": None}]
    assert rows(da.to_table(tmp_path)) == expected
    optimize(tmp_path, zorder_by=["s"])
    purge(tmp_path)
    assert rows(da.to_table(tmp_path)) == expected
    assert rows_by_polars(tmp_path) == expected
    files = DeltaLog(tmp_path).snapshot().add_files()
    assert not any(each.deletion_vector for each in files)


def test_types_without_views_are_distinguished() -> None:
    for data_type in (pa.string(), pa.list_view(pa.int32()), pa.json_(), pa.null(), pa.uuid()):
        assert not has_views(data_type)
    # Arrow looks only at the index type of a dictionary.
    assert not has_views(pa.dictionary(pa.int32(), VIEW))
