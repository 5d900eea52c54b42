"""Backend: everything that delta_ops knows about one store.

All other code is the same for every store. A store without a backend, which fsspec reaches all the
same, is `UNKNOWN`: it can be read, and written to within a lock that the user supplies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from delta_ops.storage.backends.hadoop import Hadoop
from delta_ops.storage.backends.option_names import OptionNames
from delta_ops.storage.create_way import Way
from delta_ops.store_names import StoreNames

Options = Mapping[str, Any]
"""Options of a store's client, by the client's names."""
Entry = dict[str, Any]
"""A file as fsspec lists it: name, size, type and a time."""
ListFrom = Callable[[Any, str, str], Iterator[Entry]]
"""Takes a file system, a directory by its full path, and the name to begin at; "" is the first.

Returns the files directly in the directory; some before that name may be among them.
Raises `FileNotFoundError` if the directory does not exist.
"""
ListTree = Callable[[Any, str], Iterator[Entry] | None]
"""Takes a file system and a directory by its full path.

Returns the files in the directory and below, in any order; None where the store cannot do so.
"""
DeleteMany = Callable[[Any, Sequence[str]], Set[str]]
"""Takes a file system and at most `DELETE_BATCH` full paths in one bucket; returns the deleted."""
DELETE_BATCH = 1000
"""Number of objects that S3 deletes by one request."""


def _keep(options: Options) -> Options:
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One store. Fields without a value have the meaning "by fsspec's common calls"."""

    names: StoreNames

    is_local: bool = False
    """Whether it is the file system of this machine, which fsspec does not open."""

    # Addresses
    refuses_user_info: bool = False
    """Whether an address with something before the bucket is refused, as it may be a credential."""
    needs_bucket: bool = True
    """Whether an address without bucket and path is refused."""

    # The client
    package: str = ""
    """Package of the client. Options that its signature does not name are refused."""
    extra: str = ""
    """Extra of delta_ops that installs the package."""
    further_options: frozenset[str] = frozenset()
    """Options that the client takes and its signature does not name."""
    passes_options_on: bool = False
    """Whether the client hands unknown options on, so that only likely misspellings are refused."""
    option_names: OptionNames = field(default_factory=dict)
    """Options by the names that other programs have for them."""
    variable_prefixes: tuple[str, ...] = ()
    """Prefixes of such names that no option of a client has, in small letters."""
    option_hint: str = ""
    """Client and its main options, for messages."""
    drop_credentials: Callable[[Options], Options] = _keep
    """Takes a user and a password out of the addresses in options and in the environment."""
    options_to_open: Callable[[Options, type], Options] = lambda options, _: options
    """Takes options and the class of the file system; adds what the user leaves to us."""
    address_while_opening: Callable[[Options], str | None] = lambda _: None
    """Address that the client connects to while it is made; None if it connects to none."""

    # Requests
    way: Way | None = None
    """How to create a file only if it does not exist; None if the store cannot."""
    is_atomic: bool = False
    """Whether an upload shows a whole file at once, and lasts, and one listing covers a tree."""
    address_of: Callable[[Any], object] | None = None
    """Takes a file system; returns the address of its store, which may hold credentials."""
    slow_address_of: Callable[[Any], object] | None = None
    """Address to try before each call, where the client takes minutes to give up an address."""
    list_from: ListFrom | None = None
    list_tree: ListTree | None = None
    has_table_below_no_name: Callable[[Any, Sequence[Entry], str], bool] | None = None
    """Takes a file system, the entries of a directory and its full path.

    Returns whether a directory without a name is among them, as in `a//b`, and has a table.
    """
    delete_many: DeleteMany | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by which `cat_file` reads a whole object by one request."""
    is_misread: Callable[[str], bool] = lambda _: False
    """Whether the client would cut off a part of this path, and so reach another object."""
    lock: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
    """Held around each listing and change, where those must not interleave."""
    shares_open_files: bool = False
    """Whether all readers of a file get one file object, which has one position."""

    # Spark
    hadoop: Callable[[], Hadoop] | None = None
    """Loads the store's Hadoop connector; None if Hadoop has none."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Functions do not pickle; another process has the backend by its scheme."""
        from delta_ops.storage.backends import backend_of

        return backend_of, self.schemes[:1]

    @property
    def schemes(self) -> tuple[str, ...]:
        """Schemes that open the store; the canonical one comes first."""
        return self.names.schemes


UNKNOWN = Backend(names=StoreNames(schemes=()))
"""A store without a backend."""
