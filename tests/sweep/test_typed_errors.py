"""For any damage to a log or a file, public functions raise only errors of delta_ops."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import maintenance
from delta_ops.errors import DeltaOpsError
from tests.support.memory_folder import memory_folder
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
    pytest.param("partition columns that are all", "create_scan_cache", id="a struct cached"),
]
SOME = 5
"""`make test` takes one in this many damages, with one reading and one changing call."""


@pytest.fixture(scope="module")
def intact() -> Iterator[Path]:
    with memory_folder() as folder:
        root = folder / "intact" / "t"
        create_table(root)
        yield root


def damaged(intact: Path, name: str, number: int = 0) -> Path:
    """A copy of the table with this damage."""
    parent = intact.parent.with_name(f"damaged-{number}")
    shutil.rmtree(parent, ignore_errors=True)
    root = Path(shutil.copytree(intact, parent / "t"))
    HOSTILE[name](root)
    return root


def untyped_errors(root: Path, calls: Iterator[str] | list[str]) -> Iterator[str]:
    """The errors of the calls that are not errors of delta_ops."""
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


@pytest.mark.some_cases(30)
@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_the_sweep_work_on_an_intact_table(intact: Path, name: str) -> None:
    root = damaged(intact, "an intact table")
    with pytest.raises(DeltaOpsError) if name in REFUSED else nullcontext():
        CALLS[name](root)


@pytest.mark.parametrize(
    "place",
    [
        "\0",
        "a\0b",
        "x" * 5_000,
        "/".join(["y" * 200] * 30),
        "\ud800",
        "",
        "~nobody/x",
        "nope://b/x",
    ],
    ids=lambda place: ascii(place[:8]),
)
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(da.to_table, id="read"),
        pytest.param(lambda place: da.write(place, pa.table({"a": [1]})), id="write"),
        pytest.param(maintenance.find_tables, id="find"),
        pytest.param(maintenance.health, id="health"),
        pytest.param(da.convert, id="convert"),
    ],
)
def test_a_place_that_cannot_be_is_refused_by_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, call: Callable[[str], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    with suppress(DeltaOpsError):
        call(place)


@pytest.mark.parametrize("place", ["\0", "\ud800", "nowhere/x.parquet", "."])
def test_a_schema_is_exported_to_a_file_or_refused(
    intact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeltaOpsError):
        da.export_schema(intact, place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("damage", "call"), KNOWN)
def test_a_known_fault_stays_mended(intact: Path, damage: str, call: str) -> None:
    assert list(untyped_errors(damaged(intact, damage), [call])) == []


@pytest.mark.some_cases(6)
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
