"""Work text: the work of a maintenance run as a sentence, from its figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from delta_ops.units import count_text, size_text

_DONE = frozenset(
    {
        *("compacted_files", "files_after_compaction", "compacted_bytes", "bytes_after_compaction"),
        *("purged_files", "files_after_purge", "purged_bytes", "bytes_after_purge"),
        *("described_files", "vacuumed_files", "vacuumed_bytes", "checkpoints_written"),
        *("incomplete_checkpoint_files_deleted", "log_files_deleted", "log_bytes_deleted"),
        *("compaction_files_left_to_others", "purge_files_left_to_others"),
        *("earliest_version_before", "earliest_version", "expired_tombstones_dropped"),
    }
)
"""Figures that have words of their own, or need none."""
_PLANNED = frozenset(
    {
        *("compaction_files_planned", "compaction_bytes_planned", "purge_files_planned"),
        *("purge_bytes_planned", "statistics_planned", "vacuum_files_planned"),
        *("vacuum_bytes_planned", "checkpoints_planned", "incomplete_checkpoint_files_planned"),
        *("log_files_planned", "log_bytes_planned"),
    }
)


def done_text(figures: Mapping[str, int]) -> str:
    """The finished work, such as "Compacted 36 files (53.8 KiB) into 1 (2.2 KiB)."; "" if none.

    Args:
        figures: As of `MaintenanceResult.figures`.
    """
    parts = [
        _rewrite_clause("compacted", "compaction", figures),
        _rewrite_clause("purged", "purge", figures),
        _file_clause("added statistics to", figures.get("described_files", 0)),
        _delete_clause("vacuum deleted", "vacuumed_files", "vacuumed_bytes", figures),
        "wrote a checkpoint" if figures.get("checkpoints_written") else "",
        _file_clause(
            "deleted", figures.get("incomplete_checkpoint_files_deleted", 0), "checkpoint "
        ),
        _delete_clause("deleted", "log_files_deleted", "log_bytes_deleted", figures, "log "),
        *_other_clauses(figures, _DONE),
    ]
    left = sum(figures.get(f"{noun}_files_left_to_others", 0) for noun in ("compaction", "purge"))
    if left:
        parts.append(f"left {count_text(left, 'file')} to other writers")
    failed = sum(count for name, count in figures.items() if name.endswith("_failures"))
    if failed:
        parts.append(f"failed to read or delete {count_text(failed, 'file')}")
    return sentence(parts)


def planned_text(planned: Mapping[str, int]) -> str:
    """The planned work of a dry run, with the words "Dry run: would"; "" if none.

    Args:
        planned: As of `MaintenanceResult.planned`.
    """
    said = planned_work(planned)
    return f"Dry run: would {said[0].lower()}{said[1:]}" if said else ""


def planned_work(planned: Mapping[str, int]) -> str:
    """The planned work, such as "Compact 36 files (53.8 KiB)."; "" if none.

    Args:
        planned: As of `MaintenanceResult.planned`.
    """
    parts = [
        _delete_clause("compact", "compaction_files_planned", "compaction_bytes_planned", planned),
        _delete_clause("purge", "purge_files_planned", "purge_bytes_planned", planned),
        _file_clause("add statistics to", planned.get("statistics_planned", 0)),
        _delete_clause("vacuum", "vacuum_files_planned", "vacuum_bytes_planned", planned),
        "write a checkpoint" if planned.get("checkpoints_planned") else "",
        _file_clause(
            "delete", planned.get("incomplete_checkpoint_files_planned", 0), "checkpoint "
        ),
        _delete_clause("delete", "log_files_planned", "log_bytes_planned", planned, "log "),
        *_other_clauses(planned, _PLANNED),
    ]
    return sentence(parts)


def sentence(parts: Sequence[str]) -> str:
    """Join clauses to a sentence; skips empty clauses."""
    present = [part for part in parts if part]
    if not present:
        return ""
    head = ", ".join(present[:-1])
    text = f"{head} and {present[-1]}" if head else present[-1]
    return f"{text[0].upper()}{text[1:]}."


def _rewrite_clause(verb: str, noun: str, figures: Mapping[str, int]) -> str:
    files = figures.get(f"{verb}_files", 0)
    if not files:
        return ""
    before = size_text(figures.get(f"{verb}_bytes", 0))
    after = size_text(figures.get(f"bytes_after_{noun}", 0))
    left = figures.get(f"files_after_{noun}", 0)
    return f"{verb} {count_text(files, 'file')} ({before}) into {left:,} ({after})"


def _delete_clause(
    verb: str, files: str, size: str, figures: Mapping[str, int], kind: str = ""
) -> str:
    clause = _file_clause(verb, figures.get(files, 0), kind)
    return f"{clause} ({size_text(figures.get(size, 0))})" if clause else ""


def _other_clauses(figures: Mapping[str, int], known: Collection[str]) -> list[str]:
    """Figures without words of their own, such as "log versions compacted: 12"."""
    return [
        f"{name.replace('_', ' ')}: {count:,}"
        for name, count in figures.items()
        if count and name not in known and not name.endswith("_failures")
    ]


def _file_clause(verb: str, count: int, kind: str = "") -> str:
    return f"{verb} {count_text(count, f'{kind}file')}" if count else ""
