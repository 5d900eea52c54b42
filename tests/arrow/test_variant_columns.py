"""Variant columns at any place in a table, with any names and any values."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.read.variant_columns import mark_variant
from delta_ops.errors import DataFileError
from delta_ops.protocol.schema import (
    BINARY,
    INTEGER,
    STRING,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, arrow_type_from_type
from delta_ops.protocol.variant import FieldNames, field_names, valid_value
from delta_ops.storage import open_storage
from tests.support.examples import check_examples, few_or_many
from tests.support.mutations import cut_gap, flip, repeat_piece, truncate
from tests.support.tables import SHARED, needs_shared
from tests.support.tiers import seeded
from tests.support.variants import (
    NO_NAMES,
    NULL,
    decode,
    dictionary,
    encode,
    fields,
    group,
    names_in,
    read,
    row,
    says,
    shredded_type,
    values,
    write,
    write_log,
)

NUMBER = shredded_type(pa.int64())
PLAIN = arrow_type_from_type(VARIANT)
_INNER = StructType((StructField("n", INTEGER), StructField("v", VARIANT)))
NESTED = StructType(
    (
        StructField("s", _INNER),
        StructField("l", ArrayType(VARIANT)),
        StructField("m", MapType(STRING, VARIANT)),
        StructField("d", ArrayType(_INNER)),
    )
)
ONE = {"metadata": NO_NAMES, "value": encode(1, field_names(NO_NAMES))}


def test_variants_in_structs_lists_and_maps(tmp_path: Path) -> None:
    struct = pa.struct([("n", pa.int32()), ("v", NUMBER)])
    stored = pa.table(
        {
            "s": pa.array([{"n": 1, "v": row(1)}, None, {"n": 2, "v": None}], struct),
            "l": pa.array([[row(1), None, row(2)], None, [row(None)]], pa.list_(NUMBER)),
            "m": pa.array([[("a", row(3)), ("b", None)], None, []], pa.map_(pa.string(), NUMBER)),
            "d": pa.array([[{"n": 1, "v": row(4)}], [None], []], pa.list_(struct)),
        }
    )
    table = da.to_table(write(tmp_path, stored, NESTED))
    table.validate(full=True)
    assert table.schema.types == arrow_schema_from_schema(NESTED).types
    assert [said(each) for each in table.to_pylist()] == [
        {
            "s": {"n": 1, "v": 1},
            "l": [1, None, 2],
            "m": [["a", 3], ["b", None]],
            "d": [{"n": 1, "v": 4}],
        },
        {"s": None, "l": None, "m": None, "d": [None]},
        {"s": {"n": 2, "v": None}, "l": ["null"], "m": [], "d": []},
    ]


def said(value: Any) -> Any:
    """The decoded values as Python values; "null" is the variant null."""
    match value:
        case {"metadata": metadata, "value": content}:
            return "null" if content == NULL else decode(content, metadata)
        case dict():
            return {name: said(each) for name, each in value.items()}
        case list() | tuple():
            return [said(each) for each in value]
    return value


def test_all_parts_of_a_variant_are_read_where_one_field_of_a_struct_is_wanted(
    tmp_path: Path,
) -> None:
    struct = pa.struct([("n", pa.int32()), ("v", NUMBER)])
    stored = pa.table({"s": pa.array([{"n": 1, "v": row(1)}, None], struct)})
    log = write(tmp_path, stored, StructType(NESTED.fields[:1]))
    found = da.to_table(log, ["s.v"])["s"].to_pylist()
    assert [said(each) for each in found] == [{"v": 1}, None]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_variants_of_mapped_columns(tmp_path: Path, mode: str) -> None:
    def mapped(name: str, number: int, data_type: DataType) -> StructField:
        metadata = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{number}",
        }
        return StructField(name, data_type, metadata=metadata)

    def stored(number: int, data_type: pa.DataType) -> pa.Field:
        name = f"col-{number}" if mode == "name" else f"another-{number}"
        return pa.field(name, data_type, metadata={"PARQUET:field_id": str(number)})

    inner = StructType((mapped("v", 3, VARIANT),))
    schema = StructType((mapped("v", 1, VARIANT), mapped("l", 2, ArrayType(inner))))
    structs = pa.list_(pa.struct([stored(3, NUMBER)]))
    columns = [
        pa.array([row(1), None], NUMBER),
        pa.array([[{structs.value_type[0].name: row(2)}], None], structs),
    ]
    file = pa.Table.from_arrays(columns, schema=pa.schema([stored(1, NUMBER), stored(2, structs)]))
    table = da.to_table(write(tmp_path, file, schema, mode))
    assert [said(each) for each in table.to_pylist()] == [
        {"v": 1, "l": [{"v": 2}]},
        {"v": None, "l": None},
    ]


def test_a_store_gives_all_parts_of_a_variant(tmp_path: Path) -> None:
    stored = pa.table({"n": pa.array([1, 2], pa.int32()), "v": pa.array([row(1), None], NUMBER)})
    schema = StructType((StructField("n", INTEGER), StructField("v", VARIANT)))
    write(tmp_path, stored, schema)
    storage = open_storage(f"memory://{tmp_path.name}/t")
    for each in tmp_path.rglob("*.*"):
        storage.create(each.relative_to(tmp_path).as_posix(), each.read_bytes())
    table = da.to_table(DeltaLog(f"memory://{tmp_path.name}/t"), ["v"])
    assert [said(each) for each in table.to_pylist()] == [{"v": 1}, {"v": None}]


def test_a_struct_with_the_same_fields_is_no_variant(tmp_path: Path) -> None:
    names = ["metadata", "value", "typed_value"]
    struct = StructType(tuple(StructField(name, BINARY) for name in names[:2]))
    stored = pa.array(
        [dict.fromkeys(names, b"x"), None], pa.struct([(n, pa.binary()) for n in names])
    )
    log = write(tmp_path, pa.table({"v": stored}), StructType((StructField("v", struct),)))
    assert da.to_table(log)["v"].to_pylist() == [{"metadata": b"x", "value": b"x"}, None]


def test_data_in_the_form_of_the_table_are_not_checked(tmp_path: Path) -> None:
    assert mark_variant(PLAIN, "v") is PLAIN
    stored = pa.array([{"metadata": b"any", "value": b"bytes"}, None], PLAIN)
    assert read(tmp_path, stored).to_pylist() == stored.to_pylist()


def test_a_value_that_may_be_missing_is_the_variant_null_where_it_is(tmp_path: Path) -> None:
    group = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    stored = [ONE, {"metadata": NO_NAMES, "value": None}, None]
    assert says(read(tmp_path, pa.array(stored, group))) == [1, None, "SQL NULL"]


class Annotated(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Arrow's variant type, which Arrow knows only after its registration."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "arrow.parquet.variant")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _serialized: bytes) -> Annotated:
        return cls(storage)


@contextmanager
def registered() -> Iterator[None]:
    """While Arrow knows that type."""
    pa.register_extension_type(Annotated(PLAIN))
    try:
        yield
    finally:
        pa.unregister_extension_type("arrow.parquet.variant")


def annotated(content: bytes, name: str, num_parts: int) -> bytes:
    """A Parquet file whose footer marks a group with the logical type VARIANT(1).

    Source: parquet.thrift, `SchemaElement` (10: logicalType), `LogicalType` (16: VARIANT).
    """
    size = int.from_bytes(content[-8:-4], "little")
    rest, footer = content[: -8 - size], content[-8 - size : -8]
    element = b"\x18" + bytes([len(name)]) + name.encode() + b"\x15" + bytes([2 * num_parts])
    assert footer.count(element + b"\x00") == 1
    footer = footer.replace(element + b"\x00", element + b"\x5c\x0c\x20\x00\x00\x00")
    return b"".join([rest, footer, len(footer).to_bytes(4, "little"), b"PAR1"])


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    "stored",
    [pa.array([row(1), None], NUMBER), pa.array([ONE, None], PLAIN)],
    ids=["apart", "whole"],
)
def test_the_annotation_of_variants_in_parquet(
    tmp_path: Path, stored: pa.Array, is_known: bool
) -> None:
    sink = BytesIO()
    pq.write_table(pa.table({"v": stored}), sink, store_schema=False)
    content = annotated(sink.getvalue(), "v", stored.type.num_fields)
    (tmp_path / "x.parquet").write_bytes(content)
    log = write_log(tmp_path, StructType((StructField("v", VARIANT),)))
    with registered() if is_known else nullcontext():
        seen = pq.read_schema(tmp_path / "x.parquet").field("v").type
        column = da.to_table(log)["v"].combine_chunks()
    assert isinstance(seen, Annotated) is is_known
    assert column.type == PLAIN
    assert says(column) == [1, "SQL NULL"]


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array(["x", "y", "x"], pa.large_string()),
        pa.array(["x", "y", "x"], pa.string_view()),
    ],
    ids=["a dictionary", "large", "views"],
)
def test_arrow_types_that_a_file_declares(tmp_path: Path, texts: pa.Array) -> None:
    metadata = pa.array([NO_NAMES] * 3, pa.large_binary())
    value = pa.nulls(3, pa.binary_view())
    stored = pa.StructArray.from_arrays(
        [metadata, value, texts], names=["metadata", "value", "typed_value"]
    )
    pq.write_table(pa.table({"v": stored}), tmp_path / "x.parquet")
    log = write_log(tmp_path, StructType((StructField("v", VARIANT),)))
    assert says(da.to_table(log)["v"].combine_chunks()) == ["x", "y", "x"]


_LEAF_TYPES = {
    pa.int64(): int,
    pa.string(): str,
    pa.bool_(): bool,
    pa.float64(): float,
    pa.binary(): bytes,
}

types = st.recursive(
    st.none() | st.sampled_from(list(_LEAF_TYPES)),
    lambda inner: (
        inner.map(lambda each: pa.list_(part_type(each)))
        | st.dictionaries(st.sampled_from(["a", "b", "é.x"]), inner, min_size=1).map(
            lambda parts: pa.struct(
                [pa.field(name, part_type(each), nullable=False) for name, each in parts.items()]
            )
        )
    ),
    max_leaves=6,
)
"""The parts with columns of their own, if any."""


def part_type(typed: pa.DataType | None) -> pa.StructType:
    """The type of a field or an element."""
    return pa.struct([("value", pa.binary())]) if typed is None else group(typed)


def shred(value: Any, typed: pa.DataType | None, names: FieldNames) -> dict[str, Any]:
    """The stored form of a value for these columns."""
    whole = {"value": encode(value, names)}
    if typed is None:
        return whole
    if pa.types.is_list(typed) and isinstance(value, list):
        inner = type_of(typed.value_type)
        return {"value": None, "typed_value": [shred(each, inner, names) for each in value]}
    if pa.types.is_struct(typed) and isinstance(value, dict):
        own = {each.name: each.type for each in typed}
        rest = {name: each for name, each in value.items() if name not in own}
        parts = {
            name: shred(value[name], type_of(each), names) if name in value else {}
            for name, each in own.items()
        }
        return {"value": encode(rest, names) if rest else None, "typed_value": parts}
    is_leaf = type(value) is _LEAF_TYPES.get(typed)
    return {"value": None, "typed_value": value} if is_leaf else {**whole, "typed_value": None}


def type_of(part: pa.StructType) -> pa.DataType | None:
    """The type of the shredded columns of a field or an element, if any."""
    return part.field("typed_value").type if part.num_fields > 1 else None


@few_or_many(25, 100)
def test_shredded_variants_are_reassembled(num_examples: int) -> None:
    variants = st.lists(values | st.just(...), min_size=1, max_size=5)
    check_examples(num_examples, check_round_trip, variants, types)


def check_round_trip(variants: list[Any], typed: pa.DataType | None) -> None:
    """Every variant has its own dictionary; `...` means no variant."""
    metadata = [dictionary(sorted(names_in(each), reverse=True)) for each in variants]
    stored = [
        None if each is ... else {"metadata": own, **shred(each, typed, field_names(own))}
        for each, own in zip(variants, metadata, strict=True)
    ]
    data_type = pa.struct([("metadata", pa.binary()), *part_type(typed)])
    with TemporaryDirectory() as root:
        found = read(Path(root), pa.array(stored, data_type)).to_pylist()
    assert [each and each["metadata"] for each in found] == [
        None if each is ... else own for each, own in zip(variants, metadata, strict=True)
    ]
    # Compared as bytes, because 1, 1.0 and True are equal in Python.
    assert [each and each["value"] for each in found] == [
        None if each is ... else encode(each, field_names(own))
        for each, own in zip(variants, metadata, strict=True)
    ]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 6))]
)
def test_damaged_bytes_are_refused_or_put_together_to_something_valid(
    tmp_path: Path, seed: int
) -> None:
    rnd = seeded(seed)
    names = dictionary(["c", "b", "a"], 1)
    rest = encode({"b": [1, "x", {"c": None}]}, field_names(names))
    element = encode({"c": "y" * 70}, field_names(names))
    typed = fields(a=pa.list_(group(pa.int64())))
    for i in range(30):
        damage = rnd.choice([flip, flip, truncate, cut_gap, repeat_piece])
        parts = [names, rest, element]
        at = rnd.randrange(3)
        parts[at] = damage(parts[at], rnd)
        elements = [{"value": parts[2]}, {"typed_value": 2}]
        stored = row({"a": {"typed_value": elements}}, parts[1], parts[0])
        try:
            (found,) = read(tmp_path / str(i), pa.array([stored], shredded_type(typed))).to_pylist()
        except DataFileError:
            continue
        valid_value(found["value"], field_names(found["metadata"]))


def test_a_file_that_another_writer_shredded(tmp_path: Path) -> None:
    """Written by DuckDB 2.0.0, which chose the columns itself.

    COPY (SELECT * FROM (VALUES
        (1, {'name': 'Alice', 'age': 30, 'tags': ['x', 'y'], 'in': {'b': NULL, 'a': 1},
             'day': DATE '2020-02-29'}::VARIANT),
        (2, {'name': 'Bob', 'age': 'old', 'zip': 1, 'alias': 'B'}::VARIANT),
        (3, {'age': 5}::VARIANT), (4, 42::VARIANT), (5, NULL), (6, [1]::VARIANT)) v(id, v))
    TO 'shredded_by_duckdb.parquet' (FORMAT parquet, COMPRESSION zstd)
    """
    shutil.copy(Path(__file__).with_name("shredded_by_duckdb.parquet"), tmp_path / "x.parquet")
    schema = StructType((StructField("id", INTEGER), StructField("v", VARIANT)))
    found = da.to_table(write_log(tmp_path, schema)).to_pylist()
    assert [by_spark(each["v"]) for each in found] == [
        {
            "age": 30,
            "day": "2020-02-29",
            "in": {"a": 1, "b": None},
            "name": "Alice",
            "tags": ["x", "y"],
        },
        {"age": "old", "alias": "B", "name": "Bob", "zip": 1},
        {"age": 5},
        42,
        None,
        [1],
    ]


@needs_shared
def test_a_table_that_may_have_shredded_variants() -> None:
    """Its values match its row numbers, by its own writer's decoder."""
    table = da.to_table(
        DeltaLog(SHARED / "data/tables/delta_rs/spark-shredded-variant-preview-delta")
    )
    assert sorted(table["id"].to_pylist()) == sorted([*range(100), 0, 1])
    for each in table.to_pylist():
        one = {"key": each["id"]}
        assert {name: by_spark(value) for name, value in each.items()} == {
            "id": each["id"],
            "v": one,
            "array_of_variants": [one, None, one, None, one],
            "struct_of_variants": {"v": one},
            "map_of_variants": [[str(each["id"]), one], ["nullKey", None]],
            "array_of_struct_of_variants": [
                {"v": one},
                {"v": None},
                None,
                {"v": one},
                None,
                {"v": one},
            ],
            "struct_of_array_of_variants": {"v": [None, one]},
        }


def by_spark(value: Any) -> Any:
    """The value as Spark's own decoder reads it, as a Python value."""
    match value:
        case {"metadata": metadata, "value": content}:
            return json.loads(VariantUtils.to_json(content, metadata))
        case dict():
            return {name: by_spark(each) for name, each in value.items()}
        case list() | tuple():
            return [by_spark(each) for each in value]
    return value
