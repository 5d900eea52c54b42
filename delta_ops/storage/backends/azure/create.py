"""Exclusive create on Azure: Put Blob, or Put Block List, with `If-None-Match: *`.

Only 409 with BlobAlreadyExists means that the blob exists; adlfs assumes this for every 409. Blocks
have unique names. The blocks of two writers exist beside each other until one writer commits its
list; the store then drops all other blocks.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from delta_ops.storage.exclusive_create import (
    Endpoint,
    ExclusiveCreate,
    Upload,
    file_exists_error,
    split,
)

T = TypeVar("T")

_MARK = "deltaopscreate"
_OWN_HOSTS = (".blob.core.windows.net", ".dfs.core.windows.net")
_IS_THERE = "BlobAlreadyExists"
_MAY_BE_THERE = frozenset({400, 409, 412})
"""Statuses for a failed condition, or for blocks that another writer's list has dropped."""


def _put(fs: Any, path: str, data: bytes, mark: str) -> None:
    from azure.core import MatchConditions

    async def put(blob: Any) -> None:
        await blob.upload_blob(
            data,
            length=len(data),
            metadata=_blob_metadata(mark),
            match_condition=MatchConditions.IfMissing,
            max_concurrency=1,
        )

    _create(fs, path, put)


def _look(fs: Any, path: str) -> str | None:
    from azure.core.exceptions import ResourceNotFoundError

    async def look(blob: Any) -> str:
        found = await blob.get_blob_properties()
        return str((found.metadata or {}).get(_MARK, ""))

    try:
        return _call(fs, path, look)
    except ResourceNotFoundError:
        return None


class _Blocks:
    """An upload in blocks; after a week, the store drops the blocks of a killed process."""

    def __init__(self, fs: Any, path: str, mark: str) -> None:
        self._fs, self._path, self._mark = fs, path, mark
        self._names: list[str] = []

    def add(self, part: bytes) -> None:
        name = uuid.uuid4().hex

        async def stage(blob: Any) -> None:
            await blob.stage_block(name, part, length=len(part))

        _call(self._fs, self._path, stage)
        self._names.append(name)

    def finish(self) -> None:
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock

        async def commit(blob: Any) -> None:
            await blob.commit_block_list(
                [BlobBlock(name) for name in self._names],
                metadata=_blob_metadata(self._mark),
                match_condition=MatchConditions.IfMissing,
            )

        _create(self._fs, self._path, commit)

    def abandon(self) -> None:
        """Do nothing: the store drops blocks that no list names."""


def _begin_upload(fs: Any, path: str, mark: str) -> Upload:
    return _Blocks(fs, path, mark)


def _endpoint_of(fs: Any) -> Endpoint:
    endpoint = urlsplit(fs.service_client.primary_endpoint)
    # An emulator serves all accounts at one host, so the path is part of the address.
    return Endpoint(endpoint.netloc + endpoint.path, (endpoint.hostname or "").endswith(_OWN_HOSTS))


def _create(fs: Any, path: str, call: Callable[[Any], Awaitable[None]]) -> None:
    from azure.core.exceptions import HttpResponseError

    try:
        _call(fs, path, call)
    except HttpResponseError as error:
        if getattr(error, "error_code", "") == _IS_THERE or (
            error.status_code in _MAY_BE_THERE and _look(fs, path) is not None
        ):
            raise file_exists_error(path) from error
        raise


def _call(fs: Any, path: str, call: Callable[[Any], Awaitable[T]]) -> T:
    container, name = split(path)

    async def run() -> T:
        async with fs.service_client.get_blob_client(container=container, blob=name) as blob:
            return await call(blob)

    from fsspec.asyn import sync  # local tables do not need fsspec

    return sync(fs.loop, run)  # type: ignore[no-any-return]


def _blob_metadata(mark: str) -> dict[str, str]:
    # adlfs marks every blob that is not a directory like this.
    return {"is_directory": "false", **({_MARK: mark} if mark else {})}


EXCLUSIVE_CREATE = ExclusiveCreate(
    put=_put, look=_look, begin_upload=_begin_upload, endpoint_of=_endpoint_of
)
