"""Reproduced outputs: written to a branch, and compared with what the named run committed.

1. The branch begins at the version before the first commit of the named run, so that an append or a
   merge meets the rows that it met then. If the named run created the table, the branch begins at
   version 0 and deletes its rows.
2. Main gets no commit. The materialization names the branch instead of a version. It keeps the data
   version of the materialization before, so that no reader of the asset becomes stale.
3. The rows of the branch are compared with the version that the named run committed. Files that
   both have are not read; other rows are in memory.
4. A retry writes a new branch under the same name.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops import arrow
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.refs.branches import branch_named
from delta_ops.log.refs.refs import Branch, refs_journal
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.audit_branches import (
    BASE_VERSION,
    BRANCH,
    BRANCH_EXPIRES,
    BRANCH_ID,
    BRANCH_VERSION,
    READ_BRANCH,
    branch_name,
    runs_of,
)
from delta_ops.orchestration.io_manager.output_report import WrittenOutput, known_version
from delta_ops.orchestration.io_manager.output_txns import StepOutput, step_output
from delta_ops.orchestration.io_manager.output_writer import OutputWriter
from delta_ops.orchestration.io_manager.reproduce.recorded_run import (
    find_recorded_output,
    first_version,
    open_recorded,
    reproduced_run,
)
from delta_ops.orchestration.metadata import data_version
from delta_ops.planning.row_difference import CHANGE
from delta_ops.storage.paths import redact
from delta_ops.units import count_text
from delta_ops.versioning import create_branch, delete_branch

REPRODUCTION = "delta/reproduction"
REPRODUCED_RUN, REPRODUCED_VERSION = "delta/reproduced_run", "delta/reproduced_version"
ROWS_ONLY_THEN, ROWS_ONLY_NOW = "delta/rows_only_then", "delta/rows_only_now"
DIFFERING_ROWS = "delta/differing_rows"
"""Metadata of the materialization of a reproduced asset."""
_LIFETIME = timedelta(days=6)
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedOutput:
    """An output on its branch."""

    log: DeltaLog
    """The log of the branch."""
    branch: Branch
    output: WrittenOutput
    committed: Snapshot
    """What the named run committed."""
    named: dg.DagsterRun

    def metadata(self) -> dict[str, Any]:
        """The result of the comparison, and how to see the rows."""
        branch = self.log.snapshot()
        rows = arrow.diff_rows(self.committed, branch)
        changes = rows[CHANGE].to_pylist()
        then, now = changes.count("delete"), changes.count("insert")
        result = "equal"
        if changes:
            result = (
                f"differs: {count_text(then, 'row')} only in run {self.named.run_id}, "
                f"{count_text(now, 'row')} only in this run"
            )
        shown = {} if not changes else {DIFFERING_ROWS: _shown_rows(rows)}
        expires = datetime.fromtimestamp(self.branch.expires_ms / 1000, UTC)
        return {
            REPRODUCTION: result,
            REPRODUCED_RUN: dg.MetadataValue.dagster_run(self.named.run_id),
            REPRODUCED_VERSION: self.committed.version,
            ROWS_ONLY_THEN: then,
            ROWS_ONLY_NOW: now,
            **shown,
            BRANCH: self.branch.name,
            BRANCH_ID: self.branch.id,
            BRANCH_VERSION: branch.version,
            BASE_VERSION: self.branch.base_version,
            BRANCH_EXPIRES: dg.MetadataValue.timestamp(expires),
            READ_BRANCH: dg.MetadataValue.md(self._code()),
        }

    def set_data_version(self, context: dg.OutputContext, main: Snapshot) -> None:
        """Keep the data version that the output had before this run."""
        known = known_version(context, main)
        if known is not None:
            compat.set_data_version(context, data_version(main, known))

    def _code(self) -> str:
        uri, ref = redact(self.log.uri), f"branch:{self.branch.name}"
        return (
            "The rows of this run are on a branch; main has not changed. Compare them:\n\n"
            "```python\nfrom delta_ops import DeltaLog\nimport delta_ops.arrow as da\n\n"
            f"log = DeltaLog({uri!r})\n"
            f"da.diff_rows(log.snapshot({self.committed.version}), log.snapshot(ref={ref!r}))\n"
            "```"
        )


def _shown_rows(rows: pa.Table) -> dg.TableMetadataValue:
    """Some of the rows that differ, as a table of texts."""
    head = rows.select([CHANGE, *(name for name in rows.column_names if name != CHANGE)])
    found = []
    for row in head.slice(0, _SHOWN_ROWS).to_pylist():
        where = "only then" if row.pop(CHANGE) == "delete" else "only now"
        texts = {name: str(value)[:_SHOWN_CHARACTERS] for name, value in row.items()}
        found.append(dg.TableRecord({"rows": where, **texts}))
    return dg.MetadataValue.table(records=found)


def find_reproduced(context: dg.OutputContext) -> dg.DagsterRun | None:
    """The run that the run of an output reproduces; None if it reproduces no run."""
    run = compat.dagster_run(context)
    return None if run is None else reproduced_run(compat.dagster_instance(context), run)


def write_reproduction(writer: OutputWriter, named: dg.DagsterRun, value: Any) -> ReproducedOutput:
    """Write an output to a branch.

    Raises:
        InvalidRequestError: The named run has not committed the output, the asset is audited or
            writes its table by itself, or the table cannot have branches.
        VersionNotFoundError: A version of the named run is gone.
    """
    output = step_output(writer.context)
    assert output is not None
    _validate_value(writer, value, output)
    recorded = find_recorded_output(output.instance, named, output.asset_key, output.partitions)
    run_ids = [each.run_id for each in runs_of(output.instance, named)]
    first = first_version(writer.log, recorded, run_ids)
    assert recorded.version is not None
    committed = writer.log.snapshot(recorded.version)
    branch = _create_branch(writer.log, branch_name(output, "reproduce"), max(first - 1, 0))
    log = writer.log.on_branch(branch)
    try:
        if first == 0:
            arrow.delete(log, hooks=())
        written = replace(writer, log=log, hooks=()).write(value)
    except BaseException:
        delete_branch(writer.log, branch.name)
        raise
    return ReproducedOutput(
        log=log, branch=branch, output=written, committed=committed, named=named
    )


def _validate_value(writer: OutputWriter, value: Any, output: StepOutput) -> None:
    name = output.asset_key.to_user_string()
    problem = None
    if writer.settings.is_audited:
        problem = "is audited"
    elif isinstance(value, Snapshot | DeltaLog) and value.uri == writer.log.uri:
        problem = "writes its table by itself"
    if problem is not None:
        raise InvalidRequestError(
            f"asset {name} {problem}, so run {output.run.run_id} cannot reproduce it; leave it out "
            "of the selection"
        )


def _create_branch(log: DeltaLog, name: str, version: int) -> Branch:
    """Create the branch; a branch of this name belongs to an earlier attempt of the step."""
    open_recorded(log, version)
    if branch_named(refs_journal(log.storage).load().state, name) is not None:
        delete_branch(log, name)
    return create_branch(log, name, version=version, expires_in=_LIFETIME, enforce_retention=False)
