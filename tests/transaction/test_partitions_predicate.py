"""The predicate of the partitions that a dynamic overwrite replaces."""

from __future__ import annotations

import pytest

from delta_ops.protocol.predicate import Or
from delta_ops.protocol.schema import LONG, STRING, StructField
from delta_ops.transaction.replacement import partitions_predicate

FIELDS = {"p": StructField("id", LONG), "q": StructField("day", STRING)}


@pytest.mark.parametrize("names", [["p", "q"], ["q", "p"]])
def test_it_has_an_alternative_for_each_value_of_the_column_with_the_fewest(
    names: list[str],
) -> None:
    partitions = [{"p": str(i), "q": f"day {i % 3}"} for i in range(60)]
    predicate = partitions_predicate(partitions, {name: FIELDS[name] for name in names})
    assert isinstance(predicate, Or)
    assert len(predicate.operands) == 3
