"""The commands that lay rows out: `optimize`, also its purge of deleted rows, and `advise`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from delta_ops.cli.options import (
    FiniteRange,
    budget_option,
    dry_run_option,
    json_option,
    max_row_group_size_option,
    max_size_option,
    min_size_option,
    open_table,
    table_argument,
    target_size_option,
    where_option,
)
from delta_ops.cli.render import (
    command_error,
    is_terminal,
    progress,
    say,
    show_fields,
    show_json,
    show_result,
    show_rows,
)
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog
from delta_ops.maintenance import OptimizePlan, OptimizeResult, advise, optimize, purge
from delta_ops.maintenance.optimize.estimate import Estimate
from delta_ops.maintenance.optimize.operation import OPTIMIZE
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.rewrite_group import Curve, RewriteGroup
from delta_ops.units import count_text, size_text

_OF_COMPACTION = ("zorder", "curve", "cluster", "full", "min_files", "min_size", "max_size")
_OF_PURGE = (
    "deleted_share",
    "lacking_statistics",
    "old_schema",
    "other_codec",
    "max_row_group_size",
)
"""Options that require `--purge`; `_OF_COMPACTION` has the options that exclude it."""


@click.command("optimize")
@table_argument
@target_size_option
@click.option(
    "--min-files",
    type=click.IntRange(min=2),
    help="Smallest number of files to compact together; 2 if not given.",
)
@where_option
@click.option(
    "--zorder",
    metavar="COLUMNS",
    callback=lambda _ctx, _param, text: (
        None if text is None else [name.strip() for name in text.split(",")]
    ),
    help="Sort rows by up to eight columns, separated by commas, that reads filter by.",
)
@click.option(
    "--curve",
    type=click.Choice(["zorder", "hilbert"]),
    help="With --zorder: the curve for several columns; zorder if not given.",
)
@click.option(
    "--cluster",
    is_flag=True,
    help=(
        "Reject a table that is not clustered. A clustered table is always ordered by its "
        "clustering "
        "columns."
    ),
)
@click.option(
    "--full",
    is_flag=True,
    help=(
        "With --zorder, or on a table with clustering columns or a sort key: order all files, not "
        "only new files."
    ),
)
@min_size_option
@max_size_option
@click.option("--purge", "purges", is_flag=True, help="Rewrite files that have deletion vectors.")
@click.option(
    "--deleted-share",
    type=FiniteRange(0, 1),
    help=(
        "With --purge: only files with at least this share of deleted rows, from 0 to 1; any share "
        "if not given."
    ),
)
@click.option(
    "--lacking-statistics", is_flag=True, help="With --purge: also files without statistics."
)
@click.option("--old-schema", is_flag=True, help="With --purge: also files with outdated columns.")
@click.option(
    "--other-codec",
    is_flag=True,
    help="With --purge: also files whose compression differs from the table's.",
)
@max_row_group_size_option
@budget_option
@dry_run_option
@json_option
def optimize_command(
    table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Compact small files, or order rows by columns; --where takes partition columns."""
    chosen = _Options(**options)
    chosen.validate()
    log = open_table(table, storage_options)
    chosen.validate_for(log)
    with progress(wanted=not as_json) as on_event:
        result = chosen.run(log, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_result(OPTIMIZE, log.uri, result)
        return
    verb = "purge" if chosen.purges else "compact"
    say(_optimize_text(result, verb))
    if dry_run and result.plan.has_work:
        if is_terminal():
            click.echo()
        _show_groups(result.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of `optimize`, as on the command line."""

    target_size: int | None
    where: Predicate | None
    budget: int | None
    min_files: int | None
    min_size: int | None
    max_size: int | None
    zorder: list[str] | None
    curve: Curve | None
    cluster: bool
    full: bool
    purges: bool
    deleted_share: float | None
    lacking_statistics: bool
    old_schema: bool
    other_codec: bool
    max_row_group_size: int | None

    def validate(self) -> None:
        """Reject options that contradict each other.

        Raises:
            UsageError: Names the first such option.
        """
        if self.purges:
            self._reject(
                _OF_COMPACTION,
                "{} chooses how to compact files or order rows; leave out --purge or this option",
            )
        else:
            self._reject(_OF_PURGE, "{} needs --purge: it chooses the files to purge")
        if self.zorder and self.cluster:
            raise click.UsageError("a clustered table has its own columns: leave out --zorder")
        if self.curve and not self.zorder:
            raise click.UsageError(
                "--curve needs --zorder: a clustered table always uses the Hilbert curve"
            )

    def _reject(self, names: Sequence[str], sentence: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and value is not False:  # a share of 0 counts
                raise click.UsageError(sentence.format(f"--{name.replace('_', '-')}"))

    def validate_for(self, log: DeltaLog) -> None:
        """Reject options that have no effect on this table.

        Raises:
            ClickException: With the cure.
        """
        if not (self.cluster or self.full or self.min_size):
            return
        snapshot = log.snapshot()
        is_clustered = bool(snapshot.clustering_columns)
        by_which = "choose its columns first (alter ... cluster-by)"
        if self.cluster and not is_clustered:
            raise command_error(f"{log.uri} is not clustered; {by_which}.")
        if self.full and not (is_clustered or self.zorder or snapshot.properties.sort_key):
            raise command_error(
                f"{log.uri} is not clustered, so --full has no order for the files; give "
                f"--zorder, or {by_which}."
            )
        if self.min_size and (is_clustered or self.zorder):
            raise command_error(
                f"{log.uri}: --min-size says which files are put together where rows have no "
                "order; leave it out."
            )

    def run(self, log: DeltaLog, *, dry_run: bool, on_event: OnEvent) -> OptimizeResult:
        """Purge the table if `--purge` was given; else compact it or lay it out."""
        if self.purges:
            return purge(
                log,
                deleted_share=self.deleted_share or 0.0,
                lacking_statistics=self.lacking_statistics,
                old_schema=self.old_schema,
                other_codec=self.other_codec,
                max_row_group_bytes=self.max_row_group_size,
                target_size=self.target_size,
                predicate=self.where,
                max_bytes=self.budget,
                dry_run=dry_run,
                on_event=on_event,
            )
        return optimize(
            log,
            target_size=self.target_size,
            predicate=self.where,
            zorder_by=self.zorder,
            curve=self.curve or "zorder",
            full=self.full,
            dry_run=dry_run,
            min_files=self.min_files or 2,
            min_size=self.min_size,
            max_size=self.max_size,
            max_bytes=self.budget,
            on_event=on_event,
        )


def _optimize_text(result: OptimizeResult, verb: str) -> str:
    """The finished work, or the planned work of a dry run.

    Args:
        verb: "purge" or "compact", for files that are not sorted.
    """
    plan = result.plan
    if result.dry_run and plan.has_work:
        expected = "" if result.expected is None else f" {_expected_text(result.expected)}"
        return f"{_optimize_plan_text(plan, verb)}{expected}"
    if result.already_committed:
        return "Another run has done this first; nothing was changed."
    left = _left_text(result.files_left_to_others)
    if result.version is None:
        if left:
            return f"Nothing was changed.{left}"
        if plan.order is not None:
            return "Every file is already ordered; nothing to do."
        if verb == "purge":
            return "No file needs a purge; nothing to do."
        return "No files need compaction; nothing to do."
    commits = f" in {result.num_commits:,} commits" if result.num_commits > 1 else ""
    return (
        f"Version {result.version}: {count_text(result.files_removed, 'file')} "
        f"({size_text(result.bytes_removed)}) became {result.files_added:,} "
        f"({size_text(result.bytes_added)}){commits}.{left}"
    )


def _left_text(num_files: int) -> str:
    if not num_files:
        return ""
    return (
        f" Left unchanged: {count_text(num_files, 'planned file')}, because other writers changed "
        "files of the same groups, or the table; run this again for them."
    )


def _optimize_plan_text(plan: OptimizePlan, verb: str) -> str:
    if plan.order is not None:
        names = ", ".join(name_of_path(path) for path in plan.order.columns)
        groups = count_text(len(plan.groups), "group")
        return f"Would order {_files_text(plan.groups)} by {names}, in {groups}."
    single = [group for group in plan.groups if len(group.files) == 1]
    joined = [group for group in plan.groups if len(group.files) > 1]
    parts = []
    if joined:
        parts.append(f"Would {verb} {_files_text(joined)} into at most {len(joined):,}.")
    if single:
        rewrite = "purge" if verb == "purge" else "rewrite"
        each = ", one by one" if len(single) > 1 else ""
        parts.append(f"Would {rewrite} {_files_text(single)}{each}.")
    return " ".join(parts)


def _expected_text(expected: Estimate) -> str:
    depth = "" if expected.depth is None else f", {_overlap_text(expected.depth)}"
    seconds = expected.seconds
    taken = "" if seconds is None else f" From earlier runs, this takes about {seconds:,.0f} s."
    files = f"{count_text(expected.num_files, 'file')} ({size_text(expected.size_bytes)})"
    return f"Expected: these become {files}{depth}.{taken}"


def _overlap_text(depth: int) -> str:
    """How many files a read of one value opens."""
    return f"of which a read of one value opens {'1' if depth < 2 else f'at most {depth:,}'}"


def _show_groups(plan: OptimizePlan) -> None:
    show_rows(
        ("group", "partition", "files", "size"),
        (
            (number, _partition_text(group), len(group.files), size_text(group.size_bytes))
            for number, group in enumerate(plan.groups, 1)
        ),
    )


def _partition_text(group: RewriteGroup) -> str:
    values = group.files[0].partition_values
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _files_text(groups: Sequence[RewriteGroup]) -> str:
    num_files = sum(len(group.files) for group in groups)
    size = size_text(sum(group.size_bytes for group in groups))
    return f"{count_text(num_files, 'file')} ({size})"


@click.command("advise")
@table_argument
@json_option
def advise_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Recommend columns to order the table by, from its recorded reads; changes nothing."""
    advice = advise(open_table(table, storage_options))
    if as_json:
        show_json(asdict(advice))
        return
    show_fields(
        {
            "table": advice.table,
            "version": advice.version,
            "recorded reads": advice.num_reads,
            "left out": advice.num_left_out,
            "files now": advice.num_files,
            "files after": advice.num_files_after,
            "skipped now": f"{advice.skipped_today:.1%}",
        }
    )
    click.echo()
    rows = ((", ".join(each.columns), f"{each.skipped:.1%}") for each in advice.layouts)
    show_rows(("layout", "skipped files"), rows)
