"""The command `session`: rows of several writers that become one commit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from msgspec.structs import asdict as struct_dict

from delta_ops.cli.options import (
    dry_run_option,
    json_option,
    open_table,
    storage_options_option,
)
from delta_ops.cli.render import Group, moment_text, say, show_json, show_rows
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.log.refs.sessions import find_session
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.units import count_text, size_text
from delta_ops.versioning import (
    Session,
    SessionStatus,
    WriteSession,
    list_sessions,
    open_session,
)


@click.group("session", cls=Group)
@click.argument("table")
@click.pass_context
def session_command(context: click.Context, table: str) -> None:
    """Finish sessions that several writers wrote to: session TABLE COMMAND."""
    context.obj = table


@session_command.command("list")
@storage_options_option
@json_option
@click.pass_obj
def list_sessions_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the sessions of a table that have not ended, oldest first."""
    log = open_table(table, storage_options)
    found = [(each, open_session(log, each.id).status()) for each in list_sessions(log)]
    if as_json:
        fields = [_session_fields(session, status) for session, status in found]
        show_json({"table": log.uri, "sessions": fields})
    elif found:
        rows = [
            (
                each.id,
                each.base_version,
                _state(each, status),
                moment_text(each.expires_ms),
                each.name or "",
            )
            for each, status in found
        ]
        columns = ("session", "base", "state", "expires", "name")
        show_rows(columns, rows, whole=("session", "expires"), optional=("name",))
    else:
        say("The table has no sessions.")


@session_command.command("show")
@click.argument("session")
@storage_options_option
@json_option
@click.pass_obj
def show_session_command(
    table: str, storage_options: dict[str, Any], session: str, as_json: bool
) -> None:
    """Show the steps of a session, in the order in which their rows count."""
    log = open_table(table, storage_options)
    opened = _open(log, session)
    status, steps = opened.status(), opened.steps()
    entry = find_session(log.storage, opened.id)
    if as_json:
        fields = _session_fields(entry, status)
        show_json({"table": log.uri, **fields, "steps": [asdict(each) for each in steps]})
        return
    say(
        f"Session {entry.id} began at version {entry.base_version}, and expires at "
        f"{moment_text(entry.expires_ms)}. State: {_state(entry, status)}."
    )
    if status.reason:
        say(f"{status.reason}.")
    rows = [
        (
            each.step,
            each.attempt,
            ", ".join(each.operations) or "nothing",
            each.added_files,
            each.removed_files,
            size_text(each.added_bytes),
        )
        for each in steps
    ]
    columns = ("step", "attempt", "wrote", "added", "removed", "size")
    if rows:
        show_rows(columns, rows, whole=("attempt", "added", "removed", "size"))
    else:
        say("No step has begun.")


@session_command.command("commit")
@click.argument("session")
@click.option(
    "expected_steps",
    "--expect-step",
    multiple=True,
    metavar="STEP",
    help="Commit only if exactly the given steps have written; may be repeated.",
)
@click.option("--message", help="Any text, kept in the history of the table.")
@storage_options_option
@json_option
@click.pass_obj
def commit_session_command(
    table: str,
    storage_options: dict[str, Any],
    session: str,
    expected_steps: tuple[str, ...],
    message: str | None,
    as_json: bool,
) -> None:
    """Commit the rows of a session to main, in one commit or not at all.

    Also finishes a commit whose process was killed.
    """
    log = open_table(table, storage_options)
    result = _open(log, session).commit(
        expected_steps=expected_steps or None, user_metadata=message
    )
    if as_json:
        show_json({"table": log.uri, **asdict(result)})
    elif result.already_committed:
        version = "" if result.version is None else f", as version {result.version}"
        say(f"Session {result.session} was committed before{version}.")
    elif result.version is None:
        say(f"Session {result.session} has no rows, so nothing was committed.")
    else:
        say(
            f"Committed {count_text(len(result.steps), 'step')} of session {result.session} as "
            f"version {result.version}: {count_text(result.added_files, 'file')} added, "
            f"{result.removed_files:,} removed."
        )


@session_command.command("abandon")
@click.argument("session")
@click.option(
    "--committer-was-killed",
    is_flag=True,
    help="Abandon it although a commit has begun, because that process has ended.",
)
@dry_run_option
@storage_options_option
@json_option
@click.pass_obj
def abandon_session_command(
    table: str,
    storage_options: dict[str, Any],
    session: str,
    committer_was_killed: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """End a session without a commit; a full vacuum deletes its files later."""
    log = open_table(table, storage_options)
    opened = _open(log, session)
    steps = opened.steps()
    files = sum(each.added_files for each in steps)
    size_bytes = sum(each.added_bytes for each in steps)
    if not dry_run:
        opened.abandon(committer_was_killed=committer_was_killed)
    if as_json:
        show_json(
            {
                "table": log.uri,
                "session": opened.id,
                "dry_run": dry_run,
                "files": files,
                "bytes": size_bytes,
                "steps": [each.step for each in steps],
            }
        )
        return
    verb = "Would abandon" if dry_run else "Abandoned"
    say(
        f"{verb} session {opened.id}: {count_text(len(steps), 'step')}, "
        f"{count_text(files, 'file')}, {size_text(size_bytes)}."
    )


def _open(log: DeltaLog, text: str) -> WriteSession:
    """Open a session by its id, the start of its id, or its token."""
    matching = [each.id for each in list_sessions(log) if each.id.startswith(text)]
    if len(matching) > 1:
        raise InvalidRequestError(
            f"{log.uri}: {len(matching)} sessions begin with {text!r}; give more of the id"
        )
    return open_session(log, matching[0] if matching else text)


def _state(session: Session, status: SessionStatus) -> str:
    is_expired = status.state == "open" and session.expires_ms < system_clock()
    return "expired" if is_expired else status.state


def _session_fields(session: Session, status: SessionStatus) -> dict[str, Any]:
    """The session for JSON."""
    fields = struct_dict(session)
    times = {name: utc_text(fields.pop(f"{name}_ms")) for name in ("created", "expires")}
    return {
        **fields,
        **times,
        "dropped": list(session.dropped),
        "state": _state(session, status),
        "reason": status.reason,
    }
