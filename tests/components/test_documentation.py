"""Documentation of the components: a description for every attribute, and a correct page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing.utils import DefsFolderSandbox

from delta_ops import components
from delta_ops.orchestration.dagster_versions import TEMPLATES_OF_DAGSTER, VERSION
from tests.components.defs_files import loaded

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "components.md").read_text()
FILES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(type: [^`]*)```", PAGE)]
KINDS = [getattr(components, name) for name in components.__all__]


_OURS = ("PolicyAttributesModel", "ThresholdAttributesModel")


@pytest.mark.parametrize("kind", KINDS)
def test_every_attribute_has_a_description(kind: Any) -> None:
    schema = kind.get_model_cls().model_json_schema()
    ours = [schema, *(s for name, s in schema["$defs"].items() if name in _OURS)]
    fields = {name: each for part in ours for name, each in part["properties"].items()}
    assert [name for name, each in fields.items() if not each.get("description")] == []
    assert kind.get_spec().description
    assert kind.get_spec().owners


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_names_every_attribute(kind: Any) -> None:
    missing = [name for name in kind.model_fields if f"`{name}`" not in PAGE]
    assert missing == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["type"].rpartition(".")[2])
def test_each_file_of_the_page_is_loaded(
    file: dict[str, Any], sandbox: DefsFolderSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_ENDPOINT", "https://minio.example:9000")
    more = {name: part for name, part in file.items() if name not in ("type", "attributes")}
    kind, attributes = file["type"].rpartition(".")[2], file["attributes"]
    if VERSION < TEMPLATES_OF_DAGSTER and "asset" in attributes:
        asset = {n: value for n, value in attributes["asset"].items() if "{{ dg." not in str(value)}
        attributes = attributes | {"asset": asset}
    with loaded(sandbox, kind, attributes, **more) as (component, _):
        assert type(component).__name__ == kind


def test_there_is_a_file_for_each_component() -> None:
    assert {file["type"].rpartition(".")[2] for file in FILES} == set(components.__all__)


def test_the_example_of_python_makes_its_component() -> None:
    (code,) = re.findall(r"```python\n([^`]*)```", PAGE)
    names: dict[str, Any] = {}
    exec(code, names)
    made = names["load"](dg.ComponentTree.for_test().load_context)
    assert isinstance(made, components.DeltaTableComponent)
