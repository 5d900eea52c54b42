"""Flight records: from the text of an input file to typed columns, or to the reason why not.

The text is taken apart in Spark's Python workers (`parse`), the fields are judged in Spark
(`classify`). What a record must look like is written down in `accounting`, which counts the same
records without any of this.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark users know)

from examples.flights.sources import InputFile

FIELDS = ("date", "delay", "distance", "origin", "destination")
FIRST_DAY = "1987-10-01"

_COLUMNS = ("record", *FIELDS, "problem")
_PARSED = pa.schema([(name, pa.string()) for name in _COLUMNS])
_DDL = ", ".join(f"{name} string" for name in _COLUMNS)


def raw_records(spark: SparkSession, file: InputFile) -> DataFrame:
    """The rows of `flights_raw` that one input file holds."""
    whole = file.format == "json_array"
    lines = spark.read.text(file.path, wholetext=whole, lineSep=None if whole else "\n")
    if file.format == "csv":
        lines = lines.coalesce(1)
    parsed = lines.mapInArrow(_PARSERS[file.format], _DDL)
    return parsed.select(
        F.lit(file.arrival_day).alias("arrival_day"),
        F.lit(file.name).alias("source_file"),
        F.lit(file.generation).cast("long").alias("source_generation"),
        "record",
        *FIELDS,
        F.try_to_timestamp("date", F.lit("yyyy/MM/dd HH:mm")).cast("date").alias("flight_day"),
        "problem",
    )


def classify(raw: DataFrame) -> DataFrame:
    """`flights_raw` rows with typed columns and `reason`, which is null for a valid record."""
    departed_at = F.try_to_timestamp("date", F.lit("yyyy/MM/dd HH:mm"))
    return raw.select(
        "*",
        departed_at.alias("departed_at"),
        F.expr("try_cast(delay AS int)").alias("delay_minutes"),
        F.expr("try_cast(distance AS int)").alias("distance_miles"),
        _reason(departed_at).alias("reason"),
    )


def _reason(departed_at: Column) -> Column:
    day = departed_at.cast("date")
    in_range = (day >= F.lit(FIRST_DAY).cast("date")) & (day <= F.date_add("arrival_day", 1))
    date_format = F.col("date").rlike(r"^\d{4}/\d{2}/\d{2} \d{2}:\d{2}$")
    checks: list[tuple[Column, str]] = [
        (_missing("date"), "date is missing"),
        (~date_format | departed_at.isNull(), "date is malformed"),
        (~in_range, "date is out of range"),
        (_missing("delay"), "delay is missing"),
        (~F.col("delay").rlike(r"^[+-]?\d{1,6}$"), "delay is malformed"),
        (_missing("distance"), "distance is missing"),
        (~F.col("distance").rlike(r"^\d{1,6}$"), "distance is malformed"),
        (_missing("origin"), "origin is missing"),
        (~F.col("origin").rlike("^[A-Z0-9]{3}$"), "origin is malformed"),
        (_missing("destination"), "destination is missing"),
        (~F.col("destination").rlike("^[A-Z0-9]{3}$"), "destination is malformed"),
    ]
    reasons = [F.col("problem"), *(F.when(failed, F.lit(text)) for failed, text in checks)]
    return F.coalesce(*reasons)


def _missing(name: str) -> Column:
    return F.col(name).isNull() | (F.col(name) == "")


def _json_array(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            elements = _loads(text.removeprefix("\ufeff"))
            yield _batch([_from_json(_dumps(element), element) for element in elements])


def _json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for text in _records(batch.column(0).to_pylist()):
            try:
                rows.append(_from_json(text, _loads(text)))
            except ValueError:
                rows.append({"record": text, "problem": "not a JSON object"})
        yield _batch(rows)


def _csv(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    header: list[str] | None = None
    for batch in batches:
        rows = []
        for text in _records(batch.column(0).to_pylist()):
            values = next(csv.reader([text]), [])
            if header is None:
                header = [name.strip() for name in values]
            elif len(values) != len(header):
                rows.append({"record": text, "problem": f"not {len(header)} fields"})
            else:
                named = dict(zip(header, values, strict=True))
                rows.append({"record": text, **{name: named.get(name) for name in FIELDS}})
        yield _batch(rows)


_PARSERS = {"json_array": _json_array, "json_lines": _json_lines, "csv": _csv}


def _records(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.removeprefix("\ufeff").rstrip("\r")
        if text.strip():
            yield text


def _loads(text: str) -> Any:
    """JSON with the numbers' own text, so that 12.0 and 1e3 stay what they are."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)


def _dumps(element: Any) -> str:
    return json.dumps(element, ensure_ascii=False)


def _from_json(text: str, value: Any) -> dict[str, str | None]:
    if not isinstance(value, dict):
        return {"record": text, "problem": "not a JSON object"}
    return {"record": text, **{name: _field(value.get(name)) for name in FIELDS}}


def _field(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _batch(rows: list[dict[str, str | None]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=_PARSED)
