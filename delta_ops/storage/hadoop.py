"""Hadoop: converts client options to Hadoop settings for Spark, and back. Pure.

Each backend has its own part, see `backends.hadoop_connector`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends import backend_of
from delta_ops.storage.backends.hadoop_connector import Hadoop, HadoopStore, Options
from delta_ops.storage.paths import redact, split_uri

_PREFIXES = ("fs.", "dfs.")
"""Prefixes of all Hadoop settings."""


def hadoop_of(uri: str) -> Hadoop | None:
    """Hadoop's connector for a URI, also for a result of `hadoop_root`; None without one."""
    load = backend_of(split_uri(uri)[0]).hadoop
    return None if load is None else load()


def hadoop_root(uri: str, options: Options, environment: Mapping[str, str]) -> str | None:
    """Hadoop's URI for the bucket or container of `uri`; None without a Hadoop connector.

    Args:
        uri: The user's URI; only the part up to the bucket is used.
        options: Options by the client's names.
        environment: Environment variables of this process.

    Raises:
        InvalidRequestError: Hadoop cannot name the bucket.
    """
    hadoop = hadoop_of(uri)
    return None if hadoop is None else hadoop.root(uri, options, environment)


def hadoop_store(
    uri: str, options: Options, environment: Mapping[str, str], address: str | None = None
) -> HadoopStore | None:
    """The store of `uri` with its Hadoop settings; None without a Hadoop connector.

    Args:
        uri: The user's URI.
        options: Options by the client's names.
        environment: Environment variables of this process.
        address: The endpoint that the client connects to, if known.

    Raises:
        InvalidRequestError: An option has no counterpart in Hadoop. The message shows no value.
    """
    hadoop = hadoop_of(uri)
    if hadoop is None:
        return None
    root = hadoop.root(uri, options, environment)
    return hadoop.store(redact(uri), root, options, environment, address)


def translate_hadoop_names(uri: str, options: Options) -> dict[str, Any]:
    """Convert Hadoop settings among the options to options of the store's client.

    Args:
        uri: The user's URI.

    Raises:
        InvalidRequestError: A setting has no counterpart, or contradicts an option. The message
            shows no value.
    """
    plain = {name: value for name, value in options.items() if not is_hadoop_name(name)}
    settings = {name.lower(): value for name, value in options.items() if is_hadoop_name(name)}
    hadoop = hadoop_of(uri) if settings else None
    if hadoop is None:
        return dict(options)
    for name, value in hadoop.client_options(uri, settings).items():
        if plain.setdefault(name, value) != value:
            raise InvalidRequestError(
                f"The option {name} of the store contradicts a Hadoop setting; leave one of them "
                "out"
            )
    return plain


def is_hadoop_name(name: object) -> bool:
    """Whether this is the name of a Hadoop setting."""
    return isinstance(name, str) and name.lower().startswith(_PREFIXES)
