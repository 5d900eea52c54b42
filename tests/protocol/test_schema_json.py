"""The schema and its JSON."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    find_field,
    leaves,
    schema_from_json,
    schema_to_json,
    walk,
)
from tests.protocol.typed_values import VALUES
from tests.support.tables import SHARED, needs_shared

NESTED = StructType(
    (
        StructField("a", INTEGER, nullable=False),
        StructField("b", StructType((StructField("d", INTEGER, nullable=False),))),
        StructField("c", ArrayType(INTEGER, contains_null=False)),
        StructField("e", ArrayType(StructType((StructField("d", DATE),)))),
        StructField("f", MapType(STRING, DecimalType(10, 2))),
    )
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)
primitives: st.SearchStrategy[DataType] = st.sampled_from(
    [*VALUES, PrimitiveType("void"), PrimitiveType("variant"), PrimitiveType("interval day")]
)


def _struct(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    metadata = st.dictionaries(st.text(), json_values, max_size=2)
    fields = st.builds(StructField, st.text(min_size=1), inner, st.booleans(), metadata)
    return st.lists(fields, max_size=3).map(lambda listed: StructType(tuple(listed)))


types: st.SearchStrategy[DataType] = st.recursive(
    primitives,
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans())
        | st.builds(MapType, inner, inner, st.booleans())
        | _struct(inner)
    ),
    max_leaves=6,
)
schemas = _struct(types)


@given(schemas)
def test_a_schema_survives_json(schema: StructType) -> None:
    assert schema_from_json(schema_to_json(schema)) == schema


def test_keys_are_in_sparks_order_without_white_space() -> None:
    schema = StructType(
        (
            StructField("k", LONG, nullable=False, metadata={"comment": "naïve", "n": 1}),
            StructField("m", MapType(STRING, ArrayType(LONG), value_contains_null=False)),
        )
    )
    assert schema_to_json(schema) == (
        '{"type":"struct","fields":['
        '{"name":"k","type":"long","nullable":false,"metadata":{"comment":"naïve","n":1}},'
        '{"name":"m","type":{"type":"map","keyType":"string","valueType":'
        '{"type":"array","elementType":"long","containsNull":true},"valueContainsNull":false},'
        '"nullable":true,"metadata":{}}]}'
    )


def _schema_strings() -> set[str]:
    found: set[str] = set()
    for commit in Path(SHARED, "data/tables").glob("**/_delta_log/0*.json"):
        for line in commit.read_text(encoding="utf-8-sig").splitlines():
            try:
                action = json.loads(line)
            except ValueError:
                continue
            found.add((action.get("metaData") or {}).get("schemaString") or "")
    return found - {""}


@needs_shared
def test_schemas_of_other_writers_are_written_as_they_were_read() -> None:
    strings = _schema_strings()
    assert len(strings) > 50
    assert {schema_to_json(schema_from_json(text)) for text in strings} == strings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "not JSON", id="no JSON"),
        pytest.param('"long"', "must be a struct and is long", id="a type that is no struct"),
        pytest.param("[]", "The schema has [] where a type belongs", id="a list"),
        pytest.param('{"type":"struct"}', "has the fields None", id="a struct without fields"),
        pytest.param(
            '{"type":"struct","fields":[1]}', "not a JSON object: 1", id="a field that is a number"
        ),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        schema_from_json(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        pytest.param({"type": None}, "None where a type belongs", id="no type"),
        pytest.param({"type": {"type": "udt"}}, "'udt', unknown to Delta", id="a Spark UDT"),
        pytest.param({"type": "decimal(39,0)"}, "precision goes from 1 to 38", id="39 digits"),
        pytest.param({"type": "decimal(2,3)"}, "decimal(2,3)", id="more scale than precision"),
        pytest.param({"nullable": "yes"}, "nullable 'yes' where a bool", id="nullable as text"),
        pytest.param(
            {"metadata": []}, "metadata that is not a JSON object", id="metadata as a list"
        ),
        pytest.param(
            {"type": {"type": "array", "elementType": "long"}}, "containsNull None", id="half array"
        ),
    ],
)
def test_a_malformed_column_is_refused_by_name(field: dict[str, Any], message: str) -> None:
    inner = {"name": "b", "type": "long", "nullable": True, "metadata": {}, **field}
    struct = {"type": "struct", "fields": [inner]}
    outer = {"name": "a", "type": struct, "nullable": True, "metadata": {}}
    with pytest.raises(InvalidRequestError) as refused:
        schema_from_json(json.dumps({"type": "struct", "fields": [outer]}))
    assert "Column a.b" in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "decimal", DecimalType(10, 0), id="a decimal without digits is Spark's default"
        ),
        pytest.param("decimal(7)", DecimalType(7, 0), id="a decimal without scale"),
        pytest.param("decimal( 7 , 2 )", DecimalType(7, 2), id="a decimal with blanks"),
        pytest.param("void", PrimitiveType("void"), id="void is kept for others to refuse"),
        pytest.param({"type": "variant"}, PrimitiveType("variant"), id="variant as an object"),
    ],
)
def test_type_names(name: object, expected: DataType) -> None:
    field = {"name": "a", "type": name, "nullable": True, "metadata": {}}
    schema = schema_from_json(json.dumps({"type": "struct", "fields": [field]}))
    assert schema.fields[0].data_type == expected


@pytest.mark.parametrize(
    ("names", "requested", "found"),
    [
        pytest.param(["Id", "day"], "ID", "Id", id="case does not count"),
        pytest.param(["id", "ID"], "ID", "ID", id="the exact name wins"),
    ],
)
def test_find_field(names: list[str], requested: str, found: str) -> None:
    schema = StructType(tuple(StructField(name, LONG) for name in names))
    assert find_field(schema, requested).name == found


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        pytest.param("Id", "could be any of id, ID", id="names differ only in case"),
        pytest.param("nope", "no column nope; the columns are id, ID, day", id="an unknown name"),
    ],
)
def test_find_field_refuses(requested: str, message: str) -> None:
    schema = StructType(tuple(StructField(name, LONG) for name in ("id", "ID", "day")))
    with pytest.raises(InvalidRequestError) as refused:
        find_field(schema, requested)
    assert message in str(refused.value)


def test_leaves_go_through_structs_only() -> None:
    assert [".".join(path) for path, _ in leaves(NESTED)] == ["a", "b.d", "c", "e", "f"]


def test_walk_goes_through_everything_parents_first() -> None:
    paths = [".".join(path) for path, _ in walk(NESTED)]
    nested = ["b", "b.d", "c", "c.element", "e", "e.element", "e.element.d"]
    assert paths == ["a", *nested, "f", "f.key", "f.value"]


@given(schemas)
def test_schemas_hash_and_pickle(schema: StructType) -> None:
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema
    assert hash(copy) == hash(schema)
    assert copy.fields_by_lower_name == schema.fields_by_lower_name
