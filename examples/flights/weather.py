"""Weather: a table that another program appends to, without any maintenance.

Each hour is a commit with one small file, as an unbuffered feed writes it, so both soon become too
many. The demo leaves the table so; the maintenance job compacts it. `python -m
examples.flights.weather` appends one more hour, as that other program would.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

HOURS = 36
_START = datetime(2026, 1, 1, tzinfo=UTC)
_AIRPORTS = ("ATL", "DFW", "DEN", "ORD", "LAX")


def append_hours(table: str, hours: int) -> None:
    """Append this many hours after the table's last hour, each in a commit of its own."""
    # Required by delta-rs, although the environment names the endpoint.
    options = {"allow_http": "true"} if "://" in table else None
    is_there = DeltaTable.is_deltatable(table, options)
    first = DeltaTable(table, storage_options=options).version() + 1 if is_there else 0
    for hour in range(first, first + hours):
        write_deltalake(table, _hour(hour), mode="append", storage_options=options)


def _hour(hour: int) -> pa.Table:
    rng = Random(hour)
    count = len(_AIRPORTS)
    return pa.table(
        {
            "airport": _AIRPORTS,
            "observed_at": [_START + timedelta(hours=hour)] * count,
            "celsius": [round(rng.uniform(-10, 25), 1) for _ in range(count)],
            "wind_knots": [rng.randrange(40) for _ in range(count)],
        }
    )


if __name__ == "__main__":
    from examples.flights.settings import lake_address

    append_hours(f"{lake_address()}/weather", 1)
