"""Error texts: one line of bounded length, for any log, file or user text in them."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, ddl, maintenance, parse_predicate
from delta_ops.error_texts import error_text, escape_unprintable, value_text
from delta_ops.errors import DataFileError, DeltaOpsError, InvalidRequestError
from tests.cli.hostile_tables import NAME, SHOWN, TEXT

MOST = 6_100
LONG = "x" * 100_000


def error_classes(of: type[DeltaOpsError] = DeltaOpsError) -> Iterator[type[DeltaOpsError]]:
    yield of
    for each in of.__subclasses__():
        yield from error_classes(each)


def made(kind: type[DeltaOpsError], text: str) -> DeltaOpsError:
    """An error with this text in every text parameter."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    values: list[Any] = []
    for each in list(parameters)[1:]:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            values.append(text)
        elif each.default is inspect.Parameter.empty:
            values.append({"int": 1, "tuple[str, ...]": (text,)}.get(str(each.annotation), text))
    return kind(*values)


@pytest.mark.some_cases(5)
@pytest.mark.parametrize("kind", [*error_classes()], ids=lambda kind: kind.__name__)
def test_every_error_is_one_line_of_bounded_length(kind: type[DeltaOpsError]) -> None:
    assert SHOWN in str(made(kind, TEXT))
    for text in (TEXT, LONG, "a b " * 50_000, TEXT * 500):
        error = made(kind, text)
        assert str(error).isprintable()
        assert len(str(error)) < MOST
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_attributes_of_an_error_have_the_values_as_they_are() -> None:
    error = DataFileError("t", 1, f"{NAME}{LONG}", "is gone")
    assert error.file == f"{NAME}{LONG}"
    assert len(InvalidRequestError(LONG).message) == len(LONG)


@given(st.text())
def test_printable_text_stays_unchanged(text: str) -> None:
    assert escape_unprintable(escape_unprintable(text)) == escape_unprintable(text)
    assert escape_unprintable(text).isprintable()


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("property {} is no number; give 1", id="a word"),
        pytest.param("{} and {} are none; give 1", id="two words"),
    ],
)
def test_the_sentence_around_a_long_value_stays(sentence: str) -> None:
    text = error_text(sentence.replace("{}", LONG))
    for part in sentence.split("{}"):
        assert part in text
    assert "[98,800 characters]" in text


def test_the_cure_at_the_end_of_a_long_text_stays() -> None:
    text = error_text(f"the value {'a b ' * 50_000} is none; give another")
    assert text.startswith("the value a b")
    assert text.endswith("is none; give another")


@pytest.mark.parametrize("length", [1_024, 1_200])
def test_a_path_as_long_as_stores_allow_is_whole(length: int) -> None:
    path = "p" * length
    assert error_text(f"{path} is gone") == f"{path} is gone"


def set_last_commit(root: Path, action: dict[str, Any]) -> None:
    (root / "_delta_log" / f"{1:020}.json").write_text(json.dumps(action))


def with_properties(**properties: str) -> dict[str, Any]:
    schema = {"type": "struct", "fields": []}
    body = {"id": "0" * 36, "format": {"provider": "parquet"}, "partitionColumns": []}
    configuration = {name.replace("__", "."): value for name, value in properties.items()}
    return {
        "metaData": {**body, "schemaString": json.dumps(schema), "configuration": configuration}
    }


def with_features(*names: str) -> dict[str, Any]:
    features = {"readerFeatures": list(names), "writerFeatures": list(names)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}


def with_path(path: str) -> dict[str, Any]:
    body = {"path": path, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {**body, "partitionValues": {}}}


@pytest.mark.parametrize(
    ("action", "call"),
    [
        pytest.param(with_features(TEXT, LONG), da.to_table, id="names of features"),
        pytest.param(with_path(TEXT), da.to_table, id="the path of a file"),
        pytest.param(
            with_properties(delta__checkpointInterval=TEXT + LONG),
            maintenance.create_checkpoint,
            id="the value of a property",
        ),
        pytest.param(
            with_properties(delta__constraints__c=f"`{TEXT}{LONG}` > 1"),
            lambda t: da.write(t, pa.table({"a": [1]}), merge_schema=True),
            id="a constraint",
        ),
    ],
)
def test_texts_of_a_log_are_shown_escaped_and_shortened(
    tmp_path: Path, action: dict[str, Any], call: Callable[[Path], Any]
) -> None:
    da.write(tmp_path, pa.table({"a": [1]}))
    set_last_commit(tmp_path, action)
    with pytest.raises(DeltaOpsError) as raised:
        call(tmp_path)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < MOST
    assert r"\x1b[2J" in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda t: da.to_table(t, [TEXT]), id="columns"),
        pytest.param(lambda t: da.to_table(t, predicate=col(TEXT) > 1), id="a predicate"),
        pytest.param(lambda t: parse_predicate(f"a = {TEXT}"), id="the text of a predicate"),
        pytest.param(lambda t: da.delete(t, f"`{TEXT}` = 1"), id="a condition"),
        pytest.param(lambda t: da.update(t, {TEXT: "1"}), id="an assignment"),
        pytest.param(lambda t: ddl.set_properties(t, {f"delta.{TEXT}": "1"}), id="a property"),
        pytest.param(lambda t: da.write(t, pa.table({TEXT: [1]})), id="a column of data"),
        pytest.param(lambda t: DeltaLog(t / NAME.replace("/", "")).snapshot(), id="a place"),
    ],
)
def test_texts_of_a_user_are_shown_escaped(tmp_path: Path, call: Callable[[Path], Any]) -> None:
    da.write(tmp_path, pa.table({"a": [1]}))
    with pytest.raises(DeltaOpsError) as raised:
        call(tmp_path)
    assert str(raised.value).isprintable()
    assert r"\x1b" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(1850, 1, 1, 12, 30, tzinfo=UTC), "1850-01-01 12:30:00+00:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (Decimal("-12345678901234567890.123456789012345678"), None),
        (Decimal("1" * 100), "Decimal('1111...111111111111')"),
    ],
)
def test_times_and_decimals_are_shown_whole(value: Any, shown: str | None) -> None:
    assert value_text(value) == (shown or str(value))


def test_a_row_that_breaks_a_constraint_is_shown_with_its_time(tmp_path: Path) -> None:
    rows = pa.table({"at": [datetime(1850, 1, 1, tzinfo=UTC)], "n": [0]})
    with pytest.raises(DeltaOpsError, match=r"at = 1850-01-01 00:00:00\+00:00, n = 0\)"):
        da.write(tmp_path, rows, configuration={"delta.constraints.positive": "n > 0"})
