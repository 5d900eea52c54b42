"""Option names: names of options that other programs have, in the words of a store's client. Pure.

`storage_options` are the options of the client that fsspec has for a store: s3fs, gcsfs or adlfs.
Most users know the names of the environment and of object_store, which deltalake and polars take,
in capitals or small letters. Each backend has a table of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError

Reader = Callable[[str, Any], Any]
"""Takes the name and the value of an option as given; returns the client's value."""
OptionNames = Mapping[str, tuple[str, Reader]]
"""Option of the client and reader of its value, by another name in small letters.

`client_kwargs.verify` is the option `verify` in the option `client_kwargs`. "" is no option: the
value is only checked.
"""

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def option_names(*rows: tuple[str, str, Reader]) -> OptionNames:
    """The table of these rows: option of the client, its other names in one text, its reader."""
    return {name: (option, read) for option, names, read in rows for name in names.split()}


def keep_value(_name: str, value: Any) -> Any:
    """Reader of a value that the client takes as it is given."""
    return value


def is_true(name: str, value: Any) -> bool:
    """Reader of a truth value.

    Raises:
        InvalidRequestError: It is neither true nor false.
    """
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise InvalidRequestError(f"The option {name} of the store must be true or false")
    return text in _TRUE
