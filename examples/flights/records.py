"""Flight records: from the text of an input file to typed columns, or to the reason why not.

The text is taken apart in Spark's Python workers (`parse`), the fields are judged in Spark
(`classify`). What a record must look like is written down in `accounting`, which counts the same
records without any of this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark users know)

from examples.flights.sources import FIELDS, InputFile, csv_fields

_Row = dict[str, str | None]

FIRST_DAY = "1987-10-01"

_COLUMNS = ("record", *FIELDS, "problem")
_PARSED = pa.schema([(name, pa.string()) for name in _COLUMNS])
_DDL = ", ".join(f"{name} string" for name in _COLUMNS)


def raw_records(spark: SparkSession, file: InputFile) -> DataFrame:
    """The rows of `flights_raw` that one input file holds."""
    if file.format == "json_lines":
        lines = spark.read.text(file.path, lineSep="\n")
    else:
        # An array has no lines, and a line of CSV no meaning without the header: one task, whole.
        lines = spark.read.text(file.path, wholetext=True)
    return lines.mapInArrow(_PARSERS[file.format], _DDL).select(
        F.lit(file.arrival_day).alias("arrival_day"),
        F.lit(file.name).alias("source_file"),
        F.lit(file.generation).cast("long").alias("source_generation"),
        "record",
        *FIELDS,
        _departed_at().cast("date").alias("flight_day"),
        "problem",
    )


def classify(raw: DataFrame) -> DataFrame:
    """`flights_raw` rows with typed columns and `reason`, which is null for a valid record."""
    return raw.select(
        "*",
        _departed_at().alias("departed_at"),
        F.expr("try_cast(delay AS int)").alias("delay_minutes"),
        F.expr("try_cast(distance AS int)").alias("distance_miles"),
        _reason().alias("reason"),
    )


def _departed_at() -> Column:
    parsed = F.try_to_timestamp("date", F.lit("yyyy/MM/dd HH:mm"))
    return F.when(F.col("date").rlike(r"\A[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}\z"), parsed)


def _reason() -> Column:
    day = F.col("flight_day")
    in_range = (day >= F.lit(FIRST_DAY).cast("date")) & (day <= F.date_add("arrival_day", 1))
    checks = [
        (_is_missing("date"), "date is missing"),
        (day.isNull(), "date is malformed"),
        (~in_range, "date is out of range"),
    ]
    for name, pattern in (
        ("delay", "[+-]?[0-9]{1,6}"),
        ("distance", "[0-9]{1,6}"),
        ("origin", "[A-Z0-9]{3}"),
        ("destination", "[A-Z0-9]{3}"),
    ):
        checks.append((_is_missing(name), f"{name} is missing"))
        checks.append((~F.col(name).rlike(rf"\A{pattern}\z"), f"{name} is malformed"))
    return F.coalesce("problem", *(F.when(failed, F.lit(reason)) for failed, reason in checks))


def _is_missing(name: str) -> Column:
    return F.col(name).isNull() | (F.col(name) == "")


def _json_array(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            elements = _loads(text.removeprefix("\ufeff"))
            yield _batch(_from_json(_dumps(element), element) for element in elements)


def _json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _batch(_from_json_line(text) for text in _records(batch.column(0).to_pylist()))


def _csv(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            header, *lines = _records(text.split("\n"))
            names = csv_fields(header) or []
            yield _batch(_from_csv_line(line, names) for line in lines)


def _from_csv_line(text: str, names: list[str]) -> _Row:
    values = csv_fields(text)
    if values is None or len(values) != len(names):
        return {"record": text, "problem": f"not {len(names)} fields"}
    named = dict(zip(names, values, strict=True))
    return {"record": text, **{name: named[name] for name in FIELDS}}


_PARSERS = {"json_array": _json_array, "json_lines": _json_lines, "csv": _csv}


def _records(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.removeprefix("\ufeff").rstrip("\r")
        if text.strip():
            yield text


def _from_json_line(text: str) -> _Row:
    try:
        return _from_json(text, _loads(text))
    except (ValueError, RecursionError):
        return {"record": text, "problem": "not a JSON object"}


def _loads(text: str) -> Any:
    """JSON with the numbers' own text, so that 12.0 and 1e3 stay what they are."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _dumps(element: Any) -> str:
    return json.dumps(element, ensure_ascii=False)


def _from_json(text: str, value: Any) -> _Row:
    if not isinstance(value, dict):
        return {"record": text, "problem": "not a JSON object"}
    return {"record": text, **{name: _field(value.get(name)) for name in FIELDS}}


def _field(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _dumps(value)


def _batch(rows: Iterable[_Row]) -> pa.RecordBatch:
    encodable = [{name: _encodable(text) for name, text in row.items()} for row in rows]
    return pa.RecordBatch.from_pylist(encodable, schema=_PARSED)


def _encodable(text: str | None) -> str | None:
    """The text with half surrogate pairs, which JSON can escape and UTF-8 not, replaced."""
    return (
        text if text is None else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
