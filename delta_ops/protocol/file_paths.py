"""Paths of data files: URI-encoded in the log, decoded everywhere else.

Source: PROTOCOL.md, "Add File and Remove File" (a path is a URI according to RFC 2396).

A path is decoded exactly once. The canonical form of a file inside the table is relative to the
table's root. A file therefore has one key, even if another writer uses an absolute path, `file:` or
other escapes. The same holds for schemes of one store (`s3`, `s3a`) and for a local root that is a
symbolic link: the table's root is resolved, paths in the log are not. The key of a file outside the
root is its absolute path or URI. `..` is resolved in the text of a path, as in Hadoop, and never
leads out of a bucket.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import LogPathError
from delta_ops.protocol.arrow_values import array_of
from delta_ops.store_names import names_of

# ASCII characters that java.net.URI does not escape in a path.
_SAFE = "/_-!.~'()*,;:$&+=@"
_PLAIN = re.compile(f"[A-Za-z0-9{re.escape(_SAFE)}]*")
# A name may contain a colon; a file's URI always has a slash after its scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")
_ABSOLUTE = f"^(/|{_SCHEME.pattern})"
_FILE_SCHEME = re.compile(r"file:(?:/(?!/)|///+|//localhost/+)", re.IGNORECASE)
_STORE_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://([^/]*)/?(.*)", re.DOTALL)
_UNTIDY = re.compile(r"//|(^|/)\.{1,2}(/|$)")
_STEPS = re.compile(r"(^|/)\.{1,2}(/|$)")
_NEEDS_WORK = r"%|^/|//|(^|/)\.{1,2}(/|$)|^[A-Za-z][A-Za-z0-9+.\-]+:"
_ODD = r"^/|^[A-Za-z][A-Za-z0-9+.\-]+:|//|(^|/)\.{1,2}(/|$)"
"""Matches canonical paths that may be a second name of a file."""
_FEW = 100


def encode_path(path: str) -> str:
    """Encode a decoded relative path for the log.

    Characters beyond ASCII are encoded, as RFC 2396 requires. The reference writes most of them raw
    and reads both forms. deltalake encodes them in its removes and compares texts, so it could not
    remove a file with a raw path.
    """
    return path if _PLAIN.fullmatch(path) else quote(path, safe=_SAFE)


def is_absolute(path: str) -> bool:
    """Whether a path has a scheme or starts at a file system's root."""
    return path.startswith("/") or (":" in path and _SCHEME.match(path) is not None)


def absolute_paths(paths: pa.ChunkedArray) -> list[str]:
    """Filter canonical paths: keep absolute paths, whose files are outside the table."""
    return list(paths.filter(are_absolute(paths)).to_pylist())


def are_absolute(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """`is_absolute` of each path."""
    return pc.match_substring_regex(paths, _ABSOLUTE)


def depend_on_root(log_paths: pa.Array) -> bool:
    """Whether the canonical form of any of these paths depends on the table's location."""
    touched = log_paths.filter(pc.match_substring_regex(log_paths, _NEEDS_WORK))
    decoded = map(unquote, touched.to_pylist())
    return any(is_absolute(path) or _climbs(posixpath.normpath(path)) for path in decoded)


def canonical_path(log_path: str, table_uri: str) -> str:
    """The decoded path of a file: relative inside the table, absolute outside.

    Args:
        log_path: `path` of an add or remove, URI-encoded.
        table_uri: The table's root, a local path or URI, not encoded.

    Raises:
        LogPathError: The path's escapes are not UTF-8, so the file is ambiguous, or the path climbs
            out of its bucket.
    """
    if not _may_need_work(log_path):
        return log_path
    return _canonicalize(log_path, table_uri, partial(_roots, table_uri))


def canonical_paths(log_paths: pa.Array, table_uri: str) -> pa.Array:
    """`canonical_path` of each path; returns the same array if no path changes."""
    # For Arrow, preparing the pattern costs as much as some hundred paths do.
    if len(log_paths) <= _FEW and not any(map(_may_need_work, log_paths.to_pylist())):
        return log_paths
    touched = pc.match_substring_regex(log_paths, _NEEDS_WORK)
    if not pc.any(touched).as_py():
        return log_paths
    roots = cache(partial(_roots, table_uri))
    return array_of(
        (
            _canonicalize(path, table_uri, roots) if needs else path
            for path, needs in zip(log_paths.to_pylist(), touched.to_pylist(), strict=True)
        ),
        pa.string(),
    )


def canonical_texts(log_paths: Iterable[str], table_uri: str) -> list[str]:
    """`canonical_path` of each text in an iterable."""
    paths = list(log_paths)
    # One check of all paths is much faster than a check of each; the slash marks a path's start.
    if not _may_need_work("a/" + "/".join(paths)):
        return paths
    roots = cache(partial(_roots, table_uri))
    return [
        _canonicalize(path, table_uri, roots) if _may_need_work(path) else path for path in paths
    ]


def possible_paths(log_paths: pa.Array, table_uri: str) -> Iterator[str]:
    """The decoded paths of all table files that these paths may mean.

    A caller that must not delete any of these files needs all of them.

    Args:
        log_paths: As for `canonical_path`; the same goes for `table_uri` and the errors.
    """
    paths = canonical_paths(log_paths, table_uri)
    if paths is log_paths:  # no path changed, so none is ambiguous
        yield from paths.to_pylist()
        return
    is_odd = may_mean_others(log_paths, paths)
    yield from paths.filter(pc.invert(is_odd)).to_pylist()
    for path in paths.filter(is_odd).to_pylist():
        yield from possible_names(path)
    yield from (path for path in log_paths.filter(is_odd).to_pylist() if "%" in path)


def may_mean_others(
    log_paths: pa.Array | pa.ChunkedArray, paths: pa.Array | None = None
) -> pa.Array | pa.ChunkedArray:
    """Whether each path may mean a file besides its canonical form.

    A writer may have left a "%" unencoded, and an absolute path may lead into the table by a link.

    Args:
        paths: The canonical forms; None: check `log_paths` themselves.
    """
    is_odd = pc.match_substring_regex(log_paths if paths is None else paths, _ODD)
    return pc.or_(is_odd, pc.match_substring(log_paths, "%"))


def possible_names(path: str) -> Iterator[str]:
    """Possible names of the file at a canonical path; for an absolute path, each suffix too."""
    normal = posixpath.normpath(path)
    yield normal
    if is_absolute(path):
        parts = normal.split("/")
        yield from ("/".join(parts[i:]) for i in range(1, len(parts)))


def _may_need_work(path: str) -> bool:
    """Whether `_NEEDS_WORK` might match; a cheap check."""
    return "%" in path or ":" in path or "//" in path or "/." in path or path.startswith(("/", "."))


def _canonicalize(log_path: str, table_uri: str, roots: Callable[[], Sequence[str]]) -> str:
    decoded = _decode(log_path, table_uri) if "%" in log_path else log_path
    if not is_absolute(decoded):
        relative = posixpath.normpath(decoded) if _UNTIDY.search(decoded) else decoded
        if not _climbs(relative):
            return relative
    try:
        if not is_absolute(decoded):
            decoded = f"{place_of(table_uri).rstrip('/')}/{relative}"
        place = place_of(decoded)
        root = next((root for root in roots() if place.startswith(root)), None)
    except _LeavesStoreError as error:
        raise LogPathError(
            table_uri, log_path, "this path leaves its store; remove the file from the log"
        ) from error
    if root is None:
        return _rename_store(place, table_uri)
    inner = place.removeprefix(root).lstrip("/")
    return posixpath.normpath(inner) if _UNTIDY.search(inner) else inner


def _climbs(normal: str) -> bool:
    return normal == ".." or normal.startswith("../")


def _roots(table_uri: str) -> list[str]:
    """Locations of the table's root, each with a slash at the end."""
    places = {place_of(table_uri)}
    places |= {os.path.realpath(place) for place in places if place.startswith("/")}
    return [place.rstrip("/") + "/" for place in places]


class _LeavesStoreError(ValueError):
    """A `..` in the path leads out of the bucket."""


def place_of(uri: str) -> str:
    """Normalize an absolute path or URI, so that equal locations have equal texts."""
    is_file = _FILE_SCHEME.match(uri)
    local = f"/{uri[is_file.end() :]}" if is_file else uri
    if local.startswith("/"):
        return posixpath.normpath(local) if _UNTIDY.search(local) else local
    match = _STORE_URI.fullmatch(uri)
    if match is None:
        return uri
    scheme, authority, key = match.groups()
    names = names_of(scheme)
    if _STEPS.search(key):
        key = posixpath.normpath(key)
        if _climbs(key):
            raise _LeavesStoreError(uri)
    return f"{names.schemes[0]}://{names.canonical_authority(authority)}/{key}"


def split_place(path: str) -> tuple[str, str] | None:
    """Split an absolute path into its store's root and the path below it.

    All local paths have the root `/`. None if the store has no scheme and authority.
    """
    if path.startswith("/"):
        return "/", path[1:]
    match = _STORE_URI.fullmatch(path)
    return (f"{match[1]}://{match[2]}", match[3]) if match else None


def _rename_store(place: str, table_uri: str) -> str:
    """Use the scheme of the table's URI, since the caller may have configured no other."""
    store, separator, rest = place.partition("://")
    scheme = table_uri.partition("://")[0]
    same = separator and names_of(scheme).schemes[0] == store
    return f"{scheme}://{rest}" if same else place


def _decode(log_path: str, table_uri: str) -> str:
    try:
        return unquote(log_path, errors="strict")
    except UnicodeDecodeError as error:
        # Replacement characters could give two different files the same path.
        raise LogPathError(
            table_uri, log_path, "the percent-escapes of this path are not UTF-8"
        ) from error
