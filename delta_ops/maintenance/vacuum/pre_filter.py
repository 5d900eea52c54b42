"""Pre-filter of a listing: counts and drops files that certainly stay.

This saves memory, and the requests to look up size and time of these files. It decides nothing: the
plan over all files is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from delta_ops.maintenance.vacuum.facts import Reason, VacuumFacts
from delta_ops.maintenance.vacuum.hidden_names import HIDING, is_hidden_directory
from delta_ops.maintenance.vacuum.plan import certain_reasons


class PreFilter:
    """Drops files that certainly stay, and counts what it has seen.

    Args:
        facts: The facts before the listing. Later facts must include all needed and kept files of
            these facts.
    """

    def __init__(self, facts: VacuumFacts) -> None:
        self._facts = facts
        self._reason_of = certain_reasons(facts)
        self._is_hidden: dict[str, bool] = {}  # by directory
        self.left_out: Counter[Reason] = Counter()
        self.num_paths = 0
        """Number of paths seen."""
        self.tables: set[str] = set()
        """Directories that have their own log."""

    @property
    def num_directories(self) -> int:
        """Number of searched directories that are not hidden, with the root."""
        return len({"", *(path for path, hidden in self._is_hidden.items() if not hidden)})

    def may_go(self, path: str) -> bool:
        """Whether the path has no certain reason to stay."""
        return bool(self.select_paths([path]))

    def select_paths(self, paths: Sequence[str]) -> list[str]:
        """Paths without a certain reason to stay, in any order.

        Args:
            paths: Paths in one directory, at least one.
        """
        self.num_paths += len(paths)
        directory, slash, _ = paths[0].rpartition("/")
        if self._is_in_hidden(directory) or self._facts.kept:
            return list(self._one_by_one(paths))
        # Here only names that begin like hidden names need a closer look.
        start = len(directory) + len(slash)
        plain = [path for path in paths if path[start : start + 1] not in HIDING]
        needed = self._facts.needed
        found = [path for path in plain if path not in needed]
        if len(found) < len(plain):
            self.left_out["reachable"] += len(plain) - len(found)
        if len(plain) < len(paths):
            found += self._one_by_one([path for path in paths if path[start : start + 1] in HIDING])
        return found

    def leave_out(self, reason: Reason) -> None:
        """Count a file that the caller keeps for its own reason."""
        self.left_out[reason] += 1

    def _one_by_one(self, paths: Sequence[str]) -> Iterator[str]:
        for path in paths:
            reason = self._reason_of(path)
            if reason is None:
                yield path
            elif path[-1] != "/":
                self.left_out[reason] += 1

    def _is_in_hidden(self, directory: str) -> bool:
        known = self._is_hidden.get(directory)
        if known is not None:
            return known
        above, log, _ = f"{directory}/".partition("/_delta_log/")
        if log:
            self.tables.add(above)
        found = is_hidden_directory(directory, self._facts.hidden_names)
        self._is_hidden[directory] = found
        return found
