"""Effective properties: set values, defaults, older names, and unsupported properties."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from delta_ops.cli.properties import PropertyInForce, properties_in_force
from delta_ops.protocol.properties.known import PROPERTIES

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "write_properties.py"


def found(configuration: dict[str, str]) -> dict[str, PropertyInForce]:
    return {each.name: each for each in properties_in_force(configuration)}


@pytest.mark.parametrize(
    ("configuration", "name", "value", "origin"),
    [
        pytest.param({}, "delta.checkpointInterval", "10", "default", id="a default"),
        pytest.param({}, "delta.targetFileSize", None, "default", id="no default"),
        pytest.param(
            {"delta.appendOnly": "true"}, "delta.appendOnly", "true", "set", id="what is set"
        ),
        pytest.param(
            {"delta.enableChangeDataCapture": "true"},
            "delta.enableChangeDataFeed",
            "true",
            "older name",
            id="an older name",
        ),
        pytest.param(
            {"delta.enableChangeDataCapture": "true", "delta.enableChangeDataFeed": "false"},
            "delta.enableChangeDataFeed",
            "false",
            "set",
            id="the name goes before the older one",
        ),
        pytest.param(
            {"delta.constraints.positive": "id > 0"},
            "delta.constraints.positive",
            "id > 0",
            "constraint",
            id="a constraint",
        ),
        pytest.param({"delta.strange": "1"}, "delta.strange", "1", "unused", id="unknown"),
        pytest.param({"owner": "a team"}, "owner", "a team", "own", id="the user's own"),
    ],
)
def test_what_counts_and_why(
    configuration: dict[str, str], name: str, value: str | None, origin: str
) -> None:
    each = found(configuration)[name]
    assert (each.value, each.origin, each.problem) == (value, origin, None)


def test_every_property_is_there_once() -> None:
    names = [each.name for each in properties_in_force({})]
    assert len(names) == len(PROPERTIES)
    assert set(names) == {each.name for each in PROPERTIES}


def test_a_value_that_cannot_be_understood_is_shown_with_the_reason() -> None:
    each = found({"delta.appendOnly": "maybe"})["delta.appendOnly"]
    assert (each.value, each.origin) == ("maybe", "set")
    assert each.problem
    assert "true or false" in each.problem


def test_the_page_of_properties_is_up_to_date() -> None:
    made = runpy.run_path(str(SCRIPT))
    assert made["PLACE"].read_text() == made["text"](), "run scripts/write_properties.py"
