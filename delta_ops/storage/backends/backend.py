"""Backend: everything that delta_ops knows about one store.

All other code is the same for every store. A store without a backend that fsspec supports is
`UNKNOWN`: delta_ops reads it, and writes to it only with a lock from the user.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from delta_ops.storage.backends.hadoop_connector import Hadoop
from delta_ops.storage.backends.option_names import OptionNames
from delta_ops.storage.exclusive_create import ExclusiveCreate
from delta_ops.store_names import StoreNames

Options = Mapping[str, Any]
"""Options of a store's client, by the client's names."""
Entry = dict[str, Any]
"""A file in an fsspec listing: name, size, type and a time."""
ListFrom = Callable[[Any, str, str], Iterator[Entry]]
"""Takes a file system, the full path of a directory, and the first name; "" lists all names.

Returns the files directly in the directory; earlier names may be included.
Raises `FileNotFoundError` if the directory does not exist.
"""
ListTree = Callable[[Any, str], Iterator[Entry] | None]
"""Takes a file system and the full path of a directory.

Returns the files in the directory and below, in any order; None if the store cannot list them so.
"""
DeleteMany = Callable[[Any, Sequence[str]], Set[str]]
"""Takes a file system and up to `DELETE_BATCH` full paths of one bucket; returns deleted paths."""
DELETE_BATCH = 1000
"""Maximum number of objects that S3 deletes by one request."""


def _keep(options: Options) -> Options:
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One store. Unset fields mean that fsspec's common calls are used."""

    names: StoreNames

    is_local: bool = False
    """Whether the store is this machine's file system, which fsspec does not open."""

    # Addresses
    refuses_user_info: bool = False
    """Whether to reject an address with text before the bucket, as it may be a credential."""
    needs_bucket: bool = True
    """Whether to reject an address without a bucket."""

    # The client
    package: str = ""
    """Package of the client. Options that its signature does not name are rejected."""
    extra: str = ""
    """Extra of delta_ops that installs the package."""
    further_options: frozenset[str] = frozenset()
    """Options that the client accepts but its signature does not name."""
    passes_options_on: bool = False
    """Whether the client passes unknown options on; then only likely misspellings are rejected."""
    option_names: OptionNames = field(default_factory=dict)
    """The client's options by their names in other programs."""
    variable_prefixes: tuple[str, ...] = ()
    """Lower-case prefixes of other programs' option names; no client option begins with them."""
    option_hint: str = ""
    """The client and its main options, for messages."""
    console_address: str = ""
    """Address of the web console before bucket and path; "" if the store has none."""
    drop_credentials: Callable[[Options], Options] = _keep
    """Removes user and password from addresses in the options and the environment."""
    options_to_open: Callable[[Options, type], Options] = lambda options, _: options
    """Takes options and the class of the file system; adds defaults of delta_ops."""
    address_while_opening: Callable[[Options], str | None] = lambda _: None
    """Address that the client connects to when it is created; None if it connects to none."""

    # Requests
    exclusive_create: ExclusiveCreate | None = None
    """How to create a file only if it does not exist; None if the store cannot."""
    is_atomic: bool = False
    """Whether uploads are atomic and durable, and one listing covers a whole tree."""
    address_of: Callable[[Any], object] | None = None
    """Takes a file system; returns the address of its store, which may hold credentials."""
    slow_address_of: Callable[[Any], object] | None = None
    """Address to check before each call, for clients that wait minutes for an unreachable store."""
    list_from: ListFrom | None = None
    list_tree: ListTree | None = None
    has_table_below_no_name: Callable[[Any, Sequence[Entry], str], bool] | None = None
    """Takes a file system, the entries of a directory and its full path.

    Returns whether the directory contains a table in a directory without a name, as in `a//b`.
    """
    delete_many: DeleteMany | None = None
    read_options: Callable[[type], Options] = lambda _: {}
    """Takes the class of the file system.

    Returns arguments that make its `cat_file` read a whole object with one request.
    """
    is_misread: Callable[[str], bool] = lambda _: False
    """Whether the client would cut off a part of this path and so reach another object."""
    lock: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
    """Held during each listing and change, for stores where these must not interleave."""
    shares_open_files: bool = False
    """Whether all readers of a file share one file object, which has one position."""

    # Spark
    hadoop: Callable[[], Hadoop] | None = None
    """Loads the store's Hadoop connector; None if Hadoop has none."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the scheme, because functions cannot be pickled; another process looks it up."""
        from delta_ops.storage.backends import backend_of

        return backend_of, self.schemes[:1]

    @property
    def schemes(self) -> tuple[str, ...]:
        """Schemes that open the store, the canonical scheme first."""
        return self.names.schemes


UNKNOWN = Backend(names=StoreNames(schemes=()))
"""The backend for all stores without a backend."""
