"""Where the pipeline reads and writes, from the environment.

FLIGHTS   a file of flight records, or a folder of daily ones; a generated month if unset
LAKE      the folder of the tables; one under `.lake/` for each input if unset
"""

import hashlib
import os
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from examples.flights.generate import generate_month
from examples.flights.sources import InputFile, airports_path, list_inputs

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


def lake_path() -> Path:
    """The folder of the tables."""
    if lake := os.environ.get("LAKE", ""):
        return Path(lake).expanduser().resolve()
    path, generated = flights_path()
    if generated:
        return PROJECT / ".lake" / "generated"
    return PROJECT / ".lake" / f"{path.stem}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
