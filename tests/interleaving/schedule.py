"""Orders: the sequence of storage calls of operations, and their failures.

An order has a text form that can be run again: `restore[0:7] vacuum[0:12] restore[7:] vacuum[12:]`.
`append[0:5!]` is killed before its call 5; `lost append:5` loses the answer to its call 5, although
the store carried it out; with `late 8`, listings show another operation's changes after 8 calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

_TURN = re.compile(r"(?P<who>[^\[\]]+)\[(?P<start>\d+):(?P<end>\d*)(?P<dies>!?)\]\s*")
_LOST = re.compile(r"lost (?P<who>.+):(?P<number>\d+)")
_LATE = re.compile(r"late (?P<lag>\d+)")


class Turn(NamedTuple):
    """Consecutive calls of an operation."""

    who: str
    start: int
    """Its calls before this turn."""
    end: int | None = None
    """Number of its calls before it stops; None: it runs to its end."""
    dies: bool = False

    def __str__(self) -> str:
        end = "" if self.end is None else self.end
        return f"{self.who}[{self.start}:{end}{'!' if self.dies else ''}]"


@dataclass(frozen=True, slots=True)
class Order:
    """For the text form see the module's docstring."""

    turns: tuple[Turn, ...]
    lost: tuple[str, int] | None = None
    lag: int = 0

    def __str__(self) -> str:
        parts = [" ".join(map(str, self.turns))]
        parts += [f"lost {self.lost[0]}:{self.lost[1]}"] if self.lost else []
        parts += [f"late {self.lag}"] if self.lag else []
        return "; ".join(parts)

    @classmethod
    def from_text(cls, text: str) -> Self:
        turns, *faults = text.split("; ")
        assert re.sub(_TURN, "", turns) == "", f"{text!r} is no order"
        found = [match.groupdict() for match in _TURN.finditer(turns)]
        lost = next(filter(None, map(_LOST.fullmatch, faults)), None)
        late = next(filter(None, map(_LATE.fullmatch, faults)), None)
        return cls(
            tuple(
                Turn(
                    each["who"].strip(),
                    int(each["start"]),
                    int(each["end"]) if each["end"] else None,
                    bool(each["dies"]),
                )
                for each in found
            ),
            lost=(lost["who"], int(lost["number"])) if lost else None,
            lag=int(late["lag"]) if late else 0,
        )

    def loses(self, who: str, number: int) -> bool:
        return self.lost == (who, number)


def alternating(first: str, second: str, stops: Sequence[int]) -> tuple[Turn, ...]:
    """Two operations in turns: the first until it has made `stops[0]` calls, and so on.

    The second runs until it has made `stops[1]` calls, and at last both run to their ends.
    """
    turns: list[Turn] = []
    made = {first: 0, second: 0}
    for number, end in enumerate(stops):
        who = (first, second)[number % 2]
        if end > made[who]:
            turns.append(Turn(who, made[who], end))
            made[who] = end
    rest = (first, second) if len(stops) % 2 == 0 else (second, first)
    return (*turns, *(Turn(who, made[who]) for who in rest))
