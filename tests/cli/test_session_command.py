"""The command `session`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops.cli.main import cli
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.versioning import begin_session, join_session


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, arguments)
    return result.exit_code, result.output


def test_a_session_is_shown_and_committed(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    rows = pa.table({"id": [1]})
    da.write(table, rows)
    assert run("session", table, "list") == (0, "The table has no sessions.\n")
    session = join_session(table, "nightly")
    assert "No step has begun." in run("session", table, "show", session.id)[1]
    da.write(session.fork("load"), rows)
    assert session.id in run("session", table, "list")[1]
    (listed,) = json.loads(run("session", table, "list", "--json")[1])["sessions"]
    assert (listed["id"], listed["name"], listed["state"]) == (session.id, "nightly", "open")
    assert listed["base_version"] == 0
    assert "WRITE" in run("session", table, "show", session.id[:8])[1]
    (step,) = json.loads(run("session", table, "show", session.id, "--json")[1])["steps"]
    assert (step["step"], step["attempt"], step["added_files"]) == ("load", 1, 1)
    assert run("count", table, "--ref", session.ref) == (0, "2\n")
    code, text = run("session", table, "commit", session.id, "--expect-step", "other")
    assert (code, "no rows of 'other'" in text) == (1, True)
    code, text = run("session", table, "commit", session.id[:8], "--message", "nightly")
    assert (code, text) == (
        0,
        f"Committed 1 step of session {session.id} as version 1: 1 file added, 0 removed.\n",
    )
    code, text = run("session", table, "commit", session.token, "--json")
    assert (code, json.loads(text)["already_committed"]) == (0, True)
    code, text = run("session", table, "show", session.token)
    assert (code, "was committed as version 1" in text) == (1, True)


def test_a_session_is_abandoned_after_a_dry_run(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    session = begin_session(table)
    da.write(session.fork("load"), pa.table({"id": [2]}))
    text = run("session", table, "abandon", session.id, "--dry-run")[1]
    assert text.startswith(f"Would abandon session {session.id}: 1 step, 1 file")
    code, text = run("session", table, "abandon", session.id, "--json")
    assert (code, json.loads(text)["steps"]) == (0, ["load"])
    code, text = run("session", table, "abandon", session.id)
    assert (code, "there is no such session" in text) == (1, True)


def test_a_conflict_is_shown_with_its_reason(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    session = begin_session(table)
    da.delete(session.fork("clean"), "id < 5")
    da.write(table, pa.table({"id": [2]}))
    code, text = run("session", table, "commit", session.id)
    assert (code, "was committed to main since the session began" in text) == (1, True)
    assert "conflict" in run("session", table, "list")[1]
    assert "has read" in run("session", table, "show", session.id)[1]


def test_a_vacuum_names_the_sessions_that_it_ends(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    long_ago = system_clock() - 30 * DAY_MS
    session = begin_session(table, expires_in=timedelta(days=1), clock=lambda: long_ago)
    assert "expired" in run("session", table, "list")[1]
    code, text = run("vacuum", table)
    assert (code, text.splitlines()[0]) == (0, f"Ended sessions that had expired: {session.id}.")
