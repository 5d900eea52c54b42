"""Hadoop: options of a store for Spark, and settings of Hadoop for the store's client. Pure.

Each backend has its own part, see `backends.hadoop`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends import backend_of
from delta_ops.storage.backends.hadoop import Hadoop, HadoopStore, Options
from delta_ops.storage.paths import redact, split_uri

_PREFIXES = ("fs.", "dfs.")
"""Names of Hadoop's settings start with one of these."""


def hadoop_of(uri: str) -> Hadoop | None:
    """Hadoop's connector for a URI, which may be `hadoop_root`; None if Hadoop has none."""
    load = backend_of(split_uri(uri)[0]).hadoop
    return None if load is None else load()


def hadoop_root(uri: str, options: Options, environment: Mapping[str, str]) -> str | None:
    """The URI by which Hadoop knows the bucket or container of `uri`; None if it knows none.

    Args:
        uri: As the user wrote it; what follows the bucket is left out.
        options: Options by the names of the client.
        environment: Variables of this process.

    Raises:
        InvalidRequestError: Hadoop cannot name it.
    """
    hadoop = hadoop_of(uri)
    return None if hadoop is None else hadoop.root(uri, options, environment)


def hadoop_store(
    uri: str, options: Options, environment: Mapping[str, str], address: str | None = None
) -> HadoopStore | None:
    """The store of `uri` with its settings; None if Hadoop has no file system for it.

    Args:
        uri: As the user wrote it.
        options: Options by the names of the client.
        environment: Variables of this process.
        address: The endpoint that the client goes to, if it is known.

    Raises:
        InvalidRequestError: An option has no counterpart; no value is repeated.
    """
    hadoop = hadoop_of(uri)
    if hadoop is None:
        return None
    root = hadoop.root(uri, options, environment)
    return hadoop.store(redact(uri), root, options, environment, address)


def translate_hadoop_names(uri: str, options: Options) -> dict[str, Any]:
    """The options, with settings of Hadoop as options of the store's client.

    Args:
        uri: As the user wrote it.

    Raises:
        InvalidRequestError: A setting has no counterpart, or an option says something else. No
            value is repeated.
    """
    plain = {name: value for name, value in options.items() if not _is_hadoops(name)}
    settings = {name.lower(): value for name, value in options.items() if _is_hadoops(name)}
    hadoop = hadoop_of(uri) if settings else None
    if hadoop is None:
        return dict(options)
    for name, value in hadoop.client_options(uri, settings).items():
        if plain.setdefault(name, value) != value:
            raise InvalidRequestError(
                f"The option {name} of the store says one thing and a setting of Hadoop's another; "
                "leave one of them out"
            )
    return plain


def _is_hadoops(name: object) -> bool:
    return isinstance(name, str) and name.lower().startswith(_PREFIXES)
