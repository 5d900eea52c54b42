"""Calls of a storage as values: what each touches, and so whether two of them may change places."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that reaches the store."""

    method: str
    reads: frozenset[str] = frozenset()
    """Paths of files."""
    writes: frozenset[str] = frozenset()
    """Paths of files that it may create, replace or delete."""
    lists: frozenset[str] = frozenset()
    """Directories of which it sees what is directly in them."""
    trees: frozenset[str] = frozenset()
    """Directories of which it sees all that is below them; "" is the root."""

    def __str__(self) -> str:
        trees = (f"{directory}/**" for directory in self.trees)
        touched = sorted({*self.reads, *self.writes, *self.lists, *trees})
        return f"{self.method} {', '.join(touched)}"

    def sees(self, path: str) -> bool:
        """Whether its answer may depend on that file."""
        return (
            path in self.reads
            or path in self.writes
            or path.rpartition("/")[0] in self.lists
            or any(map(path.startswith, self.trees))
        )


def may_swap(one: Call, other: Call) -> bool:
    """Whether the two come to the same in either order."""
    return not (any(map(other.sees, one.writes)) or any(map(one.sees, other.writes)))
