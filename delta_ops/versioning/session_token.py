"""Session tokens: what another process needs to know about a session, as JSON without secrets."""

from __future__ import annotations

import re
import uuid
from typing import Annotated

import msgspec

from delta_ops.errors import SessionTokenError
from delta_ops.log.refs.refs import Session, Time, Version
from delta_ops.option_words import option

_FORMAT = 1
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SessionToken(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a token."""

    format: Annotated[int, msgspec.Meta(ge=1)]
    session: Annotated[str, msgspec.Meta(pattern=f"^{_ID.pattern}$")]
    table_id: str
    """`metaData.id` of the table."""
    base_version: Version
    """The version of main that the session began with."""
    expires_ms: Time

    @property
    def text(self) -> str:
        """The token."""
        return msgspec.json.encode(self).decode()


# Made at import: two threads that decode a type for the first time crash the process.
_DECODER = msgspec.json.Decoder(SessionToken)


def token_of(session: Session) -> SessionToken:
    """The token of a session."""
    return SessionToken(
        format=_FORMAT,
        session=session.id,
        table_id=session.table_id,
        base_version=session.base_version,
        expires_ms=session.expires_ms,
    )


def parse_token(text: str) -> SessionToken:
    """Parse a token.

    Raises:
        SessionTokenError: The text is not a token, or a later version of delta_ops wrote it.
    """
    if not text.startswith("{"):
        raise SessionTokenError(
            f"{text[:50]!r} is neither the token of a session nor its id; give session.token, or "
            f"an id from {option('list_sessions')}"
        )
    try:
        token = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise SessionTokenError(
            f"the token of a session was damaged ({error}); pass session.token on as it is"
        ) from error
    if token.format != _FORMAT:
        raise SessionTokenError(
            f"the token of session {token.session} has the format {token.format}, which this "
            "version of delta_ops does not know; use the version that began the session"
        )
    return token


def is_id(text: str) -> bool:
    """Whether a text is the id of a session."""
    return _ID.fullmatch(text) is not None


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())
