"""Each key that another integration documents is honoured here, or rejected by its name.

Sources, as of November 2026: the pages dagster-deltalake and dagster-polars of Dagster's API
documentation and its Delta Lake reference; the README of dagster-delta; the pages "Iceberg" of
Dagster's integrations. Keys that only the code of a package reads are listed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.swap_in import (
    dagster_delta,
    dagster_deltalake,
    dagster_iceberg,
    dagster_polars,
)

Settings = Mapping[str, Any]


class Word(NamedTuple):
    """A key with a value, and the resulting settings; None if they are rejected."""

    key: str
    value: Any
    becomes: Settings | None
    warns: bool = False
    """Whether a warning reports that the value changes nothing."""

    def expectation(self) -> AbstractContextManager[object]:
        """Expects the warning."""
        return pytest.warns(UserWarning, match=self.key) if self.warns else nullcontext()


_UPDATE = {"when": "matched", "then": "update"}
_INSERT = {"when": "not matched", "then": "insert"}
_CODEC = {"compression": "SNAPPY"}
_CODEC_PROPERTY = {"delta/configuration": {"delta.parquet.compression.codec": "snappy"}}
_PROPERTIES = {"delta.enableChangeDataFeed": "true"}


def _texts(texts: Mapping[str, str]) -> Settings:
    """The settings for texts that a commit records."""
    return {"delta/user_metadata": texts, "delta/commit_info": texts}


DELTALAKE_ASSETS = [
    Word("mode", "append", {"delta/mode": "append"}),
    Word("overwrite_schema", True, {"delta/overwrite_schema": True}),
    Word("custom_metadata", {"owner": "me"}, _texts({"owner": "me"})),
    Word("partition_expr", "day", {"partition_expr": "day"}),
    Word("writer_engine", "rust", {}),
    Word("writer_engine", "java", None),
    Word("writer_properties", _CODEC, _CODEC_PROPERTY),
    Word("writer_properties", {"compression": "zip"}, None),
    Word("writer_properties", {"compresion": "zstd"}, None),
    Word("writer_properties", {"write_batch_size": 9}, {}, warns=True),
    Word("table_config", _PROPERTIES, {"delta/configuration": _PROPERTIES}),
]
DELTA_ASSETS = [
    *DELTALAKE_ASSETS,
    Word("mode", "create_or_replace", {"delta/mode": "create_or_replace"}),  # is not a mode
    Word("table_configuration", _PROPERTIES, {"delta/configuration": _PROPERTIES}),
    Word("schema_mode", "merge", {"delta/merge_schema": True, "delta/overwrite_schema": False}),
    Word("commit_properties", {"custom_metadata": {"a": "b"}}, _texts({"a": "b"})),
    Word(
        "commit_properties",
        {"custom_metadata": {"operation": "x"}},
        {"delta/user_metadata": {"operation": "x"}},
    ),
    Word("commit_properties", {"max_commit_retries": 3}, {}, warns=True),
    Word("commit_properties", {"app_transactions": []}, None),
    Word("merge_predicate", "s.a = t.a", {"delta/merge_predicate": "s.a = t.a"}),
    Word(
        "merge_operations_config",
        {"when_matched_update_all": [{}]},
        {"delta/merge_clauses": [_UPDATE]},
    ),
    Word("merge_operations_config", {"when_matched": [{}]}, None),
    Word("merge_operations_config", {}, None),
    Word(
        "merge_config",
        {"merge_type": "upsert", "predicate": "s.a = t.a"},
        {"delta/merge_clauses": [_UPDATE, _INSERT], "delta/merge_predicate": "s.a = t.a"},
    ),
    Word(
        "merge_config",
        dagster_delta.MergeConfig(
            merge_type=dagster_delta.MergeType.custom,
            predicate="s.a = t.a",
            merge_operations_config=dagster_delta.MergeOperationsConfig(
                when_matched_update=[
                    dagster_delta.WhenMatchedUpdate(updates={"b": "s.b"}, predicate="s.b > 0")
                ],
                when_not_matched_insert_all=[
                    dagster_delta.WhenNotMatchedInsertAll(except_cols=["c"])
                ],
                when_not_matched_by_source_delete=[dagster_delta.WhenNotMatchedBySourceDelete()],
            ),
        ),
        {
            "delta/merge_predicate": "s.a = t.a",
            "delta/merge_clauses": [
                {"when": "not matched", "then": "insert", "except": ["c"]},
                {"when": "matched", "then": "update", "if": "s.b > 0", "set": {"b": "s.b"}},
                {"when": "not matched by source", "then": "delete"},
            ],
        },
    ),
    Word("merge_config", {"merge_type": "custom"}, {"delta/merge_clauses": []}),  # is rejected
    Word(
        "merge_config",
        {"merge_type": "upsert", "merge_operations_config": {"when_matched_delete": [{}]}},
        None,
    ),
    Word("parquet_read_options", {"coerce_int96_timestamp_unit": "ms"}, {}, warns=True),
]
POLARS_ASSETS = [
    Word("mode", "append", {"delta/mode": "append"}),
    Word("overwrite_schema", True, {"delta/overwrite_schema": True}),
    Word("partition_by", "c", {"partition_expr": "c", "delta/partition_by": ["c"]}),
    Word("partition_by", {"d": "c"}, {"partition_expr": {"d": "c"}, "delta/partition_by": ["c"]}),
    Word(
        "delta_write_options",
        {"schema_mode": "overwrite", "configuration": _PROPERTIES},
        {
            "delta/merge_schema": False,
            "delta/overwrite_schema": True,
            "delta/configuration": _PROPERTIES,
        },
    ),
    Word("delta_write_options", {"engine": "rust"}, {}),
    Word("delta_write_options", {"writer_properties": _CODEC}, _CODEC_PROPERTY),
    Word("delta_write_options", {"custom_metadata": {"a": "b"}}, _texts({"a": "b"})),
    Word("delta_write_options", {"predicate": "a = 1"}, None),
    Word(
        "delta_merge_options",
        {"source_alias": "s", "target_alias": "t", "predicate": "s.a = t.a", "merge_schema": True},
        {
            "delta/merge_predicate": "s.a = t.a",
            "delta/merge_aliases": {"source": "s", "target": "t"},
            "delta/merge_schema": True,
        },
    ),
    Word("when_matched_update_all", False, {"delta/merge_clauses": [_INSERT]}),
    Word("when_not_matched_insert_all", False, {"delta/merge_clauses": [_UPDATE]}),
    Word(
        "when_not_matched_by_source_delete",
        True,
        {
            "delta/merge_clauses": [
                _UPDATE,
                _INSERT,
                {"when": "not matched by source", "then": "delete"},
            ]
        },
    ),
    Word("streaming", True, {}),
    Word("n_rows", 10, {}, warns=True),
    Word("fraction", 0.1, {}, warns=True),
    Word("descriptions", {"a": "the first"}, {}, warns=True),
]
ICEBERG_ASSETS = [
    Word("write_mode", "append", {"delta/mode": "append"}),
    Word("write_mode", "upsert", {"delta/mode": "merge"}),
    Word("schema_update_mode", "update", {"delta/merge_schema": True}),
    Word("partition_spec_update_mode", "update", {}),
    Word("partition_field_name_prefix", "part", None),
    Word("table_properties", {"write.format.default": "orc"}, None),
    Word(
        "upsert_options",
        {"join_cols": ["id"], "when_not_matched_insert_all": False},
        {"delta/merge_keys": ["id"], "delta/merge_clauses": [_UPDATE]},
    ),
    Word(
        "upsert_options",
        dagster_iceberg.UpsertOptions(join_cols=["id"], when_matched_update_all=False),
        {"delta/merge_keys": ["id"], "delta/merge_clauses": [_INSERT]},
    ),
    Word("partition_expr", "day", {"partition_expr": "day"}),
]
DELTA_INPUTS = [
    Word("columns", ["a"], {"columns": ["a"]}),
    Word("predicate", "a > 1", {"delta/predicate": "a > 1"}),
    Word("table_version", 3, {"delta/read": 3}),
    Word("table_version", "new", None),
]
POLARS_INPUTS = [
    Word("columns", ["a"], {"columns": ["a"]}),
    Word("version", "3", {"delta/read": 3}),
    Word("version", -1, None),
    Word("pyarrow_options", {"partitions": []}, None),
    Word("delta_table_options", {"log_buffer_size": 9}, None),
    Word("allow_missing_partitions", True, {}),
]
DELTALAKE_FIELDS = [
    Word("mode", "append", {"delta/mode": "append"}),
    Word("overwrite_schema", True, {"delta/overwrite_schema": True}),
    Word("writer_engine", "rust", {}),
    Word("client_options", {"timeout": "30s"}, {}, warns=True),
    Word("client_options", {"proxy_url": "http://proxy"}, None),
    Word("table_config", _PROPERTIES, {"delta/configuration": _PROPERTIES}),
    Word("client_options", dagster_delta.ClientConfig(allow_http=True), {}),
    Word(
        "client_options",
        dagster_delta.ClientConfig(backoff_config=dagster_delta.BackoffConfig(base=1.2)),
        {},
        warns=True,
    ),
    Word("custom_metadata", {"a": "b"}, _texts({"a": "b"})),
    Word("writer_properties", _CODEC, _CODEC_PROPERTY),
]
DELTA_FIELDS = [
    *DELTALAKE_FIELDS,
    Word("schema_mode", "merge", {"delta/merge_schema": True, "delta/overwrite_schema": False}),
    Word("merge_config", {"merge_type": "update_only"}, {"delta/merge_clauses": [_UPDATE]}),
    Word("commit_properties", {"custom_metadata": {"a": "b"}}, _texts({"a": "b"})),
    Word("parquet_read_options", {"coerce_int96_timestamp_unit": "ms"}, {}, warns=True),
]
POLARS_FIELDS = [
    Word("mode", "append", {"delta/mode": "append"}),
    Word("overwrite_schema", True, {"delta/overwrite_schema": True}),
    Word("schema_mode", "merge", {"delta/merge_schema": True, "delta/overwrite_schema": False}),
    Word("version", 3, {"delta/read": 3}),
    Word("extension", ".parquet", None),
    Word("extension", ".delta", {}),
]
ICEBERG_FIELDS = [
    Word("name", "catalog", None),
    Word("config", {"properties": {}}, None),
    Word("db_io_manager", "custom", None),
    Word("spark_config", {}, None),
]
PACKAGES: Mapping[str, Callable[..., DeltaIOManager]] = {
    "dagster-deltalake": dagster_deltalake.DeltaLakeIOManager,
    "dagster-delta": dagster_delta.DeltaLakePolarsIOManager,
    "dagster-polars": dagster_polars.PolarsDeltaIOManager,
    "dagster-iceberg": dagster_iceberg.DeltaLakeIOManager,
}
ASSETS = {
    "dagster-deltalake": DELTALAKE_ASSETS,
    "dagster-delta": DELTA_ASSETS,
    "dagster-polars": POLARS_ASSETS,
    "dagster-iceberg": ICEBERG_ASSETS,
}
INPUTS = {
    "dagster-deltalake": DELTA_INPUTS,
    "dagster-delta": DELTA_INPUTS,
    "dagster-polars": POLARS_INPUTS,
    "dagster-iceberg": DELTA_INPUTS[:1],
}
FIELDS = {
    "dagster-deltalake": DELTALAKE_FIELDS,
    "dagster-delta": DELTA_FIELDS,
    "dagster-polars": POLARS_FIELDS,
    "dagster-iceberg": ICEBERG_FIELDS,
}


def words(lists: Mapping[str, list[Word]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("package", "word"),
        [
            pytest.param(package, word, id=f"{package} {word.key} {word.value!r}")
            for package, listed in lists.items()
            for word in listed
        ],
    )


def manager_of(package: str, **fields: Any) -> DeltaIOManager:
    root = "base_dir" if package == "dagster-polars" else "root_uri"
    return PACKAGES[package](**{root: "lake"}, **fields)


@pytest.mark.some_cases(30)
@words(ASSETS)
def test_metadata_of_an_asset_are_honoured_or_rejected_by_name(package: str, word: Word) -> None:
    manager, data = manager_of(package), {word.key: word.value, "owner": "me"}
    if word.becomes is None:
        with pytest.raises(InvalidRequestError, match=f"the metadata have {word.key}"):
            manager.read_metadata(data, "the metadata")
    else:
        with word.expectation():
            assert manager.read_metadata(data, "the metadata") == {**word.becomes, "owner": "me"}


@words(INPUTS)
def test_metadata_of_an_input_are_honoured_or_rejected_by_name(package: str, word: Word) -> None:
    manager, data = manager_of(package), {word.key: word.value}
    if word.becomes is None:
        with pytest.raises(InvalidRequestError, match=f"have {word.key}.*Nothing was read"):
            manager.read_input_metadata(data, "the metadata")
    else:
        assert manager.read_input_metadata(data, "the metadata") == word.becomes


@words(FIELDS)
def test_fields_of_an_io_manager_are_honoured_or_rejected_by_name(package: str, word: Word) -> None:
    if word.becomes is None:
        with pytest.raises(InvalidRequestError, match=word.key):
            manager_of(package, **{word.key: word.value})
    else:
        defaults = {"delta/mode": "overwrite", "delta/read": "latest"}
        with word.expectation():
            found = manager_of(package, **{word.key: word.value}).default_metadata()
        assert found == {**defaults, **word.becomes}


def test_every_word_of_a_swap_in_is_listed() -> None:
    for package, make in PACKAGES.items():
        assert isinstance(make, type)
        manager: Any = make
        listed = {word.key for word in ASSETS[package]}
        if package != "dagster-deltalake":  # it shares some words with its fork
            assert set(manager.output_translations) <= listed
            assert set(manager.input_translations) <= {word.key for word in INPUTS[package]}
            assert set(manager.field_translations) <= {word.key for word in FIELDS[package]}


def test_values_of_dagster_delta_become_mappings_for_metadata() -> None:
    clause = dagster_delta.WhenMatchedUpdate(predicate="s.n > 1", updates={"n": "s.n"})
    operations = dagster_delta.MergeOperationsConfig(when_matched_update=[clause])
    dumped = operations.model_dump()
    assert dumped["when_matched_update"] == [{"predicate": "s.n > 1", "updates": {"n": "s.n"}}]
    manager = manager_of("dagster-delta")
    assert manager.read_metadata({"merge_operations_config": dumped}, "the metadata") == (
        manager.read_metadata({"merge_operations_config": operations}, "the metadata")
    )


def test_storage_configs_become_mappings_for_other_libraries() -> None:
    backoff = dagster_delta.BackoffConfig(base=1.5, init_backoff="1s")
    config = dagster_delta.ClientConfig(timeout="3s", backoff_config=backoff)
    assert dagster_delta.S3Config(region="eu").model_dump() == {"region": "eu"}
    assert config.str_dict() == {
        "timeout": "3s",
        "backoff_config.base": "1.5",
        "backoff_config.init_backoff": "1s",
    }
