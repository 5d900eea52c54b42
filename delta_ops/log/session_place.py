"""Session place: where the files of a write session are.

    _delta_ops/sessions/<id>/<generation>/<step>.<attempt>.fork.json
    _delta_ops/sessions/<id>/<generation>/logs/<step>.<attempt>/<version>.json

`refs.session_files` says what these files are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from delta_ops.storage.paths import OWN_DIRECTORY

SESSIONS_DIRECTORY = f"{OWN_DIRECTORY}/sessions"
_GENERATION, _ATTEMPT = rf"{SESSIONS_DIRECTORY}/([^/]+)/([0-9]{{6}})", r"([^/]+)\.([0-9]{10})"
_FORK_FILE = re.compile(rf"{_GENERATION}/{_ATTEMPT}\.fork\.json")
_LOG = re.compile(rf"{_GENERATION}/logs/{_ATTEMPT}")
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")
_SHOWN_OF_STEP = 40
_MOST_PLACES = 10_000
"""A session of this many steps does not take its paths apart again for each step."""


class ForkPlace(NamedTuple):
    """Where the log of a fork is."""

    session_id: str
    generation: int
    step: str
    """As in names of files; see `step_name`."""
    attempt: int

    @property
    def key(self) -> str:
        """The key of the fork within its session."""
        return f"{self.generation:06}/{self.step}.{self.attempt:010}"

    @property
    def generation_directory(self) -> str:
        """The directory of the generation, relative to the table's root."""
        return generation_directory(self.session_id, self.generation)

    @property
    def log_directory(self) -> str:
        """The log of the fork, relative to the table's root."""
        return f"{self.generation_directory}/logs/{self.step}.{self.attempt:010}"

    @property
    def fork_file(self) -> str:
        """The file that reserves the attempt, relative to the table's root."""
        return f"{self.generation_directory}/{self.step}.{self.attempt:010}.fork.json"


def step_name(step: str) -> str:
    """The name of a step in names of files: readable, and different for different steps."""
    shown = _UNUSUAL.sub("-", step)[:_SHOWN_OF_STEP].strip("-")
    return f"{shown}-{sha256(step.encode()).hexdigest()[:16]}"


def session_directory(session_id: str) -> str:
    """The directory of a session, relative to the table's root."""
    return f"{SESSIONS_DIRECTORY}/{session_id}"


def generation_directory(session_id: str, generation: int) -> str:
    """The directory of a generation, relative to the table's root."""
    return f"{session_directory(session_id)}/{generation:06}"


@lru_cache(maxsize=_MOST_PLACES)
def fork_place_of(log_directory: str) -> ForkPlace | None:
    """The fork whose log is in a directory; None if the log is not a fork's."""
    return _place_of(_LOG.fullmatch(log_directory))


@lru_cache(maxsize=_MOST_PLACES)
def place_of_fork_file(path: str) -> ForkPlace | None:
    """The fork that a file reserves; None if the file is not a fork file."""
    return _place_of(_FORK_FILE.fullmatch(path))


def _place_of(found: re.Match[str] | None) -> ForkPlace | None:
    return ForkPlace(found[1], int(found[2]), found[3], int(found[4])) if found else None


def is_of_session(log_directory: str) -> bool:
    """Whether a log directory belongs to a session."""
    return log_directory.startswith(f"{SESSIONS_DIRECTORY}/")
