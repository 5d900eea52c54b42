"""The code location of the flights, loaded with a test's input and lake."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from examples.flights import demo

_MODULES = (
    "examples.flights.assets",
    "examples.flights.jobs",
    "examples.flights.demo",
    "definitions",
)


def load_definitions(
    monkeypatch: pytest.MonkeyPatch, inputs: Path, lake: str, first_day: str = ""
) -> Any:
    """Import the top-level module again, with input, lake and partitions from the environment."""
    monkeypatch.setenv("FLIGHTS", str(inputs))
    monkeypatch.setenv("FIRST_DAY", first_day)
    monkeypatch.setenv("LAKE", lake)
    return [importlib.reload(importlib.import_module(name)) for name in _MODULES][-1]


def evaluate(
    location: Any, instance: dg.DagsterInstance, name: str, cursor: str | None = None
) -> tuple[list[dg.RunRequest], str | None, str | None]:
    """The run requests of a sensor, its skip reason, and its new cursor."""
    resources = {"delta_log": location.lake, "flights_input": demo.input_of(location)}
    with dg.build_sensor_context(
        instance=instance,
        cursor=cursor,
        definitions=location.defs,
        sensor_name=name,
        resources=resources,
    ) as context:
        data = location.defs.resolve_sensor_def(name).evaluate_tick(context)
    return list(data.run_requests or ()), data.skip_message, data.cursor
