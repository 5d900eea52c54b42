"""File actions as values, as lines and as rows: each form converts to the others."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddFile, DeletionVector, RemoveFile
from delta_ops.protocol.arrow_schemas import ADD, STRING_MAP, add_files, remove_files
from delta_ops.protocol.json.codec import decode_commits, encode_commit
from tests.protocol.test_json_file_actions import LINES
from tests.support.tables import add

VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab", size_in_bytes=3, cardinality=2, offset=1
)


@given(LINES)
@settings(max_examples=80, deadline=None)
def test_written_rows_are_read_unchanged(actions: list[AddFile | RemoveFile]) -> None:
    decoded = decode_commits([encode_commit(actions)])[0]
    assert add_files(decoded.adds) == [a for a in actions if isinstance(a, AddFile)]
    assert remove_files(decoded.removes) == [a for a in actions if isinstance(a, RemoveFile)]


@given(LINES)
@settings(max_examples=80, deadline=None)
def test_lines_match_the_standard_library(actions: list[AddFile | RemoveFile]) -> None:
    for line in encode_commit(actions).splitlines():
        again = json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))
        assert line == again.encode()


def test_fields_have_the_order_of_the_reference() -> None:
    each = add("a b", tags={"t": None}, stats="{}", deletion_vector=VECTOR, base_row_id=1)
    assert encode_commit([each]) == (
        b'{"add":{"path":"a b","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true'
        b',"stats":"{}","tags":{"t":null},"deletionVector":{"storageType":"u","pathOrInlineDv":"ab"'
        b',"offset":1,"sizeInBytes":3,"cardinality":2},"baseRowId":1}}\n'
    )
    gone = RemoveFile(path="x", deletion_timestamp=7, data_change=False, partition_values={})
    assert encode_commit([gone]) == (
        b'{"remove":{"path":"x","deletionTimestamp":7,"dataChange":false,"partitionValues":{}}}\n'
    )


def test_a_mapping_that_is_no_dict_is_written_too() -> None:
    values = MappingProxyType({"p": "1"})
    assert b'"partitionValues":{"p":"1"}' in encode_commit([add("x", partition_values=values)])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"path": "\ud800"}, id="half of a surrogate pair"),
        pytest.param({"size": object()}, id="no number"),
    ],
)
def test_values_without_a_json_form_cannot_be_committed(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be written as JSON"):
        encode_commit([add(**{"path": "x", **changes})])


def test_maps_of_a_slice_match_its_rows() -> None:
    maps = pa.array([[("a", "1")], None, [], [("a", None), ("b", "2")], [("a", "3")]], STRING_MAP)
    nulls = {name: pa.nulls(5, ADD.field(name).type) for name in ADD.names}
    rows = pa.table({**nulls, "path": list("uvwxy"), "size": [0] * 5, "partitionValues": maps})
    found = {each.path: each.partition_values for each in add_files(rows.slice(1, 3))}
    assert found == {"v": {}, "w": {}, "x": {"a": None, "b": "2"}}
