"""Where the pipeline reads and writes, from the environment.

FLIGHTS   a file of flight records, or a folder of daily ones; a generated month if unset
LAKE      the folder of the tables, or its address in an object store, such as s3://bucket/lake, for
          which credentials are taken from the environment; one under `.lake/` for each input if
          unset
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from delta_ops.spark import packages
from examples.flights.generate import generate_month
from examples.flights.sources import InputFile, airports_path, list_inputs

_STORES: Mapping[str, Literal["s3", "gcs", "azure"]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}
PROJECT = Path(__file__).resolve().parents[2]


class FlightsInput(dg.ConfigurableResource[None]):
    """The input files and the airports."""

    path: str
    """A file or folder; where it is the generated month's, that is made on first use."""
    generated: bool

    def files(self) -> list[InputFile]:
        """The files as they are now."""
        if self.generated:
            generate_month(Path(self.path))
        return list_inputs(Path(self.path))

    def airports(self, spark: SparkSession) -> DataFrame:
        """One row an airport code."""
        airports = spark.read.csv(str(airports_path(Path(self.path))), header=True)
        return airports.dropDuplicates(["iata"])


def flights_path() -> tuple[Path, bool]:
    """The input, and whether it is the generated one."""
    given = os.environ.get("FLIGHTS", "")
    if given:
        return Path(given).expanduser().resolve(), False
    return PROJECT / ".lake" / "generated-input", True


def lake_address() -> str:
    """The folder of the tables, or its address in a store."""
    lake = os.environ.get("LAKE", "")
    if "://" in lake:
        return lake.rstrip("/")
    if lake:
        return str(Path(lake).expanduser().resolve())
    path, generated = flights_path()
    if generated:
        return str(PROJECT / ".lake" / "generated")
    return str(PROJECT / ".lake" / f"{path.stem}-{_short_hash(str(path))}")


def connectors(lake: str) -> Mapping[str, str]:
    """Settings by which Spark gets what it needs to reach the tables."""
    scheme = lake.partition("://")[0] if "://" in lake else ""
    store = _STORES.get(scheme)
    return {} if store is None else packages(store)


def cursor_path(lake: str) -> Path:
    """Where the demo keeps up to which version it has refreshed what follows."""
    if "://" in lake:
        return PROJECT / ".lake" / f"late_records-{_short_hash(lake)}.cursor"
    return Path(lake) / "late_records.cursor"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
