"""S3 sessions: clients that say soon that there is nobody to talk to.

The client tries five times to connect, with longer and longer pauses, for up to half a minute. That
is right for a store that answered a moment ago and wrong for an address with a mistake in it. So
until the store has answered once, two tries are enough; from then on the client's own rules hold,
as they do for whatever a store answers. Settings of the user's own come before either.
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
"""What the file system takes beside what its signature names, and does not give to its session."""


class S3Session(AioSession):  # type: ignore[misc]
    """A session of the client's own, that gives up soon where the store has never answered."""

    def __init__(self, profile: str | None = None, made_for: str = "") -> None:
        super().__init__(profile=profile)
        self._made_of: tuple[Any, ...] = (profile, made_for)
        self._has_answered = False
        self.register("needs-retry.s3", self._judge)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of

    def __repr__(self) -> str:
        # fsspec gives one file system to all options that look the same. Those found in another
        # environment, or in files that were changed since, must not.
        return f"{type(self).__name__}{self._made_of}"

    def _judge(
        self, attempts: int, caught_exception: Exception | None, **_others: Any
    ) -> float | None:
        """The pause before the next try; None leaves that to the client."""
        if caught_exception is None or not isinstance(caught_exception, NoConnectionError):
            self._has_answered = True
            return None
        if self._has_answered or self.get_config_variable("max_attempts") is not None:
            return None
        if attempts >= _TRIES:
            raise caught_exception
        return _PAUSE_S


class BasicAuthSession(S3Session):
    """A session whose requests all carry HTTP's basic authorization, and no signature.

    The header is added to each request that is sent, since the client writes what it is asked for
    to its debug log. Clients of a copy by pickle have it too.
    """

    def __init__(self, authorization: str, profile: str | None = None) -> None:
        super().__init__(profile)
        self._made_of = (authorization, profile)
        self.register("before-send.s3", self._authorize)

    __repr__ = object.__repr__  # the authorization must not be told

    def _authorize(self, request: Any, **_others: Any) -> None:
        request.headers["Authorization"] = self._made_of[0]


def add_session(file_system: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with such a session, unless they say how to try, or cannot be understood.

    Args:
        file_system: A file system of fsspec, which knows what it takes.
    """
    settings = {"connect_timeout": CONNECT_TIMEOUT_S, **(options.get("config_kwargs") or {})}
    options = {**options, "config_kwargs": settings}
    init = file_system.__init__  # type: ignore[misc]
    known = inspect.signature(init).parameters.keys() | _OF_FSSPEC
    if options.get("session") is not None or "retries" in settings or options.keys() - known:
        return options  # a session of ours would take no notice of an option that there is not
    return {**options, "session": _session(options.get("profile"), _session_key(options))}


@lru_cache(maxsize=32)
def _session(profile: str | None, made_for: str) -> S3Session:
    """A session for all tables of the same options: to make one takes some milliseconds."""
    return S3Session(profile, made_for)


def _session_key(options: Mapping[str, Any]) -> str:
    """What a session is made for; one keeps the credentials that it has found in the environment
    and in files, and a child of a fork needs its own."""
    environment = sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))
    found: list[object] = [os.getpid(), environment, sorted(options.items(), key=itemgetter(0))]
    for place in aws_files():
        with suppress(OSError):
            found.append(place.stat().st_mtime_ns)
    text = repr(found)
    # So short that it tells nothing of the options.
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]
