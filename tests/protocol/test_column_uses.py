"""Uses of a column by a table's definition."""

from __future__ import annotations

from typing import Any

import pytest

from delta_ops.protocol.actions import DomainMetadata
from delta_ops.protocol.column_uses import uses_in_clustering, uses_in_expressions
from delta_ops.protocol.schema import LONG, STRING, DataType, StructField, StructType
from delta_ops.protocol.table_definition import TableDefinition
from tests.support.tables import define


def field(name: str, data_type: DataType = LONG, **metadata: object) -> StructField:
    physical = {"delta.columnMapping.physicalName": f"col-{name}"}
    return StructField(name, data_type, True, {**physical, **metadata})


def table(**configuration: str) -> TableDefinition:
    inner = StructType((field("b"), field("c", STRING)))
    generated: dict[str, Any] = {"delta.generationExpression": "year(A)"}
    invariant: dict[str, Any] = {"delta.invariants": '{"expression":{"expression":"n > 0"}}'}
    fields = (field("a"), field("s", inner), field("y", **generated), field("n", **invariant))
    return define(StructType(fields), **configuration)


@pytest.mark.parametrize(
    ("path", "used"),
    [
        pytest.param(("s", "b"), ["the constraint r (s.b > 0)"], id="a field in a constraint"),
        pytest.param(("s",), ["the constraint r (s.b > 0)"], id="the struct of it"),
        pytest.param(("s", "c"), [], id="another field of it"),
        pytest.param(("a",), ["the generated column y (year(A))"], id="what a column is made of"),
        pytest.param(("y",), [], id="a generated column itself"),
        pytest.param(("n",), ["the invariant of column n (n > 0)"], id="with an invariant"),
    ],
)
def test_uses_in_expressions(path: tuple[str, ...], used: list[str]) -> None:
    definition = table(**{"constraints.r": "s.b > 0"})
    assert list(uses_in_expressions(definition, path)) == used


@pytest.mark.parametrize(
    ("path", "is_used"), [(("s", "b"), True), (("s",), True), (("s", "c"), False), (("a",), False)]
)
@pytest.mark.parametrize("mode", ["none", "name"])
def test_uses_in_clustering(path: tuple[str, ...], is_used: bool, mode: str) -> None:
    prefix = "" if mode == "none" else "col-"
    configuration = f'{{"clusteringColumns":[["{prefix}s","{prefix}b"]]}}'
    domains = [
        DomainMetadata(domain="delta.clustering", configuration=configuration),
        DomainMetadata(domain="app.other", configuration="no JSON"),
    ]
    definition = table(**{"columnMapping.mode": mode})
    assert bool(list(uses_in_clustering(definition, path, domains))) is is_used
