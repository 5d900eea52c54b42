"""Invalid logs and files: one table, damaged in many ways, one at a time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl, maintenance
from delta_ops.protocol.file_names import checkpoint_name, checksum_name, commit_name

Damage = Callable[[Path], None]
"""Damages the table in a folder."""
Json = dict[str, Any]

LATEST = 4
"""The last version of the table; version 2 has a checkpoint."""
CHECKPOINT = 2
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "p": ["a", "a", "b", None],
        "s": pa.array([{"x": 1, "t": "u"}, None, {"x": 3, "t": None}, {"x": 4, "t": "v"}]),
    }
)
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointInterval": "100",
}
DEEP = "[" * 100_000 + "]" * 100_000
LONG = "9" * 5_000
STRUCTS = '{"type":"struct","fields":[{"name":"a","nullable":true,"metadata":{},"type":'


def create_table(root: Path) -> None:
    """Rows in two partitions and a null partition, a deletion vector, changes, and a checkpoint."""
    da.write(root, ROWS, partition_by=["p"], configuration=PROPERTIES)
    ddl.add_constraint(root, "positive", "id > 0")
    da.write(root, ROWS.slice(0, 2))
    maintenance.create_checkpoint(root)
    da.delete(root, "id = 1")
    da.update(root, {"id": "id + 10"}, "id = 3")


def log_file(root: Path, name: str) -> Path:
    """A file of the log by its name."""
    return root / "_delta_log" / name


def actions_of(root: Path, version: int) -> list[Json]:
    """The actions of a commit."""
    lines = log_file(root, commit_name(version)).read_text().splitlines()
    return [json.loads(line) for line in lines]


def set_actions(root: Path, version: int, actions: Iterable[Json | str]) -> None:
    """Replace a commit; a text becomes a line unchanged."""
    lines = (each if isinstance(each, str) else json.dumps(each) for each in actions)
    log_file(root, commit_name(version)).write_text("\n".join(lines) + "\n")
    log_file(root, checksum_name(version)).unlink(missing_ok=True)


def commit(*actions: Json | str) -> Damage:
    """One more commit with these actions."""
    return lambda root: set_actions(root, LATEST + 1, actions)


def with_fields(kind: str, **fields: Any) -> Damage:
    """Commit the last action of this kind again with other fields; `...` omits a field."""

    def damage(root: Path) -> None:
        versions = range(LATEST, -1, -1)
        last = next(a[kind] for v in versions for a in actions_of(root, v)[::-1] if kind in a)
        changed = {**last, **fields}
        kept = {name: value for name, value in changed.items() if value is not ...}
        set_actions(root, LATEST + 1, [{kind: kept}])

    return damage


def with_vector(**fields: Any) -> Damage:
    """A file with another descriptor of its deletion vector."""

    def damage(root: Path) -> None:
        adds = [a["add"] for v in range(LATEST + 1) for a in actions_of(root, v) if "add" in a]
        last = next(each for each in adds[::-1] if each.get("deletionVector"))
        vector = {**last["deletionVector"], **fields}
        last["deletionVector"] = {k: value for k, value in vector.items() if value is not ...}
        set_actions(root, LATEST + 1, [{"add": last}])

    return damage


def with_properties(**properties: Any) -> Damage:
    """Properties in the metadata, added to the table's; their names have __ for a dot."""
    named = {name.replace("__", "."): value for name, value in properties.items()}
    return with_fields("metaData", configuration={**PROPERTIES, **named})


def with_schema(text: Any) -> Damage:
    """A schema in the form of the log, in a table without partitions."""
    return with_fields("metaData", schemaString=text, partitionColumns=[])


def with_column(data_type: Any = "long", **fields: Any) -> Damage:
    """A schema of one column."""
    column = {"name": "id", "type": data_type, "nullable": True, "metadata": {}, **fields}
    kept = {name: value for name, value in column.items() if value is not ...}
    return with_schema(json.dumps({"type": "struct", "fields": [kept]}))


def in_first_data_file(change: Callable[[Path], None]) -> Damage:
    """A damage to one of the live data files."""

    def damage(root: Path) -> None:
        paths = sorted(DeltaLog(root).snapshot().files(["path"])["path"].to_pylist())
        change(root / paths[0])

    return damage


def in_log_file(name: str, change: Callable[[Path], None]) -> Damage:
    """A damage of a file of the log."""
    return lambda root: change(log_file(root, name))


def write_text(text: str) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        place.write_bytes(text.encode(errors="surrogateescape"))

    return write


def truncate(place: Path) -> None:
    place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])


def replace_by_directory(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.mkdir()


def replace_by_loop(place: Path) -> None:
    place.unlink(missing_ok=True)
    os.symlink(place.name, place)


def write_parquet(table: pa.Table) -> Callable[[Path], None]:
    return lambda place: pq.write_table(table, place)


def nested(levels: int) -> pa.Table:
    """A column of structs nested in structs."""
    data_type = pa.int32()
    for _ in range(levels):
        data_type = pa.struct([("a", data_type)])
    return pa.table({"id": pa.nulls(2, data_type)})


def write_nested(levels: int) -> Callable[[Path], None]:
    """A file with more levels than its reader supports."""
    return lambda place: pq.write_table(nested(levels), place)


def nested_schema(levels: int) -> str:
    return STRUCTS * levels + '"long"' + "}]}" * levels


def change_checkpoint(change: Callable[[pa.Table], pa.Table]) -> Damage:
    """Change the checkpoint, and delete the commits that it covers."""

    def damage(root: Path) -> None:
        place = log_file(root, checkpoint_name(CHECKPOINT))
        pq.write_table(change(pq.read_table(place)), place)
        _drop_commits(root)

    return damage


def _drop_commits(root: Path) -> None:
    for version in range(CHECKPOINT + 1):
        log_file(root, commit_name(version)).unlink()
        log_file(root, checksum_name(version)).unlink(missing_ok=True)


def damaged_checkpoint(change: Callable[[Path], None]) -> Damage:
    """Damage the checkpoint, and delete the commits that it covers."""

    def damage(root: Path) -> None:
        _drop_commits(root)
        change(log_file(root, checkpoint_name(CHECKPOINT)))

    return damage


def remove_files(pattern: str) -> Damage:
    def damage(root: Path) -> None:
        for place in list(root.glob(pattern)):
            place.unlink()

    return damage


def replace_log_by_file(root: Path) -> None:
    shutil.rmtree(root / "_delta_log")
    (root / "_delta_log").write_text("")


def empty_log(root: Path) -> None:
    for place in (root / "_delta_log").iterdir():
        place.unlink()


def add_odd_names(root: Path) -> None:
    """Add log files with names similar to valid names."""
    for name in (
        "9" * 25 + ".json",
        "-1.json",
        f"{commit_name(3)}.tmp",
        "00000000000000000009.crc",
    ):
        log_file(root, name).write_text("{}")
    for name in (f"{'9' * 20}.checkpoint.parquet", "00000000000000000001.checkpoint.x.parquet"):
        log_file(root, name).write_bytes(b"PAR1")
    os.close(os.open(os.fsencode(root) + b"/_delta_log/\xff.json", os.O_CREAT | os.O_WRONLY))


def protocol(**fields: Any) -> Damage:
    values = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], **fields}
    return commit({"protocol": {k: value for k, value in values.items() if value is not ...}})


def domain(name: Any, configuration: Any) -> Damage:
    body = {"domain": name, "configuration": configuration, "removed": False}
    features = ["deletionVectors", "domainMetadata", "clustering", "rowTracking", "changeDataFeed"]
    writer = [*features, "checkConstraints", "appendOnly", "invariants"]
    of_protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": writer,
    }
    return commit({"protocol": of_protocol}, {"domainMetadata": body})


ADD: Json = {
    "path": "x.parquet",
    "partitionValues": {"p": "a"},
    "size": 1,
    "modificationTime": 1,
    "dataChange": True,
}
NUMBERS: Mapping[str, Any] = {
    "a text": "x",
    "negative": -1,
    "over 64 bits": 2**70,
    "a fraction": 1.5,
    "infinite": float("inf"),
    "null": None,
    "a list": [],
    "absent": ...,
}
TEXTS: Mapping[str, Any] = {
    "a number": 5,
    "null": None,
    "a list": ["x"],
    "absent": ...,
    "empty": "",
}
PARTITION_VALUES: Mapping[str, Any] = {
    "null": None,
    "absent": ...,
    "a list": [],
    "of a number": {"p": 5},
    "of others": {"q": "a"},
    "none": {},
}
PATHS: Mapping[str, Any] = {
    **TEXTS,
    "above the table": "../../x",
    "an escape that is none": "a%",
    "an escape of no text": "a%FF",
    "NUL": "a%00b",
    "5000 characters": "x" * 5_000,
    "an unknown scheme": "nope://b/x",
    "a URI without a bucket": "s3://",
    "a half of a pair": "\ud800",
    "a backslash": "a\\b",
    "a directory": "p=a",
    "a slash at the end": "x/",
}
"""Paths exclude stores on a network."""

HOSTILE: dict[str, Damage] = {
    "an intact table": lambda root: None,
    # Deletion vectors.
    **{
        f"a vector whose {field} is {kind}": with_vector(**{field: value})
        for field in ("sizeInBytes", "offset", "cardinality")
        for kind, value in NUMBERS.items()
    },
    **{
        f"a vector whose {field} is {kind}": with_vector(**{field: value})
        for field in ("storageType", "pathOrInlineDv")
        for kind, value in TEXTS.items()
    },
    "a vector of an unknown kind": with_vector(storageType="x"),
    "a vector with a short name": with_vector(pathOrInlineDv="abc"),
    "a vector with a name that is not Z85": with_vector(pathOrInlineDv="~" * 20),
    "a vector with a name beyond UUIDs": with_vector(pathOrInlineDv="#" * 20),
    "a vector whose name has other letters": with_vector(pathOrInlineDv="é" * 25),
    "a vector inline": with_vector(storageType="i", offset=..., pathOrInlineDv="~~"),
    "a vector inline of other bytes": with_vector(
        storageType="i", offset=..., sizeInBytes=4, pathOrInlineDv="00000"
    ),
    "a vector inline whose text is odd": with_vector(
        storageType="i", offset=..., sizeInBytes=40, pathOrInlineDv="abc"
    ),
    **{
        f"a vector whose path is {kind}": with_vector(storageType="p", pathOrInlineDv=value)
        for kind, value in PATHS.items()
    },
    "a vector that is a number": with_fields("add", deletionVector=5),
    "a vector without fields": with_fields("add", deletionVector={}),
    "vector files that are gone": remove_files("**/deletion_vector_*.bin"),
    # Adds.
    **{
        f"an add whose {field} is {kind}": with_fields("add", **{field: value})
        for field in ("size", "modificationTime", "baseRowId")
        for kind, value in NUMBERS.items()
    },
    **{
        f"an add whose path is {kind}": with_fields("add", path=value)
        for kind, value in PATHS.items()
    },
    **{
        f"statistics that are {kind}": with_fields("add", stats=value)
        for kind, value in {
            **TEXTS,
            "cut off": '{"numRecords":',
            "a list in text": "[]",
            "deep": DEEP,
            "of a long number": f'{{"numRecords":{LONG}}}',
            "of a negative number": '{"numRecords":-5}',
            "of a fraction": '{"numRecords":1.5}',
            "of an infinite number": '{"numRecords":1e999}',
            "of a text": '{"numRecords":"x"}',
            "of other bounds": '{"numRecords":1,"minValues":{"id":"x","s":5},"maxValues":[]}',
            "of wrong counts": '{"numRecords":1,"nullCount":{"id":-1,"s":"x"}}',
            "of wide bounds": '{"numRecords":1,"minValues":{"id":1e400},"maxValues":{"id":{}}}',
        }.items()
    },
    **{
        f"partition values that are {kind}": with_fields("add", partitionValues=value)
        for kind, value in PARTITION_VALUES.items()
    },
    "tags that are a text": with_fields("add", tags="x"),
    "a tag that is a number": with_fields("add", tags={"a": 5}),
    "a data change that is a text": with_fields("add", dataChange="yes"),
    "an add that is null": commit({"add": None}),
    "an add that is a list": commit({"add": []}),
    "an add without fields": commit({"add": {}}),
    "two adds of one path": commit({"add": ADD}, {"add": {**ADD, "size": 2}}),
    "an add and a remove of one path": commit(
        {"add": ADD}, {"remove": {"path": "x.parquet", "dataChange": True}}
    ),
    # Other actions.
    **{
        f"a remove whose {field} is {kind}": with_fields("remove", **{field: value})
        for field in ("deletionTimestamp", "size")
        for kind, value in NUMBERS.items()
    },
    **{
        f"a remove whose path is {kind}": with_fields("remove", path=value)
        for kind, value in PATHS.items()
    },
    **{
        f"a txn whose version is {kind}": commit({"txn": {"appId": "a", "version": value}})
        for kind, value in NUMBERS.items()
        if value is not ...
    },
    "a txn without an id": commit({"txn": {"version": 1}}),
    "a change file that is gone": with_fields("cdc", path="gone.parquet"),
    **{
        f"a change file whose path is {kind}": with_fields("cdc", path=value)
        for kind, value in PATHS.items()
    },
    **{
        f"a commitInfo whose {field} is {kind}": commit({"commitInfo": {field: value}})
        for field in (
            "timestamp",
            "operation",
            "operationParameters",
            "operationMetrics",
            "inCommitTimestamp",
            "engineInfo",
            "userMetadata",
            "txnId",
            "readVersion",
            "isBlindAppend",
        )
        for kind, value in {"a number": 5, "a text": "x", "a list": [[]], "long": 2**70}.items()
    },
    "parameters and metrics of other types": commit(
        {
            "commitInfo": {
                "operation": "MERGE",
                "operationParameters": {"predicate": {"a": [1]}, "mode": None, "partitionBy": 5},
                "operationMetrics": {"numOutputRows": "x", "numFiles": None, "a": {"b": 1}},
            }
        }
    ),
    "commit times without the first": with_properties(
        delta__enableInCommitTimestamps="true",
        delta__inCommitTimestampEnablementVersion="x",
        delta__inCommitTimestampEnablementTimestamp="-1",
    ),
    "an unknown action": commit({"nope": {"a": 1}}),
    "an action that is a text": commit('"add"'),
    "an action that is a number": commit("5"),
    "a line that is null": commit("null"),
    "two actions in a line": commit({"add": ADD, "remove": {"path": "y"}}),
    "a line that is cut off": commit('{"add":{"path":"x'),
    "a line of brackets": commit(DEEP),
    "a line of NUL": commit("\0" * 1000),
    "a commit of no line": commit(),
    "a commit that is no text": in_log_file(commit_name(LATEST + 1), write_text("\udcff\udcfe")),
    "a commit that is a directory": in_log_file(commit_name(LATEST + 1), replace_by_directory),
    "a commit that is a loop": in_log_file(commit_name(LATEST + 1), replace_by_loop),
    "a missing commit": in_log_file(commit_name(LATEST - 1), Path.unlink),
    "a cut commit": in_log_file(commit_name(LATEST), truncate),
    # The protocol.
    "a reader version that is a text": protocol(minReaderVersion="3"),
    "a reader version over 64 bits": protocol(minReaderVersion=2**70),
    "a negative writer version": protocol(minWriterVersion=-1),
    "a future version": protocol(minReaderVersion=9, minWriterVersion=99),
    "features that are a text": protocol(readerFeatures="deletionVectors"),
    "features of numbers": protocol(readerFeatures=[5], writerFeatures=[None]),
    "features that are null": protocol(readerFeatures=None, writerFeatures=None),
    "unknown features": protocol(readerFeatures=["nope\x1b[2J"], writerFeatures=["nope\x1b[2J"]),
    "features of readers only": protocol(readerFeatures=["v2Checkpoint"], writerFeatures=[]),
    "a protocol that is null": commit({"protocol": None}),
    # The metadata.
    **{f"a schema that is {kind}": with_schema(value) for kind, value in TEXTS.items()},
    "a schema of null": with_schema("null"),
    "a schema that is a list": with_schema("[]"),
    "a schema without fields": with_schema('{"type":"struct"}'),
    "a schema with fields that are none": with_schema('{"type":"struct","fields":[5]}'),
    "a schema that is cut off": with_schema('{"type":"struct","fields":[{"name":'),
    "a schema of brackets": with_schema(f'{{"type":"struct","fields":{DEEP}}}'),
    "a schema of no column": with_schema('{"type":"struct","fields":[]}'),
    **{
        f"a schema of {levels} levels": with_schema(nested_schema(levels))
        for levels in (50, 90, 150, 400, 5_000)
    },
    **{
        f"a column of type {kind}": with_column(value)
        for kind, value in {
            "null": None,
            "5": 5,
            "nope": "nope",
            "decimal with too many digits": "decimal(99,1)",
            "decimal with too much scale": "decimal(3,9)",
            "decimal of letters": "decimal(a,b)",
            "decimal of long numbers": f"decimal({LONG},1)",
            "list of nothing": {"type": "array"},
            "map of nothing": {"type": "map", "keyType": "string"},
            "struct of nothing": {"type": "struct"},
            "struct of no field": {"type": "struct", "fields": []},
            "an unknown object": {"type": "nope"},
            "void": "void",
            "variant": "variant",
            "interval": "interval year to month",
            "timestamp_ntz": "timestamp_ntz",
            "string": "string",
            "binary": "binary",
            "char": "char(5)",
            "list": {"type": "array", "elementType": "long", "containsNull": True},
        }.items()
    },
    **{f"a column whose name is {kind}": with_column(name=value) for kind, value in TEXTS.items()},
    "a column whose name is odd": with_column(name="a.b`\n\x1b[2J"),
    "a column whose metadata are a list": with_column(metadata=[]),
    "a column whose metadata are absent": with_column(metadata=...),
    "a column whose nullability is a text": with_column(nullable="x"),
    **{
        f"a column with {key}": with_column(metadata={key: value})
        for key, value in {
            "delta.columnMapping.id": "x",
            "delta.columnMapping.physicalName": 5,
            "delta.generationExpression": "id +",
            "delta.identity.start": "x",
            "delta.invariants": "{",
            "CURRENT_DEFAULT": "nope(",
            "__CHAR_VARCHAR_TYPE_STRING": 5,
            "__COLLATIONS": {"id": 5},
            "delta.typeChanges": 5,
            "comment": 5,
        }.items()
    },
    "an invariant of another form": with_column(
        metadata={"delta.invariants": '{"expression":{"expression":5}}'}
    ),
    "type changes of other forms": with_column(
        metadata={"delta.typeChanges": [{"fromType": 5, "toType": None, "fieldPath": 3}]}
    ),
    **{
        f"partition columns that are {kind}": with_fields("metaData", partitionColumns=value)
        for kind, value in {
            **TEXTS,
            "others": ["nope"],
            "twice": ["p", "P"],
            "all": ["id", "p", "s"],
            "numbers": [5],
            "of a struct": ["s"],
        }.items()
    },
    **{
        f"a configuration that is {kind}": with_fields("metaData", configuration=value)
        for kind, value in {**TEXTS, "of numbers": {"a": 5}, "of null": {"delta.a": None}}.items()
    },
    **{
        f"{name.replace('__', '.')} = {kind}": with_properties(**{name: value})
        for name in (
            "delta__checkpointInterval",
            "delta__logRetentionDuration",
            "delta__deletedFileRetentionDuration",
            "delta__dataSkippingStatsColumns",
            "delta__targetFileSize",
            "delta__enableChangeDataFeed",
            "delta__isolationLevel",
            "delta__checkpointPolicy",
            "delta__parquet__compression__codec",
            "delta__requireCheckpointProtectionBeforeVersion",
            "delta__setTransactionRetentionDuration",
            "delta__universalFormat__enabledFormats",
            "delta_ops__policy",
            "delta_ops__recordReads",
        )
        for kind, value in {"a word": "nope", "a long number": LONG, "empty": ""}.items()
    },
    **{
        f"column mapping by {mode} without ids": with_properties(delta__columnMapping__mode=mode)
        for mode in ("name", "id", "nope")
    },
    "row tracking without columns": with_properties(
        delta__enableRowTracking="true",
        delta__rowTracking__materializedRowIdColumnName="id",
    ),
    **{
        f"a constraint that is {kind}": with_properties(delta__constraints__odd=value)
        for kind, value in {
            "empty": "",
            "cut off": "id >",
            "of another column": "nope > 1",
            "of another type": "id > 'x' AND s",
            "two statements": "id > 0; DROP TABLE x",
            "deep": "(" * 3_000 + "id > 0" + ")" * 3_000,
        }.items()
    },
    **{
        f"metadata whose {field} is {kind}": with_fields("metaData", **{field: value})
        for field in ("id", "format", "createdTime", "name", "description")
        for kind, value in {"a number": 5, "a text": "x", "a list": [], "absent": ...}.items()
    },
    # Domains.
    **{
        f"the domain {name} that is {kind}": domain(name, value)
        for name in ("delta.clustering", "delta.rowTracking", "own")
        for kind, value in {
            "a number": 5,
            "no JSON": "{",
            "a list": "[]",
            "of other fields": '{"clusteringColumns":[["nope"],5],"rowIdHighWaterMark":"x"}',
            "of long numbers": f'{{"clusteringColumns":5,"rowIdHighWaterMark":{LONG}}}',
        }.items()
    },
    "a domain without a name": domain(None, "{}"),
    # Data files.
    "a data file that is gone": in_first_data_file(Path.unlink),
    "a data file that is cut off": in_first_data_file(truncate),
    "a data file that is empty": in_first_data_file(write_text("")),
    "a data file that is text": in_first_data_file(write_text("PAR1" + "x" * 5000 + "PAR1")),
    "a data file that is a directory": in_first_data_file(replace_by_directory),
    "a data file that is a loop": in_first_data_file(replace_by_loop),
    "a data file of other types": in_first_data_file(
        write_parquet(pa.table({"id": ["x"], "s": [5]}))
    ),
    "a data file of other columns": in_first_data_file(write_parquet(pa.table({"nope": [1]}))),
    "a data file with a column twice": in_first_data_file(
        write_parquet(pa.table([[1], [2]], names=["id", "ID"]))
    ),
    "a data file of 150 levels": in_first_data_file(write_nested(150)),
    "a data file of lists": in_first_data_file(
        write_parquet(pa.table({"id": pa.array([[1]]), "s": pa.array([[{"x": 1}]])}))
    ),
    # Files of the log.
    "a hint that is no JSON": in_log_file("_last_checkpoint", write_text("{")),
    "a hint of other types": in_log_file(
        "_last_checkpoint", write_text('{"version":"x","size":[],"parts":-1}')
    ),
    "a hint of another version": in_log_file("_last_checkpoint", write_text('{"version":3}')),
    "a hint that is a directory": in_log_file("_last_checkpoint", replace_by_directory),
    "a checksum of other types": in_log_file(
        checksum_name(LATEST), write_text('{"numFiles":"x","metadata":[],"protocol":5}')
    ),
    "a checksum that is a directory": in_log_file(checksum_name(LATEST), replace_by_directory),
    "a checkpoint that is cut off": damaged_checkpoint(truncate),
    "a checkpoint that is empty": damaged_checkpoint(write_text("")),
    "a checkpoint that is text": damaged_checkpoint(write_text("PAR1" + "x" * 500 + "PAR1")),
    "a checkpoint that is a directory": damaged_checkpoint(replace_by_directory),
    "a checkpoint that is gone": damaged_checkpoint(Path.unlink),
    "a checkpoint of other columns": damaged_checkpoint(write_parquet(pa.table({"nope": [1]}))),
    "a checkpoint of other types": damaged_checkpoint(
        write_parquet(pa.table({"add": ["x"], "metaData": [5], "protocol": [None]}))
    ),
    "a checkpoint of 150 levels": damaged_checkpoint(write_nested(150)),
    "a checkpoint without a protocol": change_checkpoint(lambda t: t.drop_columns(["protocol"])),
    "a checkpoint without metadata": change_checkpoint(lambda t: t.drop_columns(["metaData"])),
    "a checkpoint without files": change_checkpoint(lambda t: t.drop_columns(["add"])),
    "a checkpoint of no row": change_checkpoint(lambda t: t.slice(0, 0)),
    "a damaged checkpoint beside its commits": in_log_file(checkpoint_name(CHECKPOINT), truncate),
    "a compacted log that is no JSON": in_log_file(
        f"{3:020}.{4:020}.compacted.json", write_text("{")
    ),
    "names that resemble names of a log": add_odd_names,
    "a log without files": empty_log,
    "a log that is a file": replace_log_by_file,
    "no table": shutil.rmtree,
}
"""The damages, each by its result."""
