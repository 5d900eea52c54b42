"""Property: the name, meaning, parser and default of a table property."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from delta_ops.errors import InvalidRequestError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Property(Generic[_T]):
    """A table property. Compared by identity."""

    name: str
    meaning: str
    """In a few words."""
    parse: Callable[[str], _T]
    default: str | None
    """Default text, if delta_ops implements the property; None: there is no default."""
    acts_in: str = ""
    """Parts of delta_ops that use the property; empty: only other engines use it."""
    older_name: str | None = None
    """A former name, used if the property itself is not set."""
    is_for_users: bool = True
    """False: only engines may set it; a user could break the table."""

    def text_in(self, configuration: Mapping[str, str]) -> str | None:
        """The effective text in a table: its own value, or the default."""
        found = configuration.get(self.name)
        if found is None and self.older_name is not None:
            found = configuration.get(self.older_name)
        return self.default if found is None else found

    def value_in(self, configuration: Mapping[str, str]) -> _T:
        """The effective value in a table; None if there is none.

        Raises:
            InvalidRequestError: The text is invalid; the message names the property and the allowed
                values.
        """
        text = self.text_in(configuration)
        if text is None:
            return cast("_T", None)
        try:
            return self.parse(text)
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"Table property {self.name} is {text!r}: {error} Set the property to a valid "
                "value."
            ) from error


def is_on(flag: Property[bool], configuration: Mapping[str, str]) -> bool:
    """Whether a flag is on, for read-only callers; an invalid text counts as off."""
    return (flag.text_in(configuration) or "").strip().lower() == "true"
