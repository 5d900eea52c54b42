"""Findings of a table: its figures compared with thresholds. Pure.

Each operation defines the findings that it cures (see `operations`). This module has the findings
for a person or another engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from delta_ops.arguments import validate_arguments
from delta_ops.clock import HOUR_MS
from delta_ops.maintenance.health.figures import HealthFigures
from delta_ops.maintenance.registry import findings_of_operations
from delta_ops.maintenance.thresholds import Finding, HealthThresholds, Measure, Unit

_MANY_FILES = 100
"""In smaller tables, an index hardly matters."""
_PLACES = {measure: place for place, measure in enumerate(get_args(Measure))}


def assess(figures: HealthFigures, thresholds: HealthThresholds) -> tuple[Finding, ...]:
    """The findings of a table's figures, in the order of `Measure`. Pure.

    Examples:
        >>> figures = health("lake/orders").figures
        >>> [each.measure for each in assess(figures, HealthThresholds(small_files=1))][:2]
        [...]
    """
    validate_arguments(assess, locals())
    findings = (
        *findings_of_operations(figures, thresholds),
        *_assess_files(figures, thresholds),
        _assess_indexes(figures, thresholds),
        *_assess_retention(figures, thresholds),
        _assess_lost_commits(figures),
        _assess_damaged_checkpoints(figures),
        _assess_refs(figures),
        _assess_features(figures),
    )
    return tuple(sorted(findings, key=lambda each: _PLACES.get(each.measure, len(_PLACES))))


def _assess_files(figures: HealthFigures, limits: HealthThresholds) -> Sequence[Finding]:
    """Findings about partition and file sizes."""
    mean_bytes = figures.size_bytes / figures.num_partitions if figures.num_partitions else 0
    skew = figures.largest_partition_bytes / mean_bytes if mean_bytes else 1.0
    # Skew does not matter in a partition that fits into one file.
    is_large = figures.largest_partition_bytes > figures.target_size_bytes
    largest = max(1.0, figures.largest_file_bytes / figures.target_size_bytes)
    return (
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
            "split the largest files, so that the tasks that read them take equally long",
        ),
    )


def _assess_indexes(figures: HealthFigures, limits: HealthThresholds) -> Finding:
    """The finding about indexes that excluded few files."""
    judged = [each for each in figures.indexes if each.num_files >= _MANY_FILES]
    shares = {each.name: each.selectivity or 0.0 for each in judged}
    useless = [name for name, share in shares.items() if share >= limits.index_selectivity]
    return _look_from(
        "index_selectivity",
        max(shares.values(), default=0.0),
        limits.index_selectivity,
        "share",
        f"drop {', '.join(useless)}: most files hold each value, so scans read the index and the "
        "files too",
    )


def _assess_retention(figures: HealthFigures, limits: HealthThresholds) -> Sequence[Finding]:
    """Findings about how far back time travel works."""
    promised, readable = figures.promised_ms, figures.readable_ms
    log_ms, deleted_ms = figures.log_retention_ms, figures.deleted_file_retention_ms
    return (
        _look_below(
            "promised_time_travel",
            promised,
            limits.promised_time_travel_ms,
            "ms",
            "raise delta.logRetentionDuration and delta.deletedFileRetentionDuration: the "
            f"smaller of them, {promised / HOUR_MS:g} hours, limits how old a readable version "
            "may be, and how long readers and writers may run",
        ),
        _look_below(
            "readable_time_travel",
            promised if readable is None else min(readable, promised),
            promised,
            "ms",
            "versions that the retention promises are missing; if you need them, restore the "
            "log's older files from a backup",
        ),
        _look_below(
            "unreachable_files",
            log_ms,
            deleted_ms,
            "ms",
            "raise delta.logRetentionDuration to at least delta.deletedFileRetentionDuration: "
            "removed files are kept longer than the versions that use them",
        ),
    )


def _assess_lost_commits(figures: HealthFigures) -> Finding:
    return Finding(
        measure="lost_commits",
        value=tuple(str(lost.version) for lost in figures.lost_commits),
        threshold=(),
        unit="versions",
        verdict="look" if figures.lost_commits else "ok",
        operation=None,
        advice="; ".join(lost.advice for lost in figures.lost_commits),
    )


def _assess_damaged_checkpoints(figures: HealthFigures) -> Finding:
    return Finding(
        measure="damaged_checkpoints",
        value=tuple(str(damaged.version) for damaged in figures.damaged_checkpoints),
        threshold=(),
        unit="versions",
        verdict="look" if figures.damaged_checkpoints else "ok",
        operation=None,
        advice="; ".join(damaged.advice for damaged in figures.damaged_checkpoints),
    )


def _assess_refs(figures: HealthFigures) -> Finding:
    return Finding(
        measure="refs_at_risk",
        value=tuple(each.ref for each in figures.refs_at_risk),
        threshold=(),
        unit="refs",
        verdict="look" if figures.refs_at_risk else "ok",
        operation=None,
        advice="; ".join(each.advice for each in figures.refs_at_risk),
    )


def _assess_features(figures: HealthFigures) -> Finding:
    operations = ", ".join(figures.refused)
    advice = (
        f"{operations}: run them with an engine or a version of delta_ops that supports them; if a "
        "tag or branch cannot be read, restore the log from a backup, or delete that tag or branch"
    )
    return Finding(
        measure="features",
        value=figures.unsupported,
        threshold=(),
        unit="features",
        verdict="look" if figures.unsupported else "ok",
        operation=None,
        advice=advice if figures.unsupported else "",
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
