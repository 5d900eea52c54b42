"""Partition labels: which labels of a dimension belong to a partition. No I/O.

1. The labels of a time window are times within it. They are evenly spaced, or the window has a
   single label. All windows have the same spacing and the same distance of the first label from the
   start of the window. So the labels of windows that nobody has written are known.
2. The label of any other partition is its key, as a string or a whole number.
3. A new label follows all labels that the dimension has. So no label ever moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

import dagster as dg
import numpy as np
import numpy.typing as npt

from delta_ops.errors import InvalidRequestError

Labels = npt.NDArray[Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Window(NamedTuple):
    """A time window, half open; microseconds since the Unix epoch."""

    key: str
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedLabels:
    """The labels of a dataset that a run writes, and the labels of all partitions.

    Args:
        asset: The asset key as text, for messages.
        dimension: The name of the dimension.
        partitions: The partitions of the asset.
        keys: The partitions of the run.
        all_keys: All partitions that exist.
    """

    asset: str
    dimension: str
    partitions: dg.PartitionsDefinition[Any]
    keys: Sequence[str]
    all_keys: Sequence[str]

    def new_labels(self, labels: Labels, stored: Labels) -> Labels:
        """The labels that the dimension needs in addition.

        Args:
            labels: The labels of the dataset.
            stored: The labels that the dimension has.

        Raises:
            InvalidRequestError: The labels are not those of the run's partitions, or do not fit the
                stored labels.
        """
        if len(set(labels.tolist())) < len(labels):
            raise self._rejection("occur twice", "Remove the repetitions")
        if isinstance(self.partitions, dg.TimeWindowPartitionsDefinition):
            new = self._new_times(labels, stored)
        else:
            new = self._new_keys(labels, stored)
        missing = set(labels.tolist()) - set(stored.tolist()) - set(new.tolist())
        if missing:
            first, last = _text(stored[0]), _text(stored[-1])
            raise self._rejection(
                f"include {_first_text(labels, missing)}, and the dimension of the table, which "
                f"has {first} to {last}, has no place for it",
                "If the partitions or the spacing of labels have changed, let the asset write a "
                "new table",
            )
        return new

    def edges(self, labels: Labels, all_labels: Labels) -> list[int]:
        """Positions at which a partition begins or ends.

        Args:
            labels: The labels of the dataset.
            all_labels: All labels of the dimension, in order.
        """
        if not isinstance(self.partitions, dg.TimeWindowPartitionsDefinition):
            return list(range(len(all_labels) + 1))
        positions = {label: number for number, label in enumerate(_microseconds(all_labels))}
        spacing = self._spacing(labels, self._windows(self.keys))
        found = set()
        for window in self._windows(self.all_keys):
            places = [positions[each] for each in spacing.labels(window) if each in positions]
            found |= {places[0], places[-1] + 1} if places else set()
        return sorted(found)

    def _new_times(self, labels: Labels, stored: Labels) -> Labels:
        if labels.dtype.kind != "M":
            raise self._rejection(
                f"are of type {labels.dtype}, and the partitions are time windows",
                "Give times (datetime64), in UTC",
            )
        windows = self._windows(self.keys)
        spacing = self._spacing(labels, windows)
        self._validate_fills(labels, stored, spacing, windows)
        last = max(_microseconds(stored), default=None)
        windows = self._windows({*self.all_keys, *self.keys})
        new = [
            each
            for window in windows
            if last is None or window.end_us > last
            for each in spacing.labels(window)
            if last is None or each > last
        ]
        return np.array(new, "M8[us]").astype(labels.dtype)

    def _windows(self, keys: Iterable[str]) -> list[Window]:
        """The windows of partitions, in order of time."""
        assert isinstance(self.partitions, dg.TimeWindowPartitionsDefinition)
        found = ((key, self.partitions.time_window_for_partition_key(key)) for key in keys)
        windows = (Window(key, _us(each.start), _us(each.end)) for key, each in found)
        return sorted(windows, key=lambda each: each.start_us)

    def _spacing(self, labels: Labels, windows: Sequence[Window]) -> _Spacing:
        found = sorted(_microseconds(labels))
        for window in windows:
            within = [each for each in found if window.start_us <= each < window.end_us]
            if within:
                steps = [second - first for first, second in pairwise(within)]
                return _Spacing(within[0] - window.start_us, steps[0] if steps else None)
        raise self._rejection(
            f"have no time in partition {self.keys[0]}",
            "Select the times of the partition; a time without a zone is in UTC",
        )

    def _validate_fills(
        self, labels: Labels, stored: Labels, spacing: _Spacing, windows: Sequence[Window]
    ) -> None:
        wanted = {each: window.key for window in windows for each in spacing.labels(window)}
        times = np.array(_microseconds(stored), "i8")
        for window in windows:
            held = times[(times >= window.start_us) & (times < window.end_us)].tolist()
            wanted |= dict.fromkeys(held, window.key)
        found = set(_microseconds(labels))
        rule = "The labels of each partition must be evenly spaced, and fill the partition"
        if missing := wanted.keys() - found:
            first = min(missing)
            raise self._rejection(
                f"lack {_text(np.datetime64(first, 'us'))} of partition {wanted[first]}",
                f"{rule}; add missing times, for example with Dataset.reindex",
            )
        if surplus := found - wanted.keys():
            raise self._rejection(
                f"include {_text(np.datetime64(min(surplus), 'us'))}, which does not belong to "
                f"partition {', '.join(self.keys[:5])}",
                rule,
            )
        exact = np.array(_microseconds(labels), "M8[us]").astype(labels.dtype)
        if not bool(np.all(exact == labels)):
            raise self._rejection("have fractions of microseconds", "Round them")

    def _new_keys(self, labels: Labels, stored: Labels) -> Labels:
        if isinstance(self.partitions, dg.MultiPartitionsDefinition):
            raise self._rejection(
                "have one dimension, and the partitions have several",
                "A partition is a region along one dimension; give the asset such partitions",
            )
        if labels.dtype.kind not in "OUTiu":
            raise self._rejection(
                f"are of type {labels.dtype}, and labels are partition keys",
                "Give strings or whole numbers that are the keys of the partitions",
            )
        texts = [str(each) for each in labels.tolist()]
        if set(texts) != set(self.keys):
            raise self._rejection(
                f"are {', '.join(texts[:5])}, and the partitions of the run are "
                f"{', '.join(self.keys[:5])}",
                "Give each partition one label, its key",
            )
        known = {str(each) for each in stored.tolist()}
        new = [key for key in dict.fromkeys([*self.all_keys, *self.keys]) if key not in known]
        if labels.dtype.kind not in "iu":
            return np.array(new, object)
        if odd := [key for key in new if not key.removeprefix("-").isdecimal()]:
            raise self._rejection(
                f"are whole numbers, and partition {odd[0]} is not", "Give strings as labels"
            )
        return np.array([int(key) for key in new], labels.dtype)

    def _rejection(self, problem: str, cure: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"asset {self.asset}: the labels of dimension {self.dimension} {problem}. {cure}. "
            "Nothing was written"
        )


class _Spacing(NamedTuple):
    """The labels of a window, in microseconds."""

    offset: int
    """Distance of the first label from the start of the window."""
    step: int | None
    """Distance of two labels; None if each window has one label."""

    def labels(self, window: Window) -> range:
        first = window.start_us + self.offset
        step = self.step or max(window.end_us - first, 1)
        return range(first, max(window.end_us, first + 1), step)


def positions_of(
    labels: Labels, partitions: dg.PartitionsDefinition[Any], keys: Sequence[str]
) -> list[int]:
    """The positions of the labels that belong to partitions, in order.

    Args:
        labels: All labels of the dimension.
        partitions: The partitions of the asset.
        keys: The partitions.
    """
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        wanted = set(keys)
        return [number for number, each in enumerate(labels.tolist()) if str(each) in wanted]
    windows = [partitions.time_window_for_partition_key(key) for key in keys]
    times = np.array(_microseconds(labels), "i8")
    found = np.zeros(len(times), bool)
    for window in windows:
        found |= (times >= _us(window.start)) & (times < _us(window.end))
    positions: list[int] = np.flatnonzero(found).tolist()
    return positions


def regions(positions: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Join neighbouring positions: the slice of the dataset, and of the arrays, of each region.

    Examples:
        >>> list(regions([4, 5, 9]))
        [(slice(0, 2, None), slice(4, 6, None)), (slice(2, 3, None), slice(9, 10, None))]
    """
    first = 0
    for number in range(1, len(positions) + 1):
        if number == len(positions) or positions[number] != positions[number - 1] + 1:
            yield slice(first, number), slice(positions[first], positions[number - 1] + 1)
            first = number


def position_by_label(labels: Labels) -> Mapping[Any, int]:
    """The position of each label."""
    return {label: number for number, label in enumerate(labels.tolist())}


def _microseconds(labels: Labels) -> list[int]:
    found: list[int] = labels.astype("M8[us]").astype("i8").tolist()
    return found


def _us(moment: datetime) -> int:
    since = moment.astimezone(UTC) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _first_text(labels: Labels, values: set[Any]) -> str:
    pairs = zip(labels, labels.tolist(), strict=True)
    return next(_text(label) for label, value in pairs if value in values)


def _text(label: Any) -> str:
    text = str(label)
    return text.removesuffix(".000000000").removesuffix(".000000")
