"""Rejected protocols and features, with the feature's name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

import pytest

from delta_ops.errors import LogCorruptError, UnsupportedFeatureError
from delta_ops.protocol import features
from delta_ops.protocol.actions import Format, Metadata, Protocol
from delta_ops.protocol.features import (
    FEATURES,
    Engine,
    Feature,
    Operation,
    feature_of,
    lacking_features,
)
from delta_ops.protocol.schema import (
    INTEGER,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    PrimitiveType,
    StructField,
    StructType,
    schema_to_json,
)
from delta_ops.protocol.table_definition import TableDefinition, validate

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
ENGINES: tuple[Engine, ...] = get_args(Engine)


def protocol(
    reader: int, writer: int, read: list[str] | None = None, written: list[str] | None = None
) -> Protocol:
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=None if read is None else tuple(read),
        writer_features=None if written is None else tuple(written),
    )


def metadata(*fields: StructField, **changes: Any) -> Metadata:
    schema = StructType((StructField("id", INTEGER), *fields))
    return Metadata(**{"id": "x", "schema_string": schema_to_json(schema), **changes})


PLAIN = protocol(1, 2)


def judge(
    requested: Protocol, table: Metadata, operation: Operation, engine: Engine | None = None
) -> None:
    definition = TableDefinition(protocol=requested, metadata=table)
    validate(definition, operation, table="memory://t", engine=engine)


def refused(
    requested: Protocol, table: Metadata, operation: Operation, engine: Engine | None = None
) -> tuple[str, ...]:
    try:
        judge(requested, table, operation, engine)
    except UnsupportedFeatureError as error:
        return error.features
    return ()


def refused_for_reading(
    requested: Protocol, table: Metadata, engine: Engine = "spark"
) -> tuple[str, ...]:
    return refused(requested, table, "read", engine)


def refused_for_writing(requested: Protocol, table: Metadata) -> tuple[str, ...]:
    return refused(requested, table, "write", "spark")


def test_a_refusal_names_the_table_the_operation_and_every_feature() -> None:
    requested = protocol(3, 7, ["quantum"], ["quantum", "clustering"])
    with pytest.raises(UnsupportedFeatureError) as refused:
        judge(requested, metadata(), "read", "spark")
    assert str(refused.value).startswith(
        "memory://t cannot be read by Spark: it uses quantum, which"
    )
    with pytest.raises(UnsupportedFeatureError) as refused:
        judge(requested, metadata(), "write", "spark")
    expected = "memory://t cannot be written: it uses quantum, clustering without domainMetadata,"
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("requested", "read", "written"),
    [
        pytest.param(protocol(1, 1), (), (), id="the first versions"),
        pytest.param(PLAIN, (), (), id="append-only and invariants"),
        pytest.param(protocol(1, 3), (), (), id="CHECK constraints"),
        pytest.param(protocol(1, 4), (), (), id="writer 4"),
        pytest.param(protocol(2, 5), (), (), id="column mapping"),
        pytest.param(protocol(1, 6), (), (), id="writer 6"),
        pytest.param(protocol(3, 7, [], []), (), (), id="features, but none"),
        pytest.param(
            protocol(3, 7, ["timestampNtz"], ["timestampNtz", "appendOnly", "invariants"]),
            (),
            (),
            id="the features that we know",
        ),
        pytest.param(
            protocol(3, 7, ["vacuumProtocolCheck"], ["vacuumProtocolCheck"]),
            (),
            (),
            id="a feature that readers need not act on",
        ),
        pytest.param(
            protocol(1, 7, None, ["checkConstraints", "rowTracking"]),
            (),
            ("rowTracking without domainMetadata",),
            id="features of writers only",
        ),
        pytest.param(
            protocol(
                3, 7, ["deletionVectors", "quantum"], ["deletionVectors", "quantum", "liquid"]
            ),
            ("quantum",),
            ("quantum", "liquid"),
            id="unknown features are named too",
        ),
        pytest.param(
            protocol(2, 7, None, ["columnMapping"]),
            (),
            (),
            id="column mapping as a feature of writers and a version of readers",
        ),
        pytest.param(
            protocol(9, 7, ["quantum"], []),
            ("reader version 9", "quantum"),
            ("reader version 9", "quantum"),
            id="a reader version to come",
        ),
        pytest.param(protocol(1, 8), (), ("writer version 8",), id="a writer version to come"),
    ],
)
def test_protocols(requested: Protocol, read: tuple[str, ...], written: tuple[str, ...]) -> None:
    assert refused_for_reading(requested, metadata()) == read
    assert refused_for_writing(requested, metadata()) == written


def required(feature: Feature) -> Iterator[str]:
    """The feature, and all that it requires."""
    yield feature.name
    for name in feature.requires:
        yield from required(feature_of(name))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_every_feature_is_supported_or_refused_by_name(feature: Feature) -> None:
    names = list(required(feature))
    read = [each for each in names if feature_of(each).for_readers]
    requested = protocol(3, 7, read, names)
    for operation, engine in product(OPERATIONS, ENGINES):
        is_required = feature.for_readers or operation not in ("open", "read")
        is_refused = is_required and not feature.supports(operation, engine)
        found = refused(requested, metadata(), operation, engine)
        assert (feature.name in found) == is_refused
        assert set(found) <= set(names)


@pytest.mark.parametrize("for_readers", [True, False])
def test_a_feature_whose_row_says_nothing_is_refused_by_name_everywhere(
    monkeypatch: pytest.MonkeyPatch, for_readers: bool
) -> None:
    row = Feature(name="quantum", for_readers=for_readers)
    monkeypatch.setattr(features, "FEATURES", (*FEATURES, row))
    requests = protocol(3, 7, ["quantum"] if for_readers else [], ["quantum"])
    for operation, engine in product(OPERATIONS, ENGINES):
        is_required = for_readers or operation not in ("open", "read")
        expected = ("quantum",) if is_required else ()
        assert refused(requests, metadata(), operation, engine) == expected


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_feature_without_one_that_it_requires_is_read_and_kept_but_not_written(
    monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    row = Feature(
        name="quantum",
        for_readers=True,
        requires=("domainMetadata",),
        operations=frozenset(OPERATIONS),
        read_by=frozenset(ENGINES),
        written_by=frozenset(ENGINES),
    )
    monkeypatch.setattr(features, "FEATURES", (*FEATURES, row))
    alone = protocol(3, 7, ["quantum"], ["quantum"])
    beside_it = protocol(3, 7, ["quantum"], ["quantum", "domainMetadata"])
    is_commit = operation in ("write", "restore")
    assert refused(alone, metadata(), operation) == (
        ("quantum without domainMetadata",) if is_commit else ()
    )
    assert refused(beside_it, metadata(), operation) == ()


def test_no_feature_is_listed_twice() -> None:
    names = [feature.name for feature in FEATURES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        pytest.param(protocol(3, 7, None, []), "has no readerFeatures", id="no reader features"),
        pytest.param(
            protocol(1, 7), "writer version 7 has no writerFeatures", id="no writer features"
        ),
        pytest.param(protocol(3, 2, []), "needs writer version 7", id="a writer version too low"),
        pytest.param(
            protocol(1, 7, ["timestampNtz"], ["timestampNtz"]),
            "reader version 1 cannot have readerFeatures (timestampNtz)",
            id="reader features too early",
        ),
        pytest.param(
            protocol(1, 2, None, ["appendOnly"]),
            "writer version 2 cannot have writerFeatures",
            id="writer features too early",
        ),
        pytest.param(
            protocol(3, 7, ["timestampNtz"], []),
            "readerFeatures that are not writerFeatures: timestampNtz",
            id="writers do not know of a reader feature",
        ),
        pytest.param(
            protocol(3, 7, [], ["deletionVectors"]),
            "must also be readerFeatures: deletionVectors",
            id="a feature is no reader feature",
        ),
        pytest.param(
            protocol(1, 7, None, ["columnMapping"]),
            "must also be readerFeatures: columnMapping",
            id="column mapping is no reader feature",
        ),
    ],
)
def test_a_protocol_that_contradicts_itself(requested: Protocol, reason: str) -> None:
    for operation in OPERATIONS:
        with pytest.raises(LogCorruptError) as caught:
            judge(requested, metadata(), operation)
        assert reason in str(caught.value)
        assert caught.value.table == "memory://t"


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_engines_read_what_the_table_of_features_says(engine: Engine) -> None:
    features = ["columnMapping", "deletionVectors", "typeWidening", "variantType"]
    requested = protocol(3, 7, [*features, "quantum"], [*features, "quantum"])
    types = (StructField("v", PrimitiveType("variant")), StructField("n", PrimitiveType("void")))
    assert refused_for_reading(requested, metadata(*types), engine) == ("quantum",)
    assert refused_for_reading(protocol(2, 5), metadata(), engine) == ()


def test_mapped_columns_are_refused_if_the_protocol_does_not_list_the_feature() -> None:
    mapped = metadata(configuration={"delta.columnMapping.mode": "name"})
    assert refused_for_reading(PLAIN, mapped, "arrow") == ("columnMapping",)
    assert refused_for_reading(protocol(2, 5), mapped, "arrow") == ()


def test_empty_lists_below_the_versions_that_have_them_are_harmless() -> None:
    assert refused_for_reading(protocol(1, 2, [], []), metadata()) == ()


@pytest.mark.parametrize(
    ("table", "read"),
    [
        pytest.param(metadata(format=Format(provider="orc")), "format provider orc", id="orc"),
        pytest.param(
            metadata(format=Format(options={"key": "1"})), "format option key", id="format options"
        ),
        pytest.param(
            metadata(StructField("v", PrimitiveType("interval day to second"))),
            "type interval day to second of column v",
            id="a type we have never heard of",
        ),
        pytest.param(
            metadata(configuration={"delta.columnMapping.mode": "name"}),
            "columnMapping",
            id="column mapping that the protocol does not know of",
        ),
    ],
)
def test_metadata_that_cannot_be_read_cannot_be_written(table: Metadata, read: str) -> None:
    assert refused_for_reading(PLAIN, table) == (read,)
    assert refused_for_writing(PLAIN, table) == (read,)


@pytest.mark.parametrize(
    ("name", "why"), [("variant", " without feature variantType"), ("void", "")]
)
def test_types_that_are_read_and_not_written(name: str, why: str) -> None:
    table = metadata(StructField("v", ArrayType(PrimitiveType(name))))
    assert refused_for_reading(PLAIN, table) == ()
    assert refused_for_writing(PLAIN, table) == (f"type {name} of column v.element{why}",)


def test_only_the_arrow_engine_writes_tables_with_void_columns() -> None:
    table = metadata(StructField("v", PrimitiveType("void")))
    assert refused(PLAIN, table, "write", "arrow") == ()
    assert refused(PLAIN, table, "write", "spark") == ("type void of column v",)


@pytest.mark.parametrize(
    ("table", "written"),
    [
        pytest.param(
            metadata(StructField("a", INTEGER, metadata={"delta.invariants": "{}"})),
            "the invariant of column a",
            id="an invariant that cannot be read",
        ),
        pytest.param(
            metadata(
                StructField(
                    "s",
                    ArrayType(
                        StructType((StructField("a", INTEGER, metadata={"delta.invariants": ""}),))
                    ),
                )
            ),
            "the invariant of column s.element.a",
            id="an invariant, however deep",
        ),
        pytest.param(
            metadata(StructField("a", INTEGER, metadata={"delta.generationExpression": 1})),
            "generated column a",
            id="a generated column that cannot be read",
        ),
        pytest.param(
            metadata(StructField("a", INTEGER, metadata={"delta.identity.start": 1})),
            "identity column a",
            id="an identity column",
        ),
        pytest.param(
            metadata(StructField("t", TIMESTAMP_NTZ)),
            "type timestamp_ntz of column t without feature timestampNtz",
            id="a type that the protocol does not allow",
        ),
    ],
)
def test_rules_that_nobody_attests_are_refused_for_writing_only(
    table: Metadata, written: str
) -> None:
    assert refused_for_reading(PLAIN, table) == ()
    assert refused_for_writing(PLAIN, table) == (written,)


@pytest.mark.parametrize(
    ("field", "written"),
    [
        pytest.param(
            StructField("v", VARIANT, metadata={"delta.generationExpression": "parse_json(t)"}),
            ("generated column v",),
            id="a variant is not computed",
        ),
        pytest.param(
            StructField("d", INTEGER, metadata={"delta.generationExpression": "a + 1"}),
            (),
            id="a number is",
        ),
        pytest.param(
            StructField(
                "s",
                StructType(
                    (StructField("d", INTEGER, metadata={"delta.generationExpression": "a + 1"}),)
                ),
            ),
            ("generated column s.d",),
            id="a field of a struct is not",
        ),
    ],
)
def test_generated_columns_that_engines_compute(
    field: StructField, written: tuple[str, ...]
) -> None:
    names = ["generatedColumns", "variantType"]
    requested = protocol(3, 7, names[1:], names)
    assert refused_for_writing(requested, metadata(field)) == written


def test_timestamp_ntz_is_written_with_its_feature() -> None:
    requested = protocol(3, 7, ["timestampNtz"], ["timestampNtz"])
    assert refused_for_writing(requested, metadata(StructField("t", TIMESTAMP_NTZ))) == ()


def test_harmless_metadata_is_no_obstacle() -> None:
    table = metadata(
        StructField("a", INTEGER, metadata={"comment": "x"}),
        configuration={"delta.columnMapping.mode": "None", "delta.appendOnly": "true"},
        format=Format(provider="PARQUET"),
    )
    assert refused_for_writing(PLAIN, table) == ()


def test_a_malformed_schema_is_a_corrupt_log() -> None:
    with pytest.raises(LogCorruptError) as caught:
        judge(PLAIN, Metadata(id="x", schema_string="{"), "read")
    assert "memory://t: metaData: The schema is not JSON" in str(caught.value)


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        pytest.param(protocol(3, 7, ["deletionVectors"], ["deletionVectors"]), (), id="vectors"),
        pytest.param(protocol(2, 5), (), id="column mapping"),
        pytest.param(protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint"]), (), id="V2 checkpoints"),
        pytest.param(
            protocol(3, 7, ["catalogManaged", "quantum"], ["catalogManaged", "quantum"]),
            ("catalogManaged", "quantum"),
            id="what makes the log say something else",
        ),
        pytest.param(protocol(4, 7), ("reader version 4",), id="a reader version of the future"),
    ],
)
def test_a_table_is_opened_if_its_log_is_understood(
    requested: Protocol, expected: tuple[str, ...]
) -> None:
    assert refused(requested, metadata(), "open") == expected


def test_a_refusal_uses_the_words_of_the_operation() -> None:
    requested = protocol(3, 7, ["quantum"], ["quantum"])
    done: dict[Operation, str] = {"open": "opened", "vacuum": "vacuumed", "clean up": "cleaned up"}
    for operation, word in done.items():
        with pytest.raises(UnsupportedFeatureError, match=f"cannot be {word}: it uses quantum"):
            judge(requested, metadata(), operation)


def test_supported_features_have_their_dependencies() -> None:
    for each in FEATURES:
        assert each.read_by >= (each.written_by if each.for_readers else frozenset())
        assert not each.read_by or "open" in each.operations
        assert not each.written_by or "restore" in each.operations
        assert each.for_readers or not each.read_by
        assert set(each.requires) <= {other.name for other in FEATURES}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("day", "There is no column day; the columns are id", id="not there"),
        pytest.param("ID", "the partition column ID is called id in the schema", id="another case"),
    ],
)
def test_a_partition_column_that_the_schema_lacks_is_damage_of_the_log(
    name: str, reason: str
) -> None:
    with pytest.raises(LogCorruptError, match=f"metaData: {reason}"):
        judge(PLAIN, metadata(partition_columns=("id", name)), "open")


def test_a_list_of_readers_counts_below_the_version_that_has_lists() -> None:
    requested = protocol(1, 8, ["quantum"], ["quantum"])
    assert refused(requested, metadata(), "open") == ("quantum",)


def test_a_schema_that_only_an_unknown_feature_explains_is_no_damage() -> None:
    requested = protocol(3, 7, ["quantum"], ["quantum"])
    schema = '{"type":"struct","fields":[{"name":"q","type":{"type":"qubit"},"nullable":true}]}'
    with pytest.raises(UnsupportedFeatureError, match="quantum"):
        judge(requested, Metadata(id="x", schema_string=schema), "open")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"delta.constraints.c": "id > 0"}, None, id="rows kept a constraint"),
        pytest.param({"delta.columnMapping.mode": "name"}, "columnMapping", id="mapped files"),
    ],
)
def test_properties_that_need_no_feature(changes: dict[str, str], message: str | None) -> None:
    table = metadata(configuration=changes)
    if message is None:
        judge(PLAIN, table, "restore")
        return
    with pytest.raises(UnsupportedFeatureError, match=message):
        judge(PLAIN, table, "restore")


def test_how_far_an_identity_column_has_counted_is_not_kept() -> None:
    counted = StructField("n", INTEGER, metadata={"delta.identity.highWaterMark": 5})
    with pytest.raises(UnsupportedFeatureError, match="identity column n"):
        judge(PLAIN, metadata(counted), "restore")


@pytest.mark.parametrize(
    ("has", "than", "lacking"),
    [
        (PLAIN, PLAIN, []),
        (protocol(1, 7, None, ["appendOnly", "invariants"]), PLAIN, []),
        (protocol(1, 7, None, ["appendOnly"]), PLAIN, ["invariants"]),
        (PLAIN, protocol(3, 7, ["deletionVectors"], ["deletionVectors"]), ["deletionVectors"]),
        (PLAIN, protocol(1, 7, None, ["unheardOf"]), ["unheardOf"]),
        (protocol(1, 4), protocol(1, 2), []),
    ],
)
def test_missing_features_of_a_protocol(has: Protocol, than: Protocol, lacking: list[str]) -> None:
    assert lacking_features(has, than=than) == lacking
