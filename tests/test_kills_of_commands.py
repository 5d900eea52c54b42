"""Every command killed at any storage call is done or not, and done once after a rerun."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.transaction.requests import Mode
from tests.arrow import test_convert, test_kills_of_changes
from tests.ddl import test_drop_table, test_shallow_clone
from tests.support.commands import COMMANDS, Command, prepared
from tests.support.faulty_storage import copies_of, crashes
from tests.support.tables import rows, rows_by_deltalake
from tests.transaction.test_commit_crash_points import files_of

_DRAWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b\d{13}\b")
"""Parts of names, and times."""

ELSEWHERE: dict[Callable[..., Any], Callable[..., None]] = {
    da.delete: test_kills_of_changes.test_a_kill_leaves_the_rows_of_before_or_after,
    da.update: test_kills_of_changes.test_a_kill_leaves_the_rows_of_before_or_after,
    da.merge: test_kills_of_changes.test_a_kill_leaves_the_rows_of_before_or_after,
    da.convert: test_convert.test_a_kill_leaves_no_table_or_all_of_it,
    ddl.shallow_clone: test_shallow_clone.test_a_kill_leaves_no_clone_or_all_of_it,
    ddl.drop_table: test_drop_table.test_a_kill_leaves_the_table_as_it_was_or_none_that_can_be_opened,  # noqa: E501
}
"""Commands whose crash points another test searches."""
COMMITS_NOTHING = {
    da.check_rows,
    da.count_rows,
    da.diff_rows,
    da.explain_scan,
    da.export_schema,
    da.read_changes,
    da.rewrite,
    da.stage_write,
    da.to_batches,
    da.to_table,
}


def test_no_command_is_left_out() -> None:
    public = {
        function
        for package in (ddl, da)
        for function in (getattr(package, name) for name in package.__all__)
        if inspect.isfunction(function)
    }
    searched = {command.function for command in COMMANDS.values()} | set(ELSEWHERE)
    assert public - COMMITS_NOTHING <= searched
    assert public >= COMMITS_NOTHING
    assert COMMANDS.keys() >= IN_MAKE_TEST
    for mode in get_args(Mode):
        assert any(name.startswith(f"write, mode {mode}") for name in COMMANDS), mode


def state(log: DeltaLog) -> Any:
    """The complete state of a table, without random values; None without a table."""
    snapshot = log.snapshot_if_exists()
    if snapshot is None:
        return None
    metadata = snapshot.metadata
    lists = {
        info.path: log.storage.read(info.path).decode().replace(log.uri, "")
        for info in log.storage.list_tree("_symlink_format_manifest")
    }
    defined = (
        snapshot.protocol,
        metadata.name,
        metadata.description,
        _DRAWN.sub("*", metadata.schema_string),
        metadata.partition_columns,
        {key: _DRAWN.sub("*", value) for key, value in metadata.configuration.items()},
        dict(snapshot.domain_metadata()),
        sorted(snapshot.transactions()),
    )
    files = [
        (_DRAWN.sub("*", add.stats or ""), add.deletion_vector is None, add.base_row_id)
        for add in snapshot.add_files()
    ]
    return (
        snapshot.version,
        defined,
        rows(da.to_table(log)),
        sorted(files, key=repr),
        {path: _DRAWN.sub("*", text) for path, text in lists.items()},
    )


IN_MAKE_TEST = {
    "create table",
    "create or replace table",
    "rename table",
    "symlink manifest",
    "backfill statistics",
    "write, mode overwrite of the schema",
}
"""Commands that create or replace a table, or change metadata, manifests, statistics and rows."""


def mark_of(name: str) -> list[pytest.MarkDecorator]:
    if COMMANDS[name].is_slow:
        return [pytest.mark.long]
    return [] if name in IN_MAKE_TEST else [pytest.mark.full]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=mark_of(name)) for name in COMMANDS])
def test_a_kill_leaves_the_command_done_or_not(tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]
    fresh = copies_of(prepared(tmp_path / "table", command), tmp_path)
    whole = DeltaLog("", storage=fresh())
    before = state(whole)
    command.run(whole)
    after = state(whole)
    assert before != after
    searched = set()
    for where, left in crashes(fresh, lambda storage: command.run(DeltaLog("", storage=storage))):
        files = files_of(left)
        if files in searched:
            continue
        searched.add(files)
        try:
            check_crash(command, left, before, after)
        except BaseException as error:
            error.add_note(f"killed {where}")
            raise
    assert len(searched) > 1


def check_crash(command: Command, left: Any, before: Any, after: Any) -> None:
    log = DeltaLog("", storage=left)
    found = state(log)
    if command.function is ddl.generate_manifest:  # each manifest is whole, and nothing else exists
        assert found[:4] == before[:4]
        assert found[4].items() <= after[4].items()
    else:
        assert found in (before, after)
    command.run(log)
    assert state(log) == after
    command.run(log)
    assert state(log) == after
    validate_checksum(log.snapshot())
    if command.deltalake:
        assert len(rows_by_deltalake(Path(left.uri))) == len(after[2])
