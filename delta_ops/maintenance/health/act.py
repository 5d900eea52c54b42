"""Health: what the log says of a table, measured against thresholds, and what cures it.

One pass over the log, no listing of data; see `figures`. Each measure has a verdict:

- "ok";
- "due": an operation of ours cures it, and `maintain` runs it;
- "look": a person has to decide, or another engine has to act.

An operation that ran leaves its measure "ok", so that whoever does what the verdicts ask comes to
an end. A measure that cannot be taken is no figure but an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from delta_ops.arguments import validate_arguments
from delta_ops.clock import DAY_MS, HOUR_MS, Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace, log_of
from delta_ops.maintenance.health.figures import HealthFigures, load_figures
from delta_ops.maintenance.plan import Operation

Verdict = Literal["ok", "due", "look"]
Unit = Literal["files", "commits", "bytes", "ratio", "share", "ms", "versions", "features"]
"""Unit of a value and its threshold; a share is from 0 to 1, a ratio from 1 on."""
Measure = Literal[
    "small_files",
    "commits_since_checkpoint",
    "commit_bytes_since_checkpoint",
    "incomplete_checkpoints",
    "expired_tombstones",
    "expired_log_files",
    "deleted_rows",
    "partition_skew",
    "file_size_skew",
    "stats_coverage",
    "promised_time_travel",
    "readable_time_travel",
    "unreachable_files",
    "lost_commits",
    "features",
]
VERDICTS: tuple[Verdict, ...] = ("ok", "look", "due")
"""From the best to the one that wants something done."""
_ORDER: tuple[Operation, ...] = ("vacuum", "optimize", "repair", "checkpoint", "clean_up_log")
_SHARES = ("deleted_rows", "stats_coverage")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthThresholds:
    """From where on a measure is not "ok".

    Raises:
        InvalidRequestError: One is negative, or of a kind that it cannot be.
    """

    small_files: int = 10
    """Due from this many files on that optimize would put together."""
    commits_since_checkpoint: int | None = None
    """Due from this many on; None: the table's `delta.checkpointInterval`."""
    commit_bytes_since_checkpoint: int = 64 << 20
    """Due from this many on, however few the commits."""
    expired_tombstones: int = 1
    """Due from this many on, if their files are still there."""
    expired_log_files: int = 1
    """Due from this many on."""
    deleted_rows: float = 0.1
    """This share of all rows is marked by deletion vectors."""
    partition_skew: float = 10.0
    """The largest partition has so many times the bytes of the mean, and those of a whole file."""
    file_size_skew: float = 10.0
    """The largest file has so many times the bytes that a file should have."""
    stats_coverage: float = 0.95
    """A smaller share of the files has statistics."""
    promised_time_travel_ms: int = 7 * DAY_MS
    """Versions are promised for less."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            is_whole = "int" in str(each.type)
            if value is None and "None" in str(each.type):
                continue
            fits = isinstance(value, int if is_whole else int | float)
            if not fits or isinstance(value, bool) or not 0 <= value < math.inf:
                kind = "a whole number" if is_whole else "a number"
                raise InvalidRequestError(
                    f"the threshold {each.name} must be {kind} from 0 on, not {value!r}"
                )
            if each.name in _SHARES and value > 1:
                raise InvalidRequestError(
                    f"the threshold {each.name} is a share and 1 at most, not {value!r}"
                )


DEFAULT_THRESHOLDS = HealthThresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One measure of a table."""

    measure: Measure
    value: int | float | tuple[str, ...]
    threshold: int | float | tuple[str, ...]
    unit: Unit
    verdict: Verdict
    operation: Operation | None
    """What cures it when it is due."""
    advice: str
    """What to do, in one sentence; "" where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """A table's figures and what they come to."""

    table: str
    figures: HealthFigures
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst one; "due" before "look"."""
        return max((each.verdict for each in self.findings), key=VERDICTS.index)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is due and can be run, in the order in which it should run."""
        asked = {each.operation for each in self.findings if each.verdict == "due"}
        return tuple(each for each in _ORDER if each in asked - self.figures.refused.keys())


def health(
    log: TableOrPlace,
    *,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    clock: Clock = system_clock,
) -> HealthReport:
    """How the latest version of a table is.

    Raises:
        TableNotFoundError: There is no table here.
        LogCorruptError: The log is damaged.
        UnsupportedFeatureError: The table uses what we cannot open.
        InvalidRequestError: A property of the table cannot be understood.
        StorageError: The store failed.
    """
    validate_arguments(health, locals())
    log = log_of(log)
    figures = load_figures(log, clock=clock)
    return HealthReport(table=log.uri, figures=figures, findings=assess(figures, thresholds))


def assess(figures: HealthFigures, thresholds: HealthThresholds) -> tuple[Finding, ...]:
    """The findings of a table's figures. Pure."""
    validate_arguments(assess, locals())
    return (
        *_of_operations(figures, thresholds),
        _of_incomplete_checkpoints(figures),
        *_of_files(figures, thresholds),
        *_of_retention(figures, thresholds),
        _of_lost_commits(figures),
        _of_features(figures),
    )


def health_json(report: HealthReport) -> dict[str, Any]:
    """The report as JSON has it: names in snake_case, units as in the report."""
    validate_arguments(health_json, locals())
    figures = asdict(report.figures)
    protocol = figures.pop("protocol")
    return {
        "table": report.table,
        "version": report.figures.version,
        "verdict": report.verdict,
        "operations": list(report.operations),
        "findings": [_plain(asdict(finding)) for finding in report.findings],
        "figures": _plain({**figures, "protocol": _plain(protocol)}),
    }


def _of_operations(figures: HealthFigures, limits: HealthThresholds) -> Sequence[Finding]:
    """What operations of ours cure."""
    interval = limits.commits_since_checkpoint
    if interval is None:
        interval = figures.checkpoint_interval
    is_waiting = figures.expired_file_is_there
    return (
        _due_from("small_files", figures.mergeable_files, limits.small_files, "files", "optimize"),
        _due_from(
            "commits_since_checkpoint",
            figures.commits_since_checkpoint,
            interval,
            "commits",
            "checkpoint",
        ),
        _due_from(
            "commit_bytes_since_checkpoint",
            figures.commit_bytes_since_checkpoint,
            limits.commit_bytes_since_checkpoint,
            "bytes",
            "checkpoint",
        ),
        _due_from(
            "expired_tombstones",
            figures.expired_tombstones if is_waiting else 0,
            limits.expired_tombstones,
            "files",
            "vacuum",
        ),
        _due_from(
            "expired_log_files",
            figures.deletable_log_files if figures.cleanup_is_enabled else 0,
            limits.expired_log_files,
            "files",
            "clean_up_log",
        ),
    )


def _of_incomplete_checkpoints(figures: HealthFigures) -> Finding:
    verdict: Verdict = "ok"
    advice = ""
    if figures.stale_checkpoint_files:
        verdict = "due"
        advice = f"checkpoint, which deletes them: {_DANGER}"
    elif figures.incomplete_checkpoint_files:
        verdict = "look"
        advice = (
            "let deltalake not clean up the log until they are gone or whole: checkpoint deletes "
            f"them once they are a day old, if nobody finishes them; {_DANGER}"
        )
    return Finding(
        measure="incomplete_checkpoints",
        value=figures.incomplete_checkpoint_files,
        threshold=1,
        unit="files",
        verdict=verdict,
        operation="checkpoint",
        advice=advice,
    )


def _of_files(figures: HealthFigures, limits: HealthThresholds) -> Sequence[Finding]:
    """What the files are like."""
    rows, files = figures.num_rows, figures.num_files
    mean_bytes = figures.size_bytes / figures.num_partitions if figures.num_partitions else 0
    skew = figures.largest_partition_bytes / mean_bytes if mean_bytes else 1.0
    # What fits into one file is not skewed in any way that matters.
    is_large = figures.largest_partition_bytes > figures.target_size_bytes
    largest = max(1.0, figures.largest_file_bytes / figures.target_size_bytes)
    return (
        _look_from(
            "deleted_rows",
            _share(figures.deleted_rows, max(rows, figures.deleted_rows)),
            limits.deleted_rows,
            "share",
            "rewrite the files that have deletion vectors, with REORG TABLE ... APPLY (PURGE)",
        ),
        _look_from(
            "partition_skew",
            skew if is_large else 1.0,
            limits.partition_skew,
            "ratio",
            "partition by a column whose values are more even, or cluster the table",
        ),
        _look_from(
            "file_size_skew",
            largest,
            limits.file_size_skew,
            "ratio",
            "rewrite the largest files in several, so that tasks that read them take as long",
        ),
        _stats_coverage(_share(files - figures.files_to_describe, files) if files else 1.0, limits),
    )


def _stats_coverage(share: float, limits: HealthThresholds) -> Finding:
    is_due = share < limits.stats_coverage
    return Finding(
        measure="stats_coverage",
        value=share,
        threshold=limits.stats_coverage,
        unit="share",
        verdict="due" if is_due else "ok",
        operation="repair",
        advice=_CURES["repair"] if is_due else "",
    )


def _of_retention(figures: HealthFigures, limits: HealthThresholds) -> Sequence[Finding]:
    """What time travel promises, and whether it can be kept."""
    promised, readable = figures.promised_ms, figures.readable_ms
    log_ms, deleted_ms = figures.log_retention_ms, figures.deleted_file_retention_ms
    return (
        _look_below(
            "promised_time_travel",
            promised,
            limits.promised_time_travel_ms,
            "ms",
            f"raise delta.logRetentionDuration and delta.deletedFileRetentionDuration: the lesser "
            f"of them, {promised / HOUR_MS:g} hours, is how far back versions can be read, and how "
            "long readers and writers may take",
        ),
        _look_below(
            "readable_time_travel",
            promised if readable is None else min(readable, promised),
            promised,
            "ms",
            "restore the log's older files from a backup if they are needed: versions are gone "
            "that the retention promises",
        ),
        _look_below(
            "unreachable_files",
            log_ms,
            deleted_ms,
            "ms",
            "set delta.logRetentionDuration to delta.deletedFileRetentionDuration at least: "
            "removed files are kept longer than any version that could read them",
        ),
    )


def _of_lost_commits(figures: HealthFigures) -> Finding:
    return Finding(
        measure="lost_commits",
        value=tuple(str(lost.version) for lost in figures.lost_commits),
        threshold=(),
        unit="versions",
        verdict="look" if figures.lost_commits else "ok",
        operation=None,
        advice="; ".join(lost.advice for lost in figures.lost_commits),
    )


def _of_features(figures: HealthFigures) -> Finding:
    operations = ", ".join(figures.refused)
    advice = f"{operations}: run by an engine, or a delta_ops, that supports them"
    return Finding(
        measure="features",
        value=figures.unsupported,
        threshold=(),
        unit="features",
        verdict="look" if figures.unsupported else "ok",
        operation=None,
        advice=advice if figures.unsupported else "",
    )


_DANGER = (
    "checkpoint files of which others are missing are taken for a whole checkpoint by deltalake's "
    "clean-up, which then deletes the commits that the table still needs"
)
_CURES: Mapping[Operation, str] = {
    "vacuum": "vacuum: removed files are past their retention and still there",
    "optimize": "optimize: small files of a partition fit together",
    "repair": "repair, which adds statistics: a file without any is never skipped",
    "checkpoint": "checkpoint: readers replay every commit since the last one",
    "clean_up_log": "clean up the log: its oldest files are past their retention",
}


def _due_from(
    measure: Measure, value: int, threshold: int, unit: Unit, operation: Operation
) -> Finding:
    """Due from the threshold on, if there is anything at all."""
    is_due = value > 0 and value >= threshold
    return Finding(
        measure=measure,
        value=value,
        threshold=threshold,
        unit=unit,
        verdict="due" if is_due else "ok",
        operation=operation,
        advice=_CURES[operation] if is_due else "",
    )


def _look_from(
    measure: Measure, value: float, threshold: float, unit: Unit, advice: str
) -> Finding:
    return _look(measure, value, threshold, unit, advice if value >= threshold > 0 else "")


def _look_below(
    measure: Measure, value: float, threshold: float, unit: Unit, advice: str
) -> Finding:
    return _look(measure, value, threshold, unit, advice if value < threshold else "")


def _look(measure: Measure, value: float, threshold: float, unit: Unit, advice: str) -> Finding:
    return Finding(
        measure=measure,
        value=value,
        threshold=threshold,
        unit=unit,
        verdict="look" if advice else "ok",
        operation=None,
        advice=advice,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
