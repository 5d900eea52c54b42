"""Zarr store: reads and writes an array table through `zarr.abc.store.Store`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from copy import copy
from datetime import timedelta
from typing import Self

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from delta_ops.arguments import validate_arguments
from delta_ops.arrays.commit import OnConflict
from delta_ops.arrays.keys import place_of, validate_key, validate_node
from delta_ops.arrays.reading import Prefixes, ValueReader
from delta_ops.arrays.rows import Value, validate_value
from delta_ops.arrays.views import (
    SessionView,
    VersionView,
    find_value,
    list_children,
    list_keys,
)
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import ArrayKeyError, InvalidRequestError
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.versioning import begin_session, open_session

_READ_ONLY = (
    "cannot be written: store was opened in read-only mode and does not support writing; open the "
    "table with DeltaStore.begin, or with the token of a session"
)


class DeltaStore(Store):  # noqa: PLW1641  (stores of Zarr have no hash)
    """A Zarr store over an array table: reads a version, tag or branch, or writes to a session.

    A store with a session reads the version that the session began with, and its changes. Nobody
    else sees them until `commit`. The store can be pickled: the copies share the session, and each
    copy stages its writes at once. Copies see the writes that were staged when they were opened.

    Args:
        table: A location or handle of an array table, see `create_array_table`.
        version: The version to read; the latest if `ref` and `session` are None too.
        ref: The tag or branch to read, such as `tag:2026-11` or `branch:audit`.
        session: The token of the session to write to.
        read_only: Whether writes are rejected; always, without a session.
        virtual_prefixes: Prefixes of files outside of the table that keys may name, with storage
            options. Other files are not read.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: Several of a version, a ref and a session were given, or the table is
            not an array table. The table is opened by the first read.
        SessionTokenError, SessionEndedError: As `open_session`.

    Examples:
        >>> import zarr
        >>> _ = create_array_table("lake/grids")
        >>> store = DeltaStore.begin("lake/grids")
        >>> air = zarr.create_array(store, name="air", shape=(6,), chunks=(3,), dtype="i4")
        >>> air[:] = [1, 2, 3, 4, 5, 6]
        >>> store.commit()
        1
        >>> zarr.open_array(DeltaStore("lake/grids"), path="air", mode="r")[2:4].tolist()
        [3, 4]
    """

    def __init__(
        self,
        table: TableOrPlace,
        *,
        version: int | None = None,
        ref: str | None = None,
        session: str | None = None,
        read_only: bool = False,
        virtual_prefixes: Prefixes | None = None,
        clock: Clock = system_clock,
    ) -> None:
        validate_arguments(DeltaStore.__init__, locals())
        if sum(each is not None for each in (version, ref, session)) > 1:
            raise InvalidRequestError("give a version, a ref or a session, not several of them")
        if ref is not None and ref.startswith("session:"):
            raise InvalidRequestError(
                f"{ref!r} is a session; give its token as session, so that its changes are read"
            )
        super().__init__(read_only=read_only or session is None)
        log = log_of(table)
        self._view: VersionView | SessionView
        self._identity = (log.uri, version, ref, session)
        if session is None:
            self._view = VersionView(log, version, ref)
        else:
            writer = open_session(log, session, clock=clock)
            self._view = SessionView(log.main, writer, clock=clock)
        self._reader = ValueReader(log.storage, dict(virtual_prefixes or {}))
        self._has_committed = False

    @classmethod
    def begin(
        cls,
        table: TableOrPlace,
        *,
        expires_in: timedelta = timedelta(hours=24),
        virtual_prefixes: Prefixes | None = None,
        clock: Clock = system_clock,
    ) -> Self:
        """Begin a session on the latest version, and open a store that writes to it.

        Args:
            table: A location or handle.
            expires_in: Lifetime of the session, at most 7 days; see `begin_session`.
            virtual_prefixes: As for `DeltaStore`.
            clock: Milliseconds since the Unix epoch.

        Raises:
            InvalidRequestError: The session would live too long, or the table cannot have sessions.
            TableNotFoundError: There is no table here.

        Examples:
            >>> _ = create_array_table("lake/grids")
            >>> DeltaStore.begin("lake/grids").read_only
            False
        """
        log = log_of(table)
        token = begin_session(log, expires_in=expires_in, clock=clock).token
        return cls(log, session=token, virtual_prefixes=virtual_prefixes, clock=clock)

    def __eq__(self, value: object) -> bool:
        return (
            isinstance(value, DeltaStore)
            and self._identity == value._identity
            and self.read_only == value.read_only
        )

    def __repr__(self) -> str:
        uri, version, ref, _ = self._identity
        if isinstance(self._view, SessionView):
            return f"DeltaStore({uri!r}, session {self._view.session.id})"
        place = f", ref={ref!r}" if ref else f", version={version}" if version is not None else ""
        return f"DeltaStore({uri!r}{place})"

    def with_read_only(self, read_only: bool = False) -> DeltaStore:
        """A copy of the store that allows writes or rejects them; both share the session.

        Raises:
            InvalidRequestError: The store reads a version, which cannot be written.
        """
        if not read_only:
            self._writable("the store")
        other = copy(self)
        other._read_only, other._is_open = read_only, False
        return other

    @property
    def log(self) -> DeltaLog:
        """The handle of the table."""
        return self._view.log

    @property
    def session(self) -> str | None:
        """The token of the session, for other processes; None for a version."""
        return self._view.session.token if isinstance(self._view, SessionView) else None

    def _writable(self, key: str) -> SessionView:
        if not isinstance(self._view, SessionView):
            raise ArrayKeyError(self._identity[0], key, _READ_ONLY)
        return self._view

    def _writer(self, key: str) -> SessionView:
        if self._read_only:
            raise ArrayKeyError(self._identity[0], key, _READ_ONLY)
        validate_key(key, self._identity[0])
        validate_node(place_of(key).node, key, self._identity[0])
        return self._writable(key)

    # Synchronous methods.

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Read the bytes of a key, or a range of them; None without the key.

        Raises:
            ArrayKeyError: The key or the range is invalid, or the bytes do not fit their hash.
            StorageError: The store failed.
        """
        validate_key(key, self._identity[0])
        value = find_value(self._view, key)
        if value is None:
            return None
        start, end = self._range(key, value.size, byte_range)
        data = self._reader.read(key, value, start, end) if end > start else b""
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def _range(self, key: str, size: int, byte_range: ByteRequest | None) -> tuple[int, int]:
        match byte_range:
            case None:
                return 0, size
            case RangeByteRequest(start=start, end=end):
                return start, min(end, size)
            case OffsetByteRequest(offset=offset):
                return offset, size
            case SuffixByteRequest(suffix=suffix):
                return max(size - suffix, 0), size
        raise ArrayKeyError(
            self._identity[0], key, f"has no such range: Unexpected byte_range, got {byte_range}"
        )

    def set_sync(self, key: str, value: Buffer) -> None:
        """Set the bytes of a key.

        Raises:
            ArrayKeyError: The key is invalid, or the store is read-only.
            SessionEndedError, StorageError: The session has ended, or the store failed.
        """
        writer = self._writer(key)
        if not isinstance(value, Buffer):
            raise TypeError(f"the value of {key!r} is a {type(value).__name__}, not a Buffer")
        writer.set(key, value.to_bytes())

    def delete_sync(self, key: str) -> None:
        """Delete a key if it exists. Raises as `set_sync`."""
        self._writer(key).delete(key)

    # Methods of Store.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """See `get_sync`."""
        await self._ensure_open()
        return await asyncio.to_thread(
            self.get_sync, key, prototype=prototype, byte_range=byte_range
        )

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Read several ranges; see `get_sync`."""
        calls = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return list(await asyncio.gather(*calls))

    async def exists(self, key: str) -> bool:
        """Whether the store has a key."""
        validate_key(key, self._identity[0])
        return await asyncio.to_thread(find_value, self._view, key) is not None

    async def getsize(self, key: str) -> int:
        """Number of bytes of a key; reads no chunk.

        Raises:
            FileNotFoundError: The key does not exist.
        """
        validate_key(key, self._identity[0])
        value = await asyncio.to_thread(find_value, self._view, key)
        if value is None:
            raise FileNotFoundError(key)
        return value.size

    async def set(self, key: str, value: Buffer) -> None:
        """See `set_sync`."""
        await self._ensure_open()
        await asyncio.to_thread(self.set_sync, key, value)

    async def delete(self, key: str) -> None:
        """See `delete_sync`."""
        await asyncio.to_thread(self.delete_sync, key)

    @property
    def supports_writes(self) -> bool:
        """True; a store without a session is read-only."""
        return True

    @property
    def supports_deletes(self) -> bool:
        """True; a store without a session is read-only."""
        return True

    @property
    def supports_listing(self) -> bool:
        """True."""
        return True

    @property
    def supports_consolidated_metadata(self) -> bool:
        """False: a copy of all metadata in one key would become outdated by other sessions."""
        return False

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """The keys that begin with a prefix."""
        for key in await asyncio.to_thread(lambda: list(list_keys(self._view, prefix))):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names of keys and directories directly in a directory."""
        for name in await asyncio.to_thread(list_children, self._view, prefix.rstrip("/")):
            yield name

    # Sessions.

    def set_virtual(
        self, key: str, location: str, *, offset: int, length: int, etag: str | None = None
    ) -> None:
        """Set a chunk to a range of a file outside of the table, which stays where it is.

        Args:
            key: The key of the chunk.
            location: The URI or absolute path of the file. Readers must allow a prefix of it.
            offset: First byte.
            length: Number of bytes.
            etag: `etag_of` the file; a reader rejects the bytes if the file has changed since. None
                for no check.

        Raises:
            ArrayKeyError: The key or the range is invalid, or the store is read-only.
            SessionEndedError, StorageError: The session has ended, or the store failed.

        Examples:
            >>> _ = create_array_table("lake/grids")
            >>> store = DeltaStore.begin("lake/grids")
            >>> store.set_virtual("air/c/0", "s3://archive/2026.nc", offset=4096, length=800)
            >>> store.commit()
            1
        """
        validate_arguments(DeltaStore.set_virtual, locals())
        writer = self._writer(key)
        if "://" not in location and not location.startswith("/"):
            raise ArrayKeyError(
                self._identity[0], key, f"names {location!r}; give a URI or an absolute path"
            )
        value = Value(location=location, offset=offset, length=length, etag=etag)
        validate_value(key, value, self._identity[0])
        writer.set_virtual(key, value)

    def close(self) -> None:
        """Stage the writes of a store with a session, and close it. Raises as `flush`."""
        if isinstance(self._view, SessionView):
            self._view.flush()
        super().close()

    def flush(self) -> None:
        """Stage the writes of this store; other stores of the session then see them.

        Raises:
            ArrayKeyError: The store reads a version.
            SessionEndedError, StorageError: The session has ended, or the store failed.
        """
        self._writable("the store").flush()

    def refresh(self) -> None:
        """Load the writes that other stores of the session have staged. Raises as `flush`."""
        self._writable("the store").refresh()

    def commit(
        self,
        user_metadata: str | None = None,
        *,
        on_conflict: OnConflict = "fail",
        txn: tuple[str, int] | None = None,
        timeout: timedelta = timedelta(minutes=10),
    ) -> int | None:
        """Commit the writes of all stores of the session to main, in one commit or not at all.

        Only the blocks with changed keys are written again. A second call does nothing, in any
        process. The store then reads the committed version, and takes no more writes.

        Args:
            user_metadata: Any text, kept in commitInfo.
            on_conflict: If another session has changed a chunk of this session: "fail", or whose
                bytes count, "ours" or "theirs". A changed shape, chunk grid, type or codec, or a
                deleted node, is resolved by "theirs" only; all writes to the node are then left
                out.
            txn: An application id and a version: commit only if the table does not hold this txn,
                so that a job that runs again is not committed twice.
            timeout: No attempt begins later.

        Returns:
            The version that has the writes; None if they change nothing.

        Raises:
            ChunkConflictError: Another session has changed a key of this session, or the metadata
                of its node. Nothing was committed, and the session stays open.
            SessionEndedError: The session was abandoned, or has expired.
            TableBusyError: Other commits were first until the timeout.
            CommitStateUnknownError, StorageError: The store failed. Repeat the call.

        Examples:
            >>> import zarr
            >>> _ = create_array_table("lake/grids")
            >>> store = DeltaStore.begin("lake/grids")
            >>> _ = zarr.create_group(store)
            >>> store.commit("create the group")
            1
        """
        validate_arguments(DeltaStore.commit, locals())
        if self._has_committed:
            return self._identity[1]
        writer = self._writable("the store")
        result = writer.commit(
            on_conflict=on_conflict, txn=txn, user_metadata=user_metadata, timeout=timeout
        )
        version = result.version
        self._view = VersionView(writer.log, version, None)
        self._read_only = self._has_committed = True
        self._identity = (writer.log.uri, version, None, None)
        return version

    def changed_chunks(self) -> tuple[int, int]:
        """Number and bytes of the chunks that the session sets to other bytes. Raises as `flush`.

        Chunks of other writers count if this store has seen them, see `refresh`.
        """
        return self._writable("the store").changed_chunks()

    def abandon(self) -> None:
        """End the session without a commit; vacuum later deletes its files.

        Raises:
            SessionEndedError: The session was committed.
            TableBusyError: A commit has begun, and its outcome is not known.
            StorageError: The store failed. Repeat the call.

        Examples:
            >>> _ = create_array_table("lake/grids")
            >>> DeltaStore.begin("lake/grids").abandon()
        """
        self._writable("the store").abandon()
