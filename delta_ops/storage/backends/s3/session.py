"""S3 sessions: clients that quickly report an unreachable store.

The client tries to connect five times, with longer and longer pauses, for up to half a minute. This
is useful if the store answered a moment ago, but too long if the address is wrong. So a session
makes only two tries until the store has answered once. After that, and for all answers of a store,
the client's own rules apply. The user's own settings override both.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

from aiobotocore.session import AioSession  # type: ignore[import-untyped]
from botocore.exceptions import ConnectionError as NoConnectionError  # type: ignore[import-untyped]

from delta_ops.storage.backends.s3.files import aws_files

CONNECT_TIMEOUT_S = 2
_TRIES = 2
_PAUSE_S = 0.5
_OF_FSSPEC = frozenset({"use_listings_cache", "listings_expiry_time", "max_paths", "profile"})
"""Options that the file system takes beyond its signature and does not pass to its session."""


class S3Session(AioSession):  # type: ignore[misc]
    """A client's session that gives up quickly if the store has never answered."""

    def __init__(self, profile: str | None = None, made_for: str = "") -> None:
        super().__init__(profile=profile)
        self._made_of: tuple[Any, ...] = (profile, made_for)
        self._has_answered = False
        self.register("needs-retry.s3", self._judge)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of

    def __repr__(self) -> str:
        # fsspec shares one file system among options with equal texts. Sessions from a different
        # environment, or from files that have changed, must therefore have different texts.
        return f"{type(self).__name__}{self._made_of}"

    def _judge(
        self, attempts: int, caught_exception: Exception | None, **_others: Any
    ) -> float | None:
        """The pause before the next try; None applies the client's own rules."""
        if caught_exception is None or not isinstance(caught_exception, NoConnectionError):
            self._has_answered = True
            return None
        if self._has_answered or self.get_config_variable("max_attempts") is not None:
            return None
        if attempts >= _TRIES:
            raise caught_exception
        return _PAUSE_S


class BasicAuthSession(S3Session):
    """A session that sends HTTP basic authorization instead of a signature.

    The header is added when a request is sent, because the client writes its arguments to its
    debug log. A pickled copy of the session adds it too.
    """

    def __init__(self, authorization: str, profile: str | None = None) -> None:
        super().__init__(profile)
        self._made_of = (authorization, profile)
        self.register("before-send.s3", self._authorize)

    __repr__ = object.__repr__  # must not show the authorization

    def _authorize(self, request: Any, **_others: Any) -> None:
        request.headers["Authorization"] = self._made_of[0]


def add_session(file_system: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Add a short connection timeout and an `S3Session` to the options.

    No session is added if the options have a session or retry rules, or have unknown names.

    Args:
        file_system: The class of the file system; its signature names the known options.
    """
    settings = {"connect_timeout": CONNECT_TIMEOUT_S, **(options.get("config_kwargs") or {})}
    options = {**options, "config_kwargs": settings}
    init = file_system.__init__  # type: ignore[misc]
    known = inspect.signature(init).parameters.keys() | _OF_FSSPEC
    if options.get("session") is not None or "retries" in settings or options.keys() - known:
        return options  # s3fs would not report unknown options if it got a session
    return {**options, "session": _session(options.get("profile"), _session_key(options))}


@lru_cache(maxsize=32)
def _session(profile: str | None, made_for: str) -> S3Session:
    """One session for all tables with the same options: creating it takes some milliseconds."""
    return S3Session(profile, made_for)


def _session_key(options: Mapping[str, Any]) -> str:
    """A hash of everything that a session depends on.

    A session keeps the credentials that it found in the environment and in files. A forked child
    needs its own session.
    """
    environment = sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))
    found: list[object] = [os.getpid(), environment, sorted(options.items(), key=itemgetter(0))]
    for place in aws_files():
        with suppress(OSError):
            found.append(place.stat().st_mtime_ns)
    text = repr(found)
    # Truncated, so that the hash reveals nothing about the options.
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]
