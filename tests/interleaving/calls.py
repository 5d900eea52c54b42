"""Storage calls as values: the paths they touch, and whether two calls can be swapped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that reaches the store."""

    method: str
    reads: frozenset[str] = frozenset()
    """Paths of files."""
    writes: frozenset[str] = frozenset()
    """Paths of files that the call may create, replace or delete."""
    lists: frozenset[str] = frozenset()
    """Directories whose direct entries the call lists."""
    trees: frozenset[str] = frozenset()
    """Directories whose whole trees the call lists; "" is the root."""

    def __str__(self) -> str:
        trees = (f"{directory}/**" for directory in self.trees)
        touched = sorted({*self.reads, *self.writes, *self.lists, *trees})
        return f"{self.method} {', '.join(touched)}"

    def sees(self, path: str) -> bool:
        """Whether the call's answer may depend on that file."""
        return (
            path in self.reads
            or path in self.writes
            or path.rpartition("/")[0] in self.lists
            or any(map(path.startswith, self.trees))
        )


def may_swap(one: Call, other: Call) -> bool:
    """Whether both orders of the two calls have the same effect."""
    return not (any(map(other.sees, one.writes)) or any(map(one.sees, other.writes)))
