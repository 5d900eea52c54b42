"""Flight records: from the text of an input file to typed columns, or to a reason for rejection.

Spark's Python workers split the text (`parse`), and Spark judges the fields (`classify`).
`contract` defines a valid record; its own code counts the same records for `accounting`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark users know)

from examples.flights.sources import FIELDS, InputFile, csv_fields

_Row = tuple[str | None, ...]
"""The columns are `_COLUMNS`."""

_COLUMNS = ("record", *FIELDS, "problem")
_ROWS = f"array<struct<{', '.join(f'{name} string' for name in _COLUMNS)}>>"
_GLOB = re.compile(r"([\\*?\[\]{}])")


def raw_records(spark: SparkSession, file: InputFile) -> DataFrame:
    """The rows of `flights_raw` from one input file."""
    # Spark treats a path as a pattern.
    path = _GLOB.sub(r"\\\1", file.path)
    if file.format == "json_lines":
        texts = spark.read.text(path, lineSep="\n")
    else:
        # An array has no lines, and a CSV line means nothing without the header: one task reads the
        # whole file.
        texts = spark.read.text(path, wholetext=True)
    rows = F.udf(_PARSERS[file.format], _ROWS, useArrow=False)
    parsed = texts.select(F.inline(rows(F.make_valid_utf8("value"))))
    return parsed.select(
        F.lit(file.arrival_day).alias("arrival_day"),
        F.lit(file.name).alias("source_file"),
        F.lit(file.generation).cast("long").alias("source_generation"),
        "record",
        *FIELDS,
        _departure_time().cast("date").alias("flight_day"),
        "problem",
    )


def classify(raw: DataFrame, first_day: date) -> DataFrame:
    """Add typed columns and `reason` to `flights_raw` rows; `reason` is null for a valid record.

    Args:
        first_day: The pipeline's first day; records of earlier flights are out of range.
    """
    return raw.select(
        "*",
        _departure_time().alias("departed_at"),
        F.expr("try_cast(delay AS int)").alias("delay_minutes"),
        F.expr("try_cast(distance AS int)").alias("distance_miles"),
        _reason(first_day).alias("reason"),
    )


def _departure_time() -> Column:
    parsed = F.try_to_timestamp("date", F.lit("yyyy/MM/dd HH:mm"))
    return F.when(
        F.col("date").rlike(r"\A(?!0000)[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}\z"), parsed
    )


def _reason(first_day: date) -> Column:
    day = F.col("flight_day")
    in_range = (day >= F.lit(first_day)) & (day <= F.date_add("arrival_day", 1))
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


def _json_array(text: str) -> list[_Row]:
    elements = _loads(text.removeprefix("\ufeff"))
    return [_row_from_json(_dumps(element), element) for element in elements]


def _json_line(line: str) -> list[_Row]:
    return [_row_from_json_line(text) for text in _records([line])]


def _csv(document: str) -> list[_Row]:
    header, *lines = _records(document.split("\n"))
    names = csv_fields(header) or []
    return [_row_from_csv_line(line, names) for line in lines]


_PARSERS = {"json_array": _json_array, "json_lines": _json_line, "csv": _csv}


def _records(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.removeprefix("\ufeff").rstrip("\r")
        if text.strip():
            yield text


def _row_from_json_line(text: str) -> _Row:
    try:
        return _row_from_json(text, _loads(text))
    except (ValueError, RecursionError):
        return _row(text, problem="not a JSON object")


def _row_from_csv_line(text: str, names: list[str]) -> _Row:
    values = csv_fields(text)
    if values is None or len(values) != len(names):
        return _row(text, problem=f"not {len(names)} fields")
    return _row(text, dict(zip(names, values, strict=True)))


def _row_from_json(text: str, value: Any) -> _Row:
    if not isinstance(value, dict):
        return _row(text, problem="not a JSON object")
    return _row(text, {name: _field(value.get(name)) for name in FIELDS})


def _row(
    record: str, fields: Mapping[str, str | None] | None = None, problem: str | None = None
) -> _Row:
    values = (record, *((fields or {}).get(name) for name in FIELDS), problem)
    return tuple(_replace_surrogates(value) for value in values)


def _loads(text: str) -> Any:
    """Parse JSON and keep the text of numbers, so that 12.0 and 1e3 stay unchanged."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _dumps(element: Any) -> str:
    return json.dumps(element, ensure_ascii=False)


def _field(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _dumps(value)


def _replace_surrogates(text: str | None) -> str | None:
    """Replace half surrogate pairs, which JSON can escape and UTF-8 cannot store."""
    if text is None:
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
