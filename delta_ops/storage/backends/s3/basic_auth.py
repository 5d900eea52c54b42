"""Basic authorization for S3: requests without a signature, to a server that asks for a password.

The header is added to what is sent and not to what is asked for, which the client writes to its
debug log. The session adds it to every client that is made of it, also of a copy by pickle.
"""

from __future__ import annotations

from typing import Any

from delta_ops.storage.backends.s3.session import S3Session


class BasicAuthSession(S3Session):
    """A session of the client's own, all of whose requests carry this authorization."""

    def __init__(self, authorization: str, profile: str | None = None) -> None:
        super().__init__(profile)
        self._made_of = (authorization, profile)
        self.register("before-send.s3", self._authorize)

    __repr__ = object.__repr__  # the authorization must not be told

    def _authorize(self, request: Any, **_others: Any) -> None:
        request.headers["Authorization"] = self._made_of[0]
