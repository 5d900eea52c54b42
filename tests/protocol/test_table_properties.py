"""Table properties and the texts of their values."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.properties.table_properties import (
    TableProperties,
    table_properties_from_configuration,
)
from delta_ops.protocol.properties.values import parse_column_list, parse_interval
from delta_ops.protocol.stats.indexed_columns import StatsSettings


def test_unset_properties_have_the_default() -> None:
    properties = table_properties_from_configuration({"spark.x": "y", "delta.unknown": "?"})
    assert properties == TableProperties(
        append_only=False,
        checkpoint_interval=10,
        checkpoint_policy="classic",
        write_stats_as_json=True,
        write_stats_as_struct=False,
        log_retention_ms=30 * DAY_MS,
        enable_expired_log_cleanup=True,
        deleted_file_retention_ms=7 * DAY_MS,
        set_transaction_retention_ms=None,
        checkpoint_protection_version=0,
        isolation_level="Serializable",
        in_commit_timestamps=False,
        deletion_vectors=False,
        stats=StatsSettings(num_indexed_columns=32, columns=None, string_prefix_length=32),
        sort_key=(),
        bloom_filters=(),
        target_file_size_bytes=None,
        compression_codec="zstd",
    )


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        pytest.param("delta.appendOnly", "TRUE", "append_only", True, id="a flag in any case"),
        pytest.param("delta.checkpointInterval", "3", "checkpoint_interval", 3, id="a number"),
        pytest.param(
            "delta.checkpoint.writeStatsAsJson", "false", "write_stats_as_json", False, id="JSON"
        ),
        pytest.param(
            "delta.checkpoint.writeStatsAsStruct",
            "true",
            "write_stats_as_struct",
            True,
            id="struct",
        ),
        pytest.param(
            "delta.logRetentionDuration",
            "interval 2 days",
            "log_retention_ms",
            2 * DAY_MS,
            id="log retention",
        ),
        pytest.param(
            "delta.enableExpiredLogCleanup",
            "false",
            "enable_expired_log_cleanup",
            False,
            id="log clean-up",
        ),
        pytest.param(
            "delta.deletedFileRetentionDuration",
            "interval 1 hours",
            "deleted_file_retention_ms",
            HOUR_MS,
            id="file retention",
        ),
        pytest.param(
            "delta.setTransactionRetentionDuration",
            "interval 0 days",
            "set_transaction_retention_ms",
            0,
            id="transaction retention",
        ),
        pytest.param(
            "delta.isolationLevel",
            "writeserializable",
            "isolation_level",
            "WriteSerializable",
            id="isolation level",
        ),
        pytest.param(
            "delta.dataSkippingNumIndexedCols",
            "-1",
            "stats",
            StatsSettings(num_indexed_columns=-1),
            id="all columns",
        ),
        pytest.param(
            "delta.dataSkippingStatsColumns",
            "id,address.city",
            "stats",
            StatsSettings(columns=(("id",), ("address", "city"))),
            id="chosen columns",
        ),
        pytest.param(
            "delta.dataSkippingStringPrefixLength",
            "64",
            "stats",
            StatsSettings(string_prefix_length=64),
            id="prefix length",
        ),
        pytest.param(
            "delta.targetFileSize", "33554432", "target_file_size_bytes", 2**25, id="bytes"
        ),
        pytest.param(
            "delta.targetFileSize", "128mb", "target_file_size_bytes", 2**27, id="megabytes"
        ),
        pytest.param(
            "delta.targetFileSize", "1 G", "target_file_size_bytes", 2**30, id="gigabytes"
        ),
        pytest.param("delta.targetFileSize", "100b", "target_file_size_bytes", 100, id="a b"),
        pytest.param(
            "delta.parquet.compression.codec", "SNAPPY", "compression_codec", "snappy", id="codec"
        ),
        pytest.param(
            "delta.parquet.compression.codec",
            "none",
            "compression_codec",
            "uncompressed",
            id="no compression",
        ),
    ],
)
def test_a_property_that_is_set(name: str, text: str, field: str, value: Any) -> None:
    properties = table_properties_from_configuration({name: text})
    assert getattr(properties, field) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("delta.appendOnly", "yes", "true or false", id="no flag"),
        pytest.param(
            "delta.checkpointInterval", "0", "a whole number of 1 or more", id="too small"
        ),
        pytest.param("delta.checkpointInterval", "ten", "a whole number", id="no number"),
        pytest.param("delta.dataSkippingNumIndexedCols", "-2", "of -1 or more", id="below -1"),
        pytest.param(
            "delta.logRetentionDuration", "30", "is not a number with a unit", id="no unit"
        ),
        pytest.param("delta.deletedFileRetentionDuration", "", "has no unit", id="empty"),
        pytest.param("delta.setTransactionRetentionDuration", "1 month", "no fixed", id="a month"),
        pytest.param(
            "delta.isolationLevel", "SnapshotIsolation", "Serializable, WriteSer", id="isolation"
        ),
        pytest.param("delta.targetFileSize", "0", "a number of bytes", id="no size"),
        pytest.param("delta.targetFileSize", "1.5gb", 'such as "128mb"', id="a fraction of a size"),
        pytest.param("delta.parquet.compression.codec", "lzo", "uncompressed, snappy", id="codec"),
        pytest.param("delta.dataSkippingStatsColumns", "a..b", "list of columns", id="columns"),
    ],
)
def test_a_property_that_cannot_be_understood_is_an_error(
    name: str, text: str, message: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        table_properties_from_configuration({name: text})
    assert str(refused.value).startswith(f"Table property {name} is {text!r}:")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("interval 7 days", 7 * DAY_MS, id="as the reference writes it"),
        pytest.param("7 days", 7 * DAY_MS, id="without the word"),
        pytest.param("INTERVAL 1 WEEK", 7 * DAY_MS, id="upper case, singular"),
        pytest.param("1 day 2 hours", 26 * HOUR_MS, id="compound"),
        pytest.param("  interval   3   hours ", 3 * HOUR_MS, id="blanks"),
        pytest.param("+3 days", 3 * DAY_MS, id="a plus"),
        pytest.param("0 seconds", 0, id="zero"),
        pytest.param("interval 1.5 seconds", 1500, id="a fraction of a second"),
        pytest.param("1 microsecond", 1, id="a part of a millisecond is a whole one"),
        pytest.param(
            "2 weeks 3 days 4 hours 5 minutes 6 seconds 7 milliseconds 8 microseconds",
            17 * DAY_MS + 4 * HOUR_MS + 306_008,
            id="every unit",
        ),
    ],
)
def test_intervals(text: str, expected: int) -> None:
    assert parse_interval(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "has no unit", id="empty"),
        pytest.param("interval", "has no unit", id="only the word"),
        pytest.param("200000000000 days", "too long", id="beyond the times of a log"),
        pytest.param("interval7 days", "not a number with a unit", id="no blank after the word"),
        pytest.param("7days", "not a number with a unit", id="no blank before the unit"),
        pytest.param("1 day,2 hours", "not a number with a unit", id="a comma"),
        pytest.param("interval '7' day", "not a number with a unit", id="quotes"),
        pytest.param("days 7", "not a number with a unit", id="the wrong way round"),
        pytest.param("7 day s", "not a number with a unit", id="a letter too many"),
        pytest.param("7 fortnights", "'fortnights' is no unit", id="another unit"),
        pytest.param("1 dayss", "'dayss' is no unit", id="two plurals"),
        pytest.param("1 month", "no fixed length", id="months"),
        pytest.param("2 years 1 day", "no fixed length", id="years"),
        pytest.param("-1 days", "negative", id="negative"),
        pytest.param("1 day -25 hours", "negative", id="negative as a whole"),
        pytest.param("1.5 days", "only seconds", id="a fraction of a day"),
    ],
)
def test_texts_that_are_no_interval(text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_interval(text)
    assert message in str(refused.value)
    assert "'interval 7 days'" in str(refused.value)


@given(st.from_regex(re.compile(r"(interval )?([-+]?\d{1,3}(\.\d)? ?[a-z]{0,6} ?){0,3}", re.ASCII)))
def test_any_text_is_an_interval_or_refused(text: str) -> None:
    try:
        assert parse_interval(text) >= 0
    except InvalidRequestError:
        return


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("a", (("a",),), id="one"),
        pytest.param(" a , b.c ", (("a",), ("b", "c")), id="blanks and fields"),
        pytest.param("`a.b`.`c,``d`", (("a.b", "c,`d"),), id="backticks"),
    ],
)
def test_column_lists(text: str, expected: object) -> None:
    assert parse_column_list(text) == expected


@pytest.mark.parametrize("text", ["a,", "a.", ",a", "a b", "`a", "a,,b", "``"])
def test_texts_that_are_no_column_list(text: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_column_list(text)
    assert repr(text) in str(refused.value)
