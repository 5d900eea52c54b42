"""Outside files: data files outside of the table's root; they are read but never written.

Source: PROTOCOL.md, "Add File and Remove File" (a path is relative to the root, or absolute). The
log of a shallow clone names the files of another table this way.

1. Each data file is read through its own storage, rooted at its disk, bucket or host and opened
   once. It is a `Readable`, which has no methods that write.
2. The table's options are used for the table's own store only, not for any other host or account.
   S3, GCS and Azure are otherwise opened with the settings of the environment.
3. The writer of a log chooses the files that are read. So a table in a store cannot lead readers
   to the disk of this machine, and no table can lead them to a host of the writer's choice. The
   caller can allow such a location by its prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from delta_ops.errors import InvalidRequestError, OutsideFileError
from delta_ops.option_words import option
from delta_ops.protocol.file_paths import is_absolute, place_of, split_place
from delta_ops.storage import Readable, Storage, open_storage
from delta_ops.storage.paths import is_valid, redact
from delta_ops.store_names import names_of

OutsideRule = Literal["read", "refuse"] | Mapping[str, Mapping[str, Any]]
"""Whether files outside of the table are read; or storage options by prefix to read them with."""


class _Place(NamedTuple):
    """Where a file is, and how to open it."""

    root: str
    path: str
    prefix: str | None
    """The prefix from the caller that matches the file."""
    options: Mapping[str, Any]


class OutsideFiles:
    """Opens files outside of a table; can be pickled, and its repr shows no credentials.

    Args:
        rule: See `DeltaLog`.
        storage_options: The table's own options.

    Raises:
        InvalidRequestError: The rule is invalid, or a prefix is not an absolute path or URI.
    """

    __slots__ = ("_by_prefix", "_opened", "_rule", "_storage_options")

    def __init__(
        self, rule: OutsideRule = "read", storage_options: Mapping[str, Any] | None = None
    ) -> None:
        if not isinstance(rule, Mapping) and rule not in ("read", "refuse"):
            raise InvalidRequestError(
                'outside must be "read", "refuse", or storage options by prefix, such as '
                '{"s3://other/": {}}'
            )
        self._rule = rule
        self._storage_options = dict(storage_options or {})
        self._by_prefix = _options_by_prefix(rule) if isinstance(rule, Mapping) else {}
        self._opened: dict[tuple[str, str | None], Readable] = {}

    def __repr__(self) -> str:
        return f"OutsideFiles({'refuse' if self._rule == 'refuse' else 'read'!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out open storages; another process opens its own."""
        return OutsideFiles, (self._rule, self._storage_options)

    def validate(self, path: str, table: str) -> None:
        """Reject a file that must not be read.

        Args:
            path: Canonical and absolute.
            table: The root of the table.

        Raises:
            OutsideFileError: With the reason and the cure.
        """
        self._place(path, table)

    def is_admitted(self, path: str, table: str) -> bool:
        """Whether `validate` accepts the file."""
        try:
            self._place(path, table)
        except OutsideFileError:
            return False
        return True

    def find(self, path: str, table: str) -> tuple[Readable, str]:
        """Find the storage of a file, and the file's path in it; arguments as for `validate`.

        Raises:
            FileNotFoundError: The disk has no such file. In a store, only reading shows this.
            OutsideFileError: The file must not be read.
            StorageError: Its storage could not be set up, for example without credentials.
            MissingDependencyError: The package for its kind of store is not installed.
        """
        place = self._place(path, table)
        opened = self._opened.get((place.root, place.prefix))
        if opened is None:
            opened = open_storage(place.root, place.options)
            opened = self._opened.setdefault((place.root, place.prefix), opened)
        if opened.has_native_input:
            opened.stat(place.path)  # rejects pipes and devices, which would block when opened
        return opened, place.path

    def open_place(self, place: str, table: str) -> Storage:
        """Open the storage of a directory, such as a release set that the table names.

        Args:
            place: An absolute path or URI.
            table: The root of the table.

        Raises:
            DeltaOpsError: As `find` does.
        """
        return open_storage(place, self._place(f"{place.rstrip('/')}/_", table).options)

    def _place(self, path: str, table: str) -> _Place:
        if self._rule == "refuse":
            raise _refusal(
                path,
                table,
                f"the table was opened with {option('outside', 'refuse')}; open it with "
                f"{option('outside', 'read')} if you trust whoever writes its log",
            )
        place = place_of(path)
        split = split_place(path)
        if split is None or not is_valid(split[1]) or place.startswith("file:"):
            raise _refusal(
                path,
                table,
                "it is not a path on a local disk or in an object store; read it with the engine "
                "that wrote it",
            )
        prefix = max(
            (each for each in self._by_prefix if place.startswith(each)), key=len, default=None
        )
        options = self._default_options(place, table) if prefix is None else self._by_prefix[prefix]
        if options is None:
            raise _refusal(
                path,
                table,
                "it is outside the table's location, and a writer of the log could choose any "
                "location; if this one is right, give its prefix with storage options, such as "
                f"{option('outside', {_folder_text(redact(split[0])): {}})}",
            )
        return _Place(*split, prefix, options)

    def _default_options(self, place: str, table: str) -> Mapping[str, Any] | None:
        """Options for a location that no prefix of the caller matches; None if it is refused."""
        theirs, ours = _service(place), _service(place_of(table))
        # An address without a service leaves the account to the options.
        if theirs == ours or theirs == (ours[0], None):
            return self._storage_options
        return {} if names_of(theirs[0]).has_own_service else None


@dataclass(frozen=True, slots=True)
class TableFiles:
    """All files that a table's log names, found by their canonical paths."""

    storage: Storage
    """Rooted at the table."""
    outside: OutsideFiles

    @property
    def uri(self) -> str:
        """The table's root."""
        return self.storage.uri

    def find(self, path: str) -> tuple[Readable, str]:
        """Find the storage of a file, and the file's path in it.

        Raises:
            DeltaOpsError: As `OutsideFiles.find` does.
        """
        return self.outside.find(path, self.uri) if is_absolute(path) else (self.storage, path)

    def is_admitted(self, path: str) -> bool:
        """Whether the file may be read."""
        return not is_absolute(path) or self.outside.is_admitted(path, self.uri)


def _options_by_prefix(rule: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for prefix, options in rule.items():
        # Messages show neither value, because both may contain credentials.
        if not isinstance(prefix, str) or not is_absolute(prefix):
            raise InvalidRequestError(
                "a prefix of files outside of a table must be a URI or an absolute path; write "
                'it as "s3://other/" or "/lake/"'
            )
        if not isinstance(options, Mapping):
            raise InvalidRequestError(
                f"the storage options of the prefix {redact(prefix)} are not a mapping; write "
                f'them as {{"{redact(prefix)}": {{"key": ...}}}}'
            )
        try:
            place = place_of(prefix)
        except ValueError as error:
            raise InvalidRequestError(
                "a prefix of files outside of a table must not contain .."
            ) from error
        found[place.rstrip("/") + "/"] = dict(options)
    return found


def _service(place: str) -> tuple[str, str | None]:
    """The store at this root and its service, such as an account; options differ by service."""
    if place.startswith("/"):
        return "/", ""
    store, _, rest = place.partition("://")
    return store, names_of(store).service_of(rest.partition("/")[0])


def _refusal(path: str, table: str, reason: str) -> OutsideFileError:
    return OutsideFileError(table, redact(path), reason)


def _folder_text(place: str) -> str:
    return f"{place.rstrip('/')}/"
