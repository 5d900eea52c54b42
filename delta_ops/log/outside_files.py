"""Outside files: files that the log names outside of the table; they are read and never written.

Source: PROTOCOL.md, "Add File and Remove File" (a path is relative to the root, or absolute). A
shallow clone names the files of another table so.

1. Each is read through a storage of its own, rooted at its disk, bucket or host and opened once. It
   is a `Readable`, which has nothing that writes.
2. The table's options go to the table's own store only, and to no other host or account. S3, GCS
   and Azure are else opened with what the environment says.
3. Whoever writes the log chooses what is read. So a table in a store does not lead to the disk of
   this machine, and no table to a host of its writer's choice, unless the caller gives its prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from delta_ops.errors import InvalidRequestError, OutsideFileError
from delta_ops.protocol.file_paths import is_absolute, place_of, split_place
from delta_ops.storage import Readable, Storage, open_storage
from delta_ops.storage.paths import is_valid, redact
from delta_ops.store_names import names_of

OutsideRule = Literal["read", "refuse"] | Mapping[str, Mapping[str, Any]]
"""Whether files outside of the table are read; or storage options by prefix, and they are."""


class _Place(NamedTuple):
    """Where a file is, and how that is opened."""

    root: str
    path: str
    prefix: str | None
    """The prefix that the caller gave."""
    options: Mapping[str, Any]


class OutsideFiles:
    """What a table's handle knows of files outside; pickles, and shows no credential.

    Args:
        rule: See `DeltaLog`.
        storage_options: The table's own.

    Raises:
        InvalidRequestError: The rule is none, or a prefix is no absolute path or URI.
    """

    __slots__ = ("_by_prefix", "_opened", "_rule", "_storage_options")

    def __init__(
        self, rule: OutsideRule = "read", storage_options: Mapping[str, Any] | None = None
    ) -> None:
        if not isinstance(rule, Mapping) and rule not in ("read", "refuse"):
            raise InvalidRequestError(
                'outside is "read", "refuse", or storage options by prefix, such as '
                '{"s3://other/": {}}; it is none of them'
            )
        self._rule = rule
        self._storage_options = dict(storage_options or {})
        self._by_prefix = _options_by_prefix(rule) if isinstance(rule, Mapping) else {}
        self._opened: dict[tuple[str, str | None], Readable] = {}

    def __repr__(self) -> str:
        return f"OutsideFiles({'refuse' if self._rule == 'refuse' else 'read'!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Storages are opened again in another process."""
        return OutsideFiles, (self._rule, self._storage_options)

    def validate(self, path: str, table: str) -> None:
        """Refuse a file that may not be read.

        Args:
            path: Canonical and absolute.
            table: The root of the table.

        Raises:
            OutsideFileError: With the reason and the cure.
        """
        self._place(path, table)

    def is_admitted(self, path: str, table: str) -> bool:
        """Whether `validate` takes the file."""
        try:
            self._place(path, table)
        except OutsideFileError:
            return False
        return True

    def find(self, path: str, table: str) -> tuple[Readable, str]:
        """The storage that holds a file, and the file's path in it; arguments as for `validate`.

        Raises:
            FileNotFoundError: It is no file of the disk that it is on; in a store, reading tells.
            OutsideFileError: It may not be read.
            StorageError: Its storage could not be set up, for example without credentials.
            MissingDependencyError: The package for its kind of store is not installed.
        """
        place = self._place(path, table)
        opened = self._opened.get((place.root, place.prefix))
        if opened is None:
            opened = open_storage(place.root, place.options)
            opened = self._opened.setdefault((place.root, place.prefix), opened)
        if opened.has_native_input:
            opened.stat(place.path)  # a disk has pipes and devices too, and who opens one waits
        return opened, place.path

    def _place(self, path: str, table: str) -> _Place:
        if self._rule == "refuse":
            raise _refusal(
                path,
                table,
                'the table was opened with outside="refuse"; open it with outside="read" if you '
                "trust whoever writes its log",
            )
        place = place_of(path)
        split = split_place(path)
        if split is None or not is_valid(split[1]) or place.startswith("file:"):
            raise _refusal(
                path,
                table,
                "it names no file of a disk of this machine or of a store; read it with the engine "
                "that put it there",
            )
        prefix = max(
            (each for each in self._by_prefix if place.startswith(each)), key=len, default=None
        )
        options = self._default_options(place, table) if prefix is None else self._by_prefix[prefix]
        if options is None:
            raise _refusal(
                path,
                table,
                "the table does not lie there, and whoever writes its log could choose any place; "
                "if this one is right give its prefix with storage options, such as "
                f'outside={{"{redact(split[0]).rstrip("/")}/": {{}}}}',
            )
        return _Place(*split, prefix, options)

    def _default_options(self, place: str, table: str) -> Mapping[str, Any] | None:
        """The options for a place whose prefix was not given; None: it is not opened."""
        theirs, ours = _service(place), _service(place_of(table))
        # Without a service, the address leaves the account to the options.
        if theirs == ours or theirs == (ours[0], None):
            return self._storage_options
        return {} if names_of(theirs[0]).has_own_service else None


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Every file that the log of a table names, by its canonical path."""

    storage: Storage
    """Rooted at the table."""
    outside: OutsideFiles

    @property
    def uri(self) -> str:
        """The table's root."""
        return self.storage.uri

    def find(self, path: str) -> tuple[Readable, str]:
        """The storage that holds a file, and the file's path in it.

        Raises:
            As `OutsideFiles.find` does.
        """
        return self.outside.find(path, self.uri) if is_absolute(path) else (self.storage, path)

    def is_admitted(self, path: str) -> bool:
        """Whether the file may be read."""
        return not is_absolute(path) or self.outside.is_admitted(path, self.uri)


def _options_by_prefix(rule: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for prefix, options in rule.items():
        # Neither is shown: a credential may stand in both.
        if not isinstance(prefix, str) or not is_absolute(prefix):
            raise InvalidRequestError(
                "a prefix of files outside of a table is no URI and no absolute path; write it "
                'as "s3://other/" or "/lake/"'
            )
        if not isinstance(options, Mapping):
            raise InvalidRequestError(
                f"the storage options of the prefix {redact(prefix)} are no mapping; write them "
                f'as {{"{redact(prefix)}": {{"key": ...}}}}'
            )
        try:
            place = place_of(prefix)
        except ValueError as error:
            raise InvalidRequestError(
                "a prefix of files outside of a table climbs out of its store; write it without .."
            ) from error
        found[place.rstrip("/") + "/"] = dict(options)
    return found


def _service(place: str) -> tuple[str, str | None]:
    """Store and service of a canonical place; one set of options opens a service."""
    if place.startswith("/"):
        return "/", ""
    store, _, rest = place.partition("://")
    return store, names_of(store).service_of(rest.partition("/")[0])


def _refusal(path: str, table: str, reason: str) -> OutsideFileError:
    return OutsideFileError(table, redact(path), reason)
