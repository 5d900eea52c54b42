"""Whatever is in a log or a file, a public function raises errors of delta_ops and no others."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

from delta_ops.errors import DeltaOpsError
from tests.sweep.calls import COMMANDS, READS, REFUSED, VALUES, WRITES, Call
from tests.sweep.hostile_tables import HOSTILE, create_table

SURFACES = ("delta_ops", *(f"delta_ops.{n}" for n in ("log", "arrow", "ddl", "maintenance")))
CALLS: Mapping[str, Call] = {**READS, **WRITES, **COMMANDS}
CHANGING = [*WRITES, *COMMANDS]
NAMES = list(HOSTILE)
KNOWN = [
    pytest.param("a vector with a name that is not Z85", "shallow_clone", id="a vector cloned"),
    pytest.param("a data file of 150 levels", "convert", id="a deep file converted"),
    pytest.param("a data file that is gone", "read_changes by others", id="changes of no file"),
    pytest.param("a schema of no column", "to_table", id="a table without columns"),
    pytest.param("a column of type decimal of long numbers", "snapshot_of", id="a long decimal"),
    pytest.param("delta.targetFileSize = a long number", "write", id="a long size"),
    pytest.param("a vector whose sizeInBytes is null", "to_table", id="a vector of no size"),
    pytest.param("a vector whose cardinality is null", "count_rows", id="a vector of no count"),
    pytest.param("a commitInfo whose inCommitTimestamp is long", "read_changes", id="a far time"),
    pytest.param("a column of type struct of no field", "export_schema", id="an empty struct"),
]
SOME = 5
"""Of so many damages `make test` takes one, with one call that reads and one that changes."""


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep") / "intact" / "t"
    create_table(root)
    return root


def damaged(intact: Path, name: str, number: int = 0) -> Path:
    """A copy of the table with this damage."""
    parent = intact.parent.with_name(f"damaged-{number}")
    shutil.rmtree(parent, ignore_errors=True)
    root = Path(shutil.copytree(intact, parent / "t"))
    HOSTILE[name](root)
    return root


def untyped_errors(root: Path, calls: Iterator[str] | list[str]) -> Iterator[str]:
    """What the calls raise that is no error of delta_ops."""
    for name in calls:
        try:
            with suppress(DeltaOpsError):
                CALLS[name](root)
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {str(error)[:200]}"


def test_each_public_function_is_called_by_the_sweep() -> None:
    called = {name.partition(" ")[0] for name in [*READS, *WRITES]} | VALUES
    public = chain.from_iterable(
        (name for name in module.__all__ if inspect.isfunction(getattr(module, name)))
        for module in map(import_module, SURFACES)
    )
    assert sorted(set(public) - called) == []


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_the_sweep_work_on_an_intact_table(intact: Path, name: str) -> None:
    root = damaged(intact, "an intact table")
    with pytest.raises(DeltaOpsError) if name in REFUSED else nullcontext():
        CALLS[name](root)


@pytest.mark.parametrize(("damage", "call"), KNOWN)
def test_a_known_fault_stays_mended(intact: Path, damage: str, call: str) -> None:
    assert list(untyped_errors(damaged(intact, damage), [call])) == []


@pytest.mark.parametrize("first", range(20))
def test_calls_raise_typed_errors_only(intact: Path, first: int) -> None:
    reads, changes = list(READS), CHANGING
    found = {}
    for number in range(first * SOME, len(NAMES), SOME * 20):
        name = NAMES[number]
        turn = number // SOME
        calls = [reads[turn % len(reads)], changes[turn % len(changes)]]
        found[name] = list(untyped_errors(damaged(intact, name), calls))
    assert {name: errors for name, errors in found.items() if errors} == {}


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_all_reads_of_a_damaged_table_raise_typed_errors_only(intact: Path, name: str) -> None:
    root = damaged(intact, name)
    assert list(untyped_errors(root, list(READS))) == []
    number = NAMES.index(name)
    for place, call in enumerate(CHANGING[number % 8 :: 8]):
        assert list(untyped_errors(damaged(intact, name, place), [call])) == []


@pytest.mark.long
@pytest.mark.parametrize("call", CHANGING)
def test_all_changes_of_damaged_tables_raise_typed_errors_only(intact: Path, call: str) -> None:
    found = {name: list(untyped_errors(damaged(intact, name), [call])) for name in NAMES}
    assert {name: errors for name, errors in found.items() if errors} == {}
