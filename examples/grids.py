"""Temperatures on a grid, as arrays of a table: an asset for each day, and a plot of its days.

    dagster dev -f examples/grids.py

`temperatures` has a partition for each day. `daily_temperatures` shows the mean of each day as a
picture on its page. The arrays are in `lake/grids`, or below the environment variable GRIDS_LAKE.
"""

import os
from base64 import b64encode

import dagster as dg
import numpy as np
import xarray

from delta_ops.orchestration import DeltaArrayIOManager

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")
_WIDTH, _HEIGHT = 620, 160


@dg.asset(partitions_def=DAYS, metadata={"partition_expr": "time"}, kinds={"deltalake", "xarray"})
def temperatures(context: dg.AssetExecutionContext) -> xarray.Dataset:
    """Hourly temperatures of a day, at 19 latitudes and 36 longitudes."""
    start = np.datetime64(context.partition_key, "ns")
    time = start + np.arange(24) * np.timedelta64(3600, "s")
    lat, lon = np.linspace(-90, 90, 19), np.arange(0, 360, 10)
    hour_angle = np.arange(24)[:, None, None] / 24 * 360 + lon[None, None, :]
    noise = np.random.default_rng(int(start.astype("M8[D]").astype(int))).normal(0, 1, (24, 1, 1))
    values = 300 - 45 * np.sin(np.radians(lat))[None, :, None] ** 2
    values = values + 5 * np.cos(np.radians(hour_angle - 200)) + noise
    attributes = {"long_name": "air temperature", "units": "K"}
    return xarray.Dataset(
        {"air": (("time", "lat", "lon"), values.astype("f4"), attributes)},
        coords={"time": time, "lat": lat, "lon": lon},
    )


@dg.asset(kinds={"deltalake", "xarray"})
def daily_temperatures(
    context: dg.AssetExecutionContext, temperatures: xarray.Dataset
) -> xarray.Dataset:
    """The mean of each day that was measured, with a plot."""
    daily = temperatures.mean(["lat", "lon"]).resample(time="1D").mean().dropna("time")
    context.add_output_metadata({"plot": plot(daily["air"])})
    return daily


def plot(series: xarray.DataArray) -> dg.MarkdownMetadataValue:
    """A line over time, as a picture that Dagster's UI shows."""
    values = series.values.astype("f8")
    low, high = float(values.min()), float(values.max())
    x = np.linspace(40, _WIDTH - 10, len(values)) if len(values) > 1 else [_WIDTH / 2]
    y = _HEIGHT - 30 - (values - low) / max(high - low, 1e-9) * (_HEIGHT - 50)
    points = " ".join(f"{left:.0f},{top:.0f}" for left, top in zip(x, y, strict=True))
    dots = "".join(
        f"<circle cx='{each.split(',')[0]}' cy='{each.split(',')[1]}' r='3'/>"
        for each in points.split()
    )
    first, last = (str(series["time"].values[each])[:10] for each in (0, -1))
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{_HEIGHT}' "
        f"font-family='sans-serif' font-size='11' fill='#3f7fd1'>"
        f"<polyline points='{points}' fill='none' stroke='#3f7fd1' stroke-width='2'/>{dots}"
        f"<g fill='#6f7988'><text x='2' y='24'>{high:.1f} K</text>"
        f"<text x='2' y='{_HEIGHT - 26}'>{low:.1f} K</text>"
        f"<text x='40' y='{_HEIGHT - 6}'>{first}</text>"
        f"<text x='{_WIDTH - 10}' y='{_HEIGHT - 6}' text-anchor='end'>{last}</text></g></svg>"
    )
    data = b64encode(svg.encode()).decode()
    return dg.MetadataValue.md(f"![Mean temperature of each day](data:image/svg+xml;base64,{data})")


defs = dg.Definitions(
    assets=[temperatures, daily_temperatures],
    resources={"io_manager": DeltaArrayIOManager(root=os.environ.get("GRIDS_LAKE", "lake/grids"))},
)
