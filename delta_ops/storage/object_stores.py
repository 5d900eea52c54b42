"""Object stores: what fsspec's common calls cannot say to each kind of them.

1. A listing begins at a name: `ls` lists a whole directory, page after page, where the new names of
   a log come last. Each store has a word for it of its own.
2. A whole object is read by one request: some clients ask for its size first.
3. A name means itself: a client that takes a part of it for something else is not given it.
4. Many objects are deleted by one request, where its answer tells which of them stay.
5. A tree is listed by few requests, several at a time, see `object_tree`.
6. Which store it is that a name is looked up in, the client knows, whatever it was told by.

A file system of any other kind is asked by the common calls. Entries are as fsspec lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from delta_ops.storage.backends.object_tree import Listing, Page, list_objects
from delta_ops.storage.concurrency import MAX_CONCURRENCY

Entry = dict[str, Any]
"""A file as fsspec lists it: name, size, type and a time."""
ListFrom = Callable[[Any, str, str], Iterator[Entry]]
"""Takes a file system, a directory by its full path, and the name to begin at; "" is the first.

Files directly in the directory; some before that name may be among them. None if it is not there.
"""

ListTree = Callable[[Any, str], Iterator[Entry] | None]
"""Takes a file system and a directory by its full path; files in it and below, in any order.

None where this one lists in no order.
"""

DeleteMany = Callable[[Any, Sequence[str]], Set[str]]
"""Takes a file system and full paths in one bucket, `DELETE_BATCH` at most; those that are gone."""
DELETE_BATCH = 1000
"""What S3 takes in one request."""
_CONNECTIONS = 2 * MAX_CONCURRENCY * MAX_CONCURRENCY
"""Connections of a client, which all tables of the same options share: enough for the ranges that
the threads of the pool ask for at once, and for as many readers outside of it."""


def way_to_list_from(protocols: tuple[str, ...]) -> ListFrom | None:
    """How to list from a name on in a store of one of these fsspec protocols, if it can be."""
    return next((_WAYS[protocol] for protocol in protocols if protocol in _WAYS), None)


def way_to_list_tree(protocols: tuple[str, ...]) -> ListTree | None:
    """How to list all below a directory in a store of one of these protocols, if it can be."""
    return next((_WAYS_OF_TREES[each] for each in protocols if each in _WAYS_OF_TREES), None)


def way_to_delete_many(protocols: tuple[str, ...]) -> DeleteMany | None:
    """How to delete many objects at once in a store of one of these protocols, if it can be."""
    return _delete_many_s3 if "s3" in protocols else None


def address_of(protocols: tuple[str, ...], fs: Any) -> str | None:
    """What tells the store from any other that has files of the same names; None if unknown.

    It may hold credentials.
    """
    ways = (_ADDRESSES[protocol] for protocol in protocols if protocol in _ADDRESSES)
    with suppress(Exception):  # clients raise what they like; whoever reads is told of it
        return next((str(way(fs)) for way in ways), None)
    return None


def client_address(protocols: tuple[str, ...], fs: Any) -> str:
    """The address that the client of GCS or Azure connects to; "" if unknown."""
    with suppress(Exception):  # clients raise what they like
        return str(fs.base if "gs" in protocols else fs.service_client.url)
    return ""


def options_of_read(protocols: tuple[str, ...]) -> Mapping[str, Any]:
    """What `cat_file` is given to read a whole object by one request."""
    # s3fs would ask for the size, in case parts of the object can be read side by side.
    return {"max_concurrency": 1} if "s3" in protocols else {}


def is_taken_for_another(protocols: tuple[str, ...], path: str) -> bool:
    """Whether the client would cut off a part of the name, and so reach another object."""
    return ("abfs" in protocols and "?" in path) or ("s3" in protocols and "?versionId=" in path)


def options_to_open(scheme: str, given: Mapping[str, Any], file_system: type) -> Mapping[str, Any]:
    """`given`, and unless it says else what lets as many requests be under way as we send, and
    tells soon of a store that cannot be reached."""
    if scheme not in {"s3", "s3a"}:
        return given
    from delta_ops.storage.backends.s3.session import add_session  # imports the client

    kept = {"max_pool_connections": _CONNECTIONS, **(given.get("config_kwargs") or {})}
    # botocore's own limit is ten
    return add_session(file_system, {**given, "config_kwargs": kept})


def _list_s3(fs: Any, directory: str, start: str) -> Iterator[Entry]:
    bucket, prefix = _split(directory)
    after = prefix + _name_just_before(start) if start and _has_order(bucket) else ""
    for page in _pages_s3(fs, bucket, Listing(prefix, stops_at_slash=True, after=after)):
        for entry in page.objects:
            yield {**entry, "name": f"{bucket}/{entry['name']}"}


def _list_tree_s3(fs: Any, directory: str) -> Iterator[Entry] | None:
    bucket, prefix = _split(directory)
    if not _has_order(bucket):
        return None
    _parse_times_quickly(fs)
    entries = list_objects(partial(_pages_s3, fs, bucket), prefix)
    return ({**entry, "name": f"{bucket}/{entry['name']}"} for entry in entries)


def has_table_below_no_name(fs: Any, entries: Iterable[Entry], directory: str) -> bool:
    """Whether a directory without a name, as in `a//b`, is listed and has the log of a table.

    Only S3 lists such a directory. No path of ours can name it, so that it can only be reported.
    """
    bucket, prefix = _split(directory)
    if not any(e["type"] == "directory" and e["name"] == f"{bucket}/{prefix}" for e in entries):
        return False
    listing = Listing(f"{prefix}/", stops_at_slash=False)
    objects = next(_pages_s3(fs, bucket, listing)).objects
    return any("/_delta_log/" in each["name"] for each in objects)


def _has_order(bucket: str) -> bool:
    """Whether names are listed in their order; in directory buckets they are not."""
    return not bucket.endswith(("--x-s3", "--xa-s3"))


def _pages_s3(fs: Any, bucket: str, listing: Listing) -> Iterator[Page]:
    request = {"Bucket": bucket, "Prefix": listing.prefix, **fs.req_kw}
    if listing.stops_at_slash:
        request["Delimiter"] = "/"
    if listing.after:
        request["StartAfter"] = listing.after
    while True:
        page = fs.call_s3("list_objects_v2", **request)
        objects = [
            {
                "name": found["Key"],
                "size": found["Size"],
                "type": "file",
                "LastModified": found["LastModified"],
                "ETag": found.get("ETag"),
            }
            for found in page.get("Contents", [])
        ]
        directories = [found["Prefix"] for found in page.get("CommonPrefixes", [])]
        goes_on = bool(page.get("IsTruncated"))
        yield Page(objects, directories, goes_on)
        if not goes_on:
            return
        request["ContinuationToken"] = page["NextContinuationToken"]


def _parse_times_quickly(fs: Any) -> None:
    """The client's own way takes four fifths of what it takes to understand a listing."""
    if "session" in fs.storage_options:
        return  # it is the user's
    fs.connect()
    parsers = fs.session.get_component("response_parser_factory")
    parsers.set_parser_defaults(timestamp_parser=_time_s3)


def _time_s3(text: Any) -> datetime:
    if isinstance(text, str) and text.endswith("Z"):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    # A table that is not on S3 does without.
    from botocore.utils import parse_timestamp  # type: ignore[import-untyped]

    return parse_timestamp(text)  # type: ignore[no-any-return]


def _name_just_before(name: str) -> str:
    """A name before `name`, with next to none between: S3 lists what comes after a name."""
    last = name[-1]
    if not "!" < last <= "~":
        return name[:-1]
    before = chr(ord(last) - 1) if last != "0" else "."  # a slash would be a directory
    return f"{name[:-1]}{before}~"


def _list_gcs(fs: Any, directory: str, start: str) -> Iterator[Entry]:
    bucket, prefix = _split(directory)
    request = {"prefix": prefix, "delimiter": "/", "startOffset": prefix + start}
    while True:
        page = fs.call("GET", "b/{}/o", bucket, json_out=True, **request)
        for found in page.get("items", []):
            yield {
                "name": f"{bucket}/{found['name']}",
                "size": found.get("size", 0),
                "type": "file",
                "updated": found["updated"],
                "etag": found.get("etag"),
            }
        if "nextPageToken" not in page:
            return
        request["pageToken"] = page["nextPageToken"]


def _list_azure(fs: Any, directory: str, start: str) -> Iterator[Entry]:  # noqa: ARG001
    """The whole directory, by one request a page, where `ls` first looks for the directory.

    Its clients know a `start_from`; whether that is relative to the prefix, they do not agree on,
    and a guess that is wrong would hide the newest versions.
    """
    from azure.core.exceptions import ResourceNotFoundError
    from azure.storage.blob import BlobProperties

    container, prefix = _split(directory)

    async def list_blobs() -> list[Entry]:
        async with fs.service_client.get_container_client(container=container) as client:
            return [
                {
                    "name": f"{container}/{blob.name}",
                    "size": blob.size,
                    "type": "file",
                    "last_modified": blob.last_modified,
                    "etag": blob.etag,
                }
                async for blob in client.walk_blobs(name_starts_with=prefix, include=["metadata"])
                if isinstance(blob, BlobProperties) and not _is_directory(blob)
            ]

    try:
        from fsspec.asyn import sync  # a local table does without

        yield from sync(fs.loop, list_blobs)
    except ResourceNotFoundError as error:
        raise FileNotFoundError(directory) from error


def _is_directory(blob: Any) -> bool:
    """Whether it stands for a directory, as an account with a hierarchical namespace lists it."""
    return (blob.metadata or {}).get("hdi_isfolder") == "true"


def _delete_many_s3(fs: Any, paths: Sequence[str]) -> Set[str]:
    # Asked for by XML, in which a name with control characters may come to mean another.
    keys = {path: path.partition("/")[2] for path in paths if path.isprintable()}
    if not keys:
        return set()
    bucket = next(iter(keys)).partition("/")[0]
    objects = [{"Key": key} for key in keys.values()]
    # fsspec's own bulk call keeps to itself what the store could not delete.
    answer = fs.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    failed = {error.get("Key") for error in answer.get("Errors", [])}
    return {path for path, key in keys.items() if key not in failed}


def _split(directory: str) -> tuple[str, str]:
    """The bucket, and what the names of all objects in the directory begin with."""
    bucket, _, path = directory.strip("/").partition("/")
    return bucket, f"{path}/" if path else ""


_WAYS_OF_TREES: Mapping[str, ListTree] = {"s3": _list_tree_s3}
_WAYS: Mapping[str, ListFrom] = {"s3": _list_s3, "gs": _list_gcs, "abfs": _list_azure}
_ADDRESSES: Mapping[str, Callable[[Any], object]] = {
    "s3": lambda fs: fs.s3.meta.endpoint_url,
    "gs": lambda fs: fs.base,
    "abfs": lambda fs: fs.service_client.primary_endpoint,
}
