"""Paths of data files: the URI form of the log, and the decoded form used everywhere else.

Source: PROTOCOL.md, "Add File and Remove File" (a path is a URI as RFC 2396 has it).

A path is decoded exactly once. Its canonical form is relative to the table's root wherever the file
lies inside it, so that the same file named absolutely, with `file:`, or encoded otherwise by
another writer is the same key. So it is with the names that one store has (`s3`, `s3a`), and with
a local root that is a symbolic link: the table's own root is resolved, what the log names never is.
A file that lies outside of the root has its absolute path or URI for a key. Steps up (`..`) are
taken by the letter, as Hadoop takes them, and never out of a bucket.
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
from delta_ops.store_names import names_of

# What java.net.URI leaves as it is of ASCII in a path.
_SAFE = "/_-!.~'()*,;:$&+=@"
_PLAIN = re.compile(f"[A-Za-z0-9{re.escape(_SAFE)}]*")
# A name may hold a colon; every URI of a file goes on from the root of its store.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")
_ABSOLUTE = f"^(/|{_SCHEME.pattern})"
_FILE_SCHEME = re.compile(r"file:(?:/(?!/)|///+|//localhost/+)", re.IGNORECASE)
_STORE_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://([^/]*)/?(.*)", re.DOTALL)
_UNTIDY = re.compile(r"//|(^|/)\.{1,2}(/|$)")
_STEPS = re.compile(r"(^|/)\.{1,2}(/|$)")
_NEEDS_WORK = r"%|^/|//|(^|/)\.{1,2}(/|$)|^[A-Za-z][A-Za-z0-9+.\-]+:"
_ODD = r"^/|^[A-Za-z][A-Za-z0-9+.\-]+:|//|(^|/)\.{1,2}(/|$)"
"""Paths that may mean a file by another name."""
_FEW = 100


def encode_path(path: str) -> str:
    """The decoded relative path as the log writes it.

    Characters beyond ASCII are encoded, as RFC 2396 asks. The reference leaves most of them raw,
    and reads either; deltalake encodes them in its removes and compares texts, so that a file with
    a raw one could not be removed by it.
    """
    return path if _PLAIN.fullmatch(path) else quote(path, safe=_SAFE)


def is_absolute(path: str) -> bool:
    """True for a path with a scheme, or from the root of a file system."""
    return path.startswith("/") or (":" in path and _SCHEME.match(path) is not None)


def absolute_paths(paths: pa.ChunkedArray) -> list[str]:
    """The canonical paths that lie outside of the table."""
    return list(paths.filter(are_absolute(paths)).to_pylist())


def are_absolute(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """`is_absolute` of each."""
    return pc.match_substring_regex(paths, _ABSOLUTE)


def depend_on_root(log_paths: pa.Array) -> bool:
    """Whether the canonical form of one of them is another in a table at another place."""
    touched = log_paths.filter(pc.match_substring_regex(log_paths, _NEEDS_WORK))
    decoded = map(unquote, touched.to_pylist())
    return any(is_absolute(path) or _climbs(posixpath.normpath(path)) for path in decoded)


def canonical_path(log_path: str, table_uri: str) -> str:
    """The decoded path of a file as the log names it: relative if inside the table, else absolute.

    Args:
        log_path: `path` of an add or remove, URI-encoded.
        table_uri: The table's root, a local path or URI, not encoded.

    Raises:
        LogPathError: The path is encoded in something else than UTF-8, so that it cannot be
            told which file it names, or it climbs out of its bucket.
    """
    if not _may_need_work(log_path):
        return log_path
    return _canonicalize(log_path, table_uri, partial(_roots, table_uri))


def canonical_paths(log_paths: pa.Array, table_uri: str) -> pa.Array:
    """`canonical_path` of each; the same array where none of them needs work."""
    # To prepare the pattern takes Arrow as long as to look at some hundred paths.
    if len(log_paths) <= _FEW and not any(map(_may_need_work, log_paths.to_pylist())):
        return log_paths
    touched = pc.match_substring_regex(log_paths, _NEEDS_WORK)
    if not pc.any(touched).as_py():
        return log_paths
    roots = cache(partial(_roots, table_uri))
    return pa.array(
        (
            _canonicalize(path, table_uri, roots) if needs else path
            for path, needs in zip(log_paths.to_pylist(), touched.to_pylist(), strict=True)
        ),
        pa.string(),
    )


def canonical_texts(log_paths: Iterable[str], table_uri: str) -> list[str]:
    """`canonical_path` of each, for texts that are in no array."""
    paths = list(log_paths)
    # One look at all takes a fraction of a look at each; a path's start shows by the slash before.
    if not _may_need_work("a/" + "/".join(paths)):
        return paths
    roots = cache(partial(_roots, table_uri))
    return [
        _canonicalize(path, table_uri, roots) if _may_need_work(path) else path for path in paths
    ]


def possible_paths(log_paths: pa.Array, table_uri: str) -> Iterator[str]:
    """The decoded paths of all files in the table that these may mean, for who must delete none.

    Args:
        log_paths: As for `canonical_path`; so is `table_uri`, and what is raised.
    """
    paths = canonical_paths(log_paths, table_uri)
    if paths is log_paths:  # then none of them is odd
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
    """Whether each path may mean another file than that of its canonical form.

    A writer may have forgotten to encode a "%", and a path in full may lead here by a link.

    Args:
        paths: In their canonical form; None: `log_paths` are looked at themselves.
    """
    is_odd = pc.match_substring_regex(log_paths if paths is None else paths, _ODD)
    return pc.or_(is_odd, pc.match_substring(log_paths, "%"))


def possible_names(path: str) -> Iterator[str]:
    """The paths by which a file of a canonical path may be found: of one in full, each end."""
    normal = posixpath.normpath(path)
    yield normal
    if is_absolute(path):
        parts = normal.split("/")
        yield from ("/".join(parts[i:]) for i in range(1, len(parts)))


def _may_need_work(path: str) -> bool:
    """Whether `_NEEDS_WORK` could match; sooner told."""
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
    except _ClimbsError as error:
        raise LogPathError(
            table_uri, log_path, "this path climbs out of its store; remove the file from the log"
        ) from error
    if root is None:
        return _rename_store(place, table_uri)
    inner = place.removeprefix(root).lstrip("/")
    return posixpath.normpath(inner) if _UNTIDY.search(inner) else inner


def _climbs(normal: str) -> bool:
    return normal == ".." or normal.startswith("../")


def _roots(table_uri: str) -> list[str]:
    """Places that are the table's root, each with a slash at its end."""
    places = {place_of(table_uri)}
    places |= {os.path.realpath(place) for place in places if place.startswith("/")}
    return [place.rstrip("/") + "/" for place in places]


class _ClimbsError(ValueError):
    """Steps lead above the root of a bucket, where there is nothing."""


def place_of(uri: str) -> str:
    """An absolute path or URI under the one name that stands for all that mean the same."""
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
            raise _ClimbsError(uri)
    return f"{names.schemes[0]}://{names.canonical_authority(authority)}/{key}"


def split_place(path: str) -> tuple[str, str] | None:
    """The root of the store that an absolute path lies in, and the path from there; a disk has one.

    None where its store is none that is named by a scheme and an authority.
    """
    if path.startswith("/"):
        return "/", path[1:]
    match = _STORE_URI.fullmatch(path)
    return (f"{match[1]}://{match[2]}", match[3]) if match else None


def _rename_store(place: str, table_uri: str) -> str:
    """Whoever opens the table knows its store by this name, and perhaps by no other."""
    store, separator, rest = place.partition("://")
    scheme = table_uri.partition("://")[0]
    same = separator and names_of(scheme).schemes[0] == store
    return f"{scheme}://{rest}" if same else place


def _decode(log_path: str, table_uri: str) -> str:
    try:
        return unquote(log_path, errors="strict")
    except UnicodeDecodeError as error:
        # A replacement character would make one file of two that differ in such bytes only.
        raise LogPathError(
            table_uri, log_path, "the percent-escapes of this path are not UTF-8"
        ) from error
