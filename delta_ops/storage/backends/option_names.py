"""Option names: translates other programs' option names to the names of a store's client. Pure.

`storage_options` are the options of fsspec's client for a store: s3fs, gcsfs or adlfs. Most users
know the names of environment variables and of object_store, which deltalake and polars accept, in
upper or lower case. Each backend has a table of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError

Reader = Callable[[str, Any], Any]
"""Takes the name and the user's value of an option; returns the client's value."""
OptionNames = Mapping[str, tuple[str, Reader]]
"""Maps other names, in lower case, to the client's option and the reader of its value.

`client_kwargs.verify` means the option `verify` inside the option `client_kwargs`. "" means no
option: the value is only checked.
"""

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def option_names(*rows: tuple[str, str, Reader]) -> OptionNames:
    """Build the table from rows of client option, its other names in one text, and its reader."""
    return {name: (option, read) for option, names, read in rows for name in names.split()}


def keep_value(_name: str, value: Any) -> Any:
    """Read a value that the client takes unchanged."""
    return value


def is_true(name: str, value: Any) -> bool:
    """Parse a boolean.

    Raises:
        InvalidRequestError: The value is neither true nor false.
    """
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise InvalidRequestError(f"The option {name} of the store must be true or false")
    return text in _TRUE
