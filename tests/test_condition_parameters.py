"""A condition may be a text wherever one is taken, and is checked alike everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import (
    DeltaLog,
    Snapshot,
    Transaction,
    begin,
    ddl,
    maintenance,
    parse_expression,
    parse_predicate,
)
from delta_ops.errors import InvalidRequestError, UnknownColumnError

NAMES = ("predicate", "condition", "replace_where")
ANY_PREDICATE = "Predicate | Expression | str"
FORMS = {
    "a text": "p = 1",
    "a predicate": parse_predicate("p = 1"),
    "an expression": parse_expression("p = 1"),
}
NEW = pa.table({"p": [1], "x": [9]})
CALLS: dict[str, Callable[[Path, Any], Any]] = {
    "to_table": lambda t, c: da.to_table(t, predicate=c).num_rows,
    "to_batches": lambda t, c: sum(b.num_rows for b in da.to_batches(t, predicate=c)),
    "count_rows": da.count_rows,
    "read_changes": lambda t, c: da.read_changes(t, 0, predicate=c).read_all().num_rows,
    "write": lambda t, c: da.write(t, NEW, "overwrite", replace_where=c).version,
    "delete": lambda t, c: da.delete(t, c).version,
    "update": lambda t, c: da.update(t, {"x": "x + 1"}, c).version,
    "merge": lambda t, c: (
        (
            da.merge(t, NEW, "target.x = source.x").when_not_matched_by_source_delete(c).execute()
        ).version
    ),
    "optimize": lambda t, c: maintenance.optimize(t, predicate=c).files_removed,
    "purge": lambda t, c: len(maintenance.purge(t, predicate=c, dry_run=True).plan.groups),
    "Snapshot.files": lambda t, c: DeltaLog(t).snapshot().files(predicate=c).num_rows,
    "diff_rows": lambda t, c: da.diff_rows(t, t, predicate=c).num_rows,
    "Transaction.read": lambda t, c: begin(DeltaLog(t)).read(c),
    "Snapshot.add_files": lambda t, c: len(DeltaLog(t).snapshot().add_files(c)),
    "add_constraint": lambda t, c: ddl.add_constraint(t, "one", c, dry_run=True).version,
}


def table_in(folder: Path) -> Path:
    feed = {"delta.enableChangeDataFeed": "true"}
    rows = pa.table({"p": [1, 1], "x": [1, 2]})
    for _ in range(2):
        da.write(folder / "t", rows, partition_by=["p"], configuration=feed, hooks=())
    return folder / "t"


@pytest.mark.parametrize("name", CALLS)
def test_each_form_of_a_condition_is_taken(tmp_path: Path, name: str) -> None:
    found = {CALLS[name](table_in(tmp_path / form), FORMS[form]) for form in FORMS}
    assert len(found) == 1


@pytest.mark.parametrize("name", [name for name in CALLS if name != "add_constraint"])
def test_an_unknown_column_is_the_same_error_everywhere(tmp_path: Path, name: str) -> None:
    table = table_in(tmp_path)
    with pytest.raises(UnknownColumnError) as error:
        CALLS[name](table, "nope = 1")
    assert str(error.value).startswith(f"{table}: There is no column nope")
    assert str(error.value).count(str(table)) == 1


@pytest.mark.parametrize("name", CALLS)
def test_a_value_of_another_type_names_the_column_everywhere(tmp_path: Path, name: str) -> None:
    table = table_in(tmp_path)
    with pytest.raises(InvalidRequestError) as error:
        CALLS[name](table, "p = 'a'")
    assert str(error.value).startswith(f"{table}: ")
    assert "p of type long cannot be compared with 'a'" in str(error.value)


def test_a_value_that_is_no_condition_is_an_error_for_files(tmp_path: Path) -> None:
    snapshot = DeltaLog(table_in(tmp_path)).snapshot()
    with pytest.raises(InvalidRequestError, match="the predicate is 5, of type int"):
        snapshot.files(predicate=5)  # type: ignore[arg-type]


def condition_parameters() -> Iterator[tuple[str, set[str]]]:
    """The forms of each parameter that takes a condition, by function."""
    functions: list[Any] = [Transaction.read, Snapshot.files, Snapshot.add_files, Snapshot.add_rows]
    for module in (da, ds, ddl, maintenance):
        functions += [each for n in module.__all__ if isfunction(each := getattr(module, n))]
    for function in functions:
        for parameter in signature(function).parameters.values():
            annotation = str(parameter.annotation).replace("AnyPredicate", ANY_PREDICATE)
            if parameter.name in NAMES or "Predicate" in annotation:
                forms = {each.strip() for each in annotation.split("|")} - {"None"}
                yield f"{function.__module__}.{function.__qualname__}", forms


@pytest.mark.parametrize(("function", "forms"), [*condition_parameters()])
def test_every_condition_may_be_a_text(function: str, forms: set[str]) -> None:
    wanted = {"str", "Expression", "Predicate"}
    if function.startswith("delta_ops.spark"):
        wanted.add("Column")
    assert forms == wanted
