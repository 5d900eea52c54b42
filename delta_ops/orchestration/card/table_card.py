"""The card of a table: its state, due maintenance and newest commits, as Markdown.

The card is metadata (`dg.MetadataValue.md`) of any event, and the UI shows it in a dialog. The
maintenance job adds it if it did or found anything, and `build_table_checks` adds it to each
result. Dagster keeps every event, so the card is small: plots are text, and the number of commits
is limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from delta_ops.arguments import validate_arguments
from delta_ops.clock import system_clock
from delta_ops.log import HistoryEntry, Snapshot, TableOrPlace, log_of
from delta_ops.log.commit_metrics import files_text, rows_text
from delta_ops.maintenance.health.figures import HealthFigures, figures_of, open_listed
from delta_ops.maintenance.health.report import DEFAULT_THRESHOLDS, HealthReport, assess_table
from delta_ops.maintenance.optimize.plan import small_file_limit
from delta_ops.orchestration.card.plots import (
    CommitPoint,
    Plot,
    commit_plot,
    file_size_plot,
    log_plot,
)
from delta_ops.orchestration.markdown import code_text, plain_text, run_link, table_text
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.units import count_text, size_text

_PLOTTED_COMMITS = 40
_OPERATION_CHARACTERS = re.compile(r"[^\w ()-]")
_MAX_OPERATION = 40


def table_card(table: TableOrPlace, *, commits: int = 10) -> str:
    """The card of a table's latest version, as some kilobytes of Markdown.

    Args:
        table: The table; only its log is read, not its data.
        commits: The number of newest commits to list.

    Raises:
        TableNotFoundError: There is no table here.
        LogCorruptError: The log is damaged.
        UnsupportedFeatureError: The table uses a feature that we cannot open.

    Examples:
        >>> print(table_card("lake/orders"))
        #...
    """
    validate_arguments(table_card, locals())
    log = log_of(table)
    now_ms = system_clock()
    opened = open_listed(log)
    figures = figures_of(log, opened, now_ms=now_ms)
    report = assess_table(log.uri, figures, DEFAULT_THRESHOLDS)
    recent = list(islice(log.history(), max(commits, _PLOTTED_COMMITS)))
    plots = [plot.markdown() for plot in _plots(opened.snapshot, figures, recent)]
    listed = [_row(entry) for entry in recent[:commits]]
    header = ("version:", "time (UTC)", "operation", "rows:", "files:", "run")
    parts = [
        f"### {code_text(report.table)}",
        _summary(report.figures),
        "\n".join(_finding_lines(report)),
        *plots,
        _index_table(report.figures),
        table_text(header, listed) if listed else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _summary(figures: HealthFigures) -> str:
    """The table in one line."""
    rows = figures.num_rows - figures.deleted_rows
    least = "" if figures.files_with_stats == figures.num_files else "at least "
    parts = [
        f"version **{figures.version}**",
        f"{count_text(figures.num_files, 'file')}, {size_text(figures.size_bytes)}",
        f"{least}{count_text(rows, 'row')}",
        f"log {size_text(figures.log_bytes)} in {count_text(figures.log_files, 'file')}",
    ]
    if figures.num_partitions > 1:
        parts.insert(3, count_text(figures.num_partitions, "partition"))
    cache = figures.scan_cache
    if cache is not None and cache.age is not None:
        parts.append(f"scan cache of version {figures.version - cache.age}")
    if figures.tombstones:
        parts.append(f"{count_text(figures.tombstones, 'removed file')} waiting for vacuum")
    return " · ".join(parts)


def _index_table(figures: HealthFigures) -> str:
    """The inverted indexes, a line each; "" if there are none."""
    listed = [
        (
            code_text(each.name),
            plain_text(each.column or "lost"),
            f"{each.coverage:.0%}",
            "" if each.selectivity is None else f"{each.selectivity:.2%}",
            str(each.num_runs),
            size_text(each.size_bytes),
        )
        for each in figures.indexes
    ]
    header = ("index", "column", "files covered:", "files with a value:", "runs:", "size:")
    return table_text(header, listed) if listed else ""


def _finding_lines(report: HealthReport) -> Iterator[str]:
    """Yield a line for each finding that is not ok, with its advice."""
    for finding in report.findings:
        if finding.verdict != "ok":
            measure = finding.measure.replace("_", " ")
            yield f"- **{finding.verdict}**, {measure}: {plain_text(finding.advice)}"


def _plots(
    snapshot: Snapshot, figures: HealthFigures, recent: Sequence[HistoryEntry]
) -> Iterator[Plot]:
    if figures.num_files:
        # A small file without a partner to merge with is fine.
        is_fine = figures.mergeable_files == 0
        enough_bytes = 0 if is_fine else small_file_limit(figures.target_size_bytes)
        yield file_size_plot(snapshot.sizes().to_pylist(), enough_bytes)
    points = [
        CommitPoint(timestamp_ms=each.timestamp_ms, operation=_operation(each)) for each in recent
    ]
    if points:
        yield commit_plot(points[:_PLOTTED_COMMITS])
    yield log_plot(
        earliest=figures.version if figures.earliest_version is None else figures.earliest_version,
        checkpoint=figures.checkpoint_version,
        latest=figures.version,
        interval=figures.checkpoint_interval,
    )


def _row(entry: HistoryEntry) -> tuple[str, ...]:
    return (
        str(entry.version),
        utc_text(entry.timestamp_ms)[:19].replace("T", " "),
        plain_text(_operation(entry)),
        rows_text(entry.operation, entry.operation_metrics),
        files_text(entry.operation_metrics),
        _run_text(entry),
    )


def _operation(entry: HistoryEntry) -> str:
    """The operation name of a commit, shortened and without special characters."""
    words = _OPERATION_CHARACTERS.sub("?", entry.operation or "")
    return words[:_MAX_OPERATION].strip() or "?"


def _run_text(entry: HistoryEntry) -> str:
    """A link to the Dagster run that committed; "" for any other commit."""
    try:
        texts = json.loads(entry.user_metadata or "")
    except (ValueError, RecursionError):
        return ""
    run_id = texts.get("dagster/run_id") if isinstance(texts, dict) else None
    return run_link(run_id) if isinstance(run_id, str) else ""
