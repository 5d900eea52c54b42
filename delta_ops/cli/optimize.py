"""The command `optimize`: small files put together, rows laid out, files rewritten for a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from delta_ops.cli.options import (
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
from delta_ops.cli.render import command_error, progress, say, show_result, show_rows
from delta_ops.log import DeltaLog
from delta_ops.maintenance import OptimizePlan, OptimizeResult, optimize, purge
from delta_ops.maintenance.optimize.estimate import Estimate
from delta_ops.maintenance.optimize.operation import OPTIMIZE
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.rewrite_group import Curve, RewriteGroup
from delta_ops.units import count_text, size_text


@click.command("optimize")
@table_argument
@target_size_option
@click.option("--min-files", type=click.IntRange(min=2), help="In a group; 2 if not given.")
@where_option
@click.option(
    "--zorder",
    metavar="COLUMNS",
    callback=lambda _ctx, _param, text: (
        None if text is None else [name.strip() for name in text.split(",")]
    ),
    help="Lay rows out by up to eight columns, separated by commas, by which reads choose rows.",
)
@click.option(
    "--curve",
    type=click.Choice(["zorder", "hilbert"]),
    help="With --zorder: how rows are laid out by several columns; zorder if not given.",
)
@click.option(
    "--cluster",
    is_flag=True,
    help="Refuse a table that is not clustered; one that is, is laid out by its columns anyway.",
)
@click.option(
    "--full",
    is_flag=True,
    help="With --zorder, or on a clustered table: lay out all files, not only new ones.",
)
@min_size_option
@max_size_option
@click.option("--purge", "purges", is_flag=True, help="Rewrite files that have deletion vectors.")
@click.option(
    "--deleted-share",
    type=click.FloatRange(0, 1),
    help="With --purge: only files of whose rows so many are deleted, from 0 to 1; any if not "
    "given.",
)
@click.option(
    "--lacking-statistics", is_flag=True, help="With --purge: files without statistics, too."
)
@click.option("--old-schema", is_flag=True, help="With --purge: files of other columns, too.")
@click.option(
    "--other-codec",
    is_flag=True,
    help="With --purge: files of another compression than the table's, too.",
)
@max_row_group_size_option
@budget_option
@dry_run_option
@json_option
def optimize_command(
    table: str,
    storage_options: dict[str, Any],
    target_size: int | None,
    min_files: int | None,
    where: Predicate | None,
    zorder: list[str] | None,
    curve: Curve | None,
    cluster: bool,
    full: bool,
    min_size: int | None,
    max_size: int | None,
    purges: bool,
    deleted_share: float | None,
    lacking_statistics: bool,
    old_schema: bool,
    other_codec: bool,
    max_row_group_size: int | None,
    budget: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put small files together, or lay rows out by columns; --where takes partition columns."""
    putting_together = {
        "--zorder": zorder,
        "--curve": curve,
        "--cluster": cluster,
        "--full": full,
        "--min-files": min_files,
        "--min-size": min_size,
        "--max-size": max_size,
    }
    purging = {
        "--deleted-share": deleted_share,
        "--lacking-statistics": lacking_statistics,
        "--old-schema": old_schema,
        "--other-codec": other_codec,
        "--max-row-group-size": max_row_group_size,
    }
    if purges:
        _refuse(
            putting_together,
            "{} says how to put files together or to lay rows out; leave out --purge, or it",
        )
    else:
        _refuse(purging, "{} goes with --purge: it says what files to purge")
    if zorder and cluster:
        raise click.UsageError("a clustered table has its own columns: leave out --zorder")
    if curve and not zorder:
        raise click.UsageError("--curve goes with --zorder: a clustered table's is Hilbert's")
    log = open_table(table, storage_options)
    if cluster or full or min_size:
        _validate_order(log, zorder, cluster=cluster, full=full, min_size=min_size)
    with progress(wanted=not as_json) as on_event:
        if purges:
            result = purge(
                log,
                deleted_share=deleted_share or 0.0,
                lacking_statistics=lacking_statistics,
                old_schema=old_schema,
                other_codec=other_codec,
                max_row_group_bytes=max_row_group_size,
                target_size=target_size,
                predicate=where,
                max_bytes=budget,
                dry_run=dry_run,
                on_event=on_event,
            )
        else:
            result = optimize(
                log,
                target_size=target_size,
                predicate=where,
                zorder_by=zorder,
                curve=curve or "zorder",
                full=full,
                dry_run=dry_run,
                min_files=min_files or 2,
                min_size=min_size,
                max_size=max_size,
                max_bytes=budget,
                on_event=on_event,
            )
    if as_json:
        show_result(OPTIMIZE, log.uri, result)
    else:
        say(_optimize_text(result, purges=purges))
        if dry_run and result.plan.has_work:
            _show_groups(result.plan)


def _refuse(options: Mapping[str, Any], sentence: str) -> None:
    # A share of 0 is given, too.
    given = [name for name, value in options.items() if value is not None and value is not False]
    if given:
        raise click.UsageError(sentence.format(given[0]))


def _validate_order(
    log: DeltaLog, zorder: list[str] | None, *, cluster: bool, full: bool, min_size: int | None
) -> None:
    """Refuse options that would have no effect on the table."""
    is_clustered = bool(log.snapshot().clustering_columns)
    by_which = "say by which columns first (alter ... cluster-by)"
    if cluster and not is_clustered:
        raise command_error(f"{log.uri} is not clustered; {by_which}.")
    if full and not (is_clustered or zorder):
        raise command_error(
            f"{log.uri} is not clustered, so --full has no order to lay all files out in; give "
            f"--zorder, or {by_which}."
        )
    if min_size and (is_clustered or zorder):
        raise command_error(
            f"{log.uri}: --min-size says which files are put together where rows have no order; "
            "leave it out."
        )


def _optimize_text(result: OptimizeResult, *, purges: bool) -> str:
    plan = result.plan
    if result.dry_run and plan.has_work:
        expected = "" if result.expected is None else f" {_expected_text(result.expected)}"
        return f"{_optimize_plan_text(plan)}{expected}"
    if result.already_committed:
        return "Another run has done this first; nothing was changed."
    left = _left_text(result.files_left_to_others)
    if result.version is None:
        if left:
            return f"Nothing was changed.{left}"
        if plan.order is not None:
            return "Every file is laid out; nothing to do."
        if purges:
            return "No file is to be purged; nothing to do."
        return "No files are better put together; nothing to do."
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
        f" {count_text(num_files, 'planned file')} stayed: other writers changed files of their "
        "groups, or the table, meanwhile; run this again for what is left of them."
    )


def _optimize_plan_text(plan: OptimizePlan) -> str:
    if plan.order is not None:
        names = ", ".join(name_of_path(path) for path in plan.order.columns)
        groups = count_text(len(plan.groups), "group")
        return f"Would lay out {_files_text(plan.groups)} by {names}, in {groups}."
    single = [group for group in plan.groups if len(group.files) == 1]
    joined = [group for group in plan.groups if len(group.files) > 1]
    parts = []
    if joined:
        parts.append(f"Would put {_files_text(joined)} together into {len(joined):,} at most.")
    if single:
        parts.append(f"Would rewrite {_files_text(single)}, each for itself.")
    return " ".join(parts)


def _expected_text(expected: Estimate) -> str:
    depth = "" if expected.depth is None else f", and the depth is {expected.depth}"
    seconds = expected.seconds
    taken = "" if seconds is None else f" By the last runs, it takes some {seconds:,.0f} s."
    files = f"{count_text(expected.num_files, 'file')} ({size_text(expected.size_bytes)})"
    return f"Expected: these become {files}{depth}.{taken}"


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
