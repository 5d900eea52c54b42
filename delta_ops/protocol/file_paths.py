"""Paths of data files: the URI form of the log, and the decoded form used everywhere else.

Source: PROTOCOL.md, "Add File and Remove File" (a path is a URI as RFC 2396 has it).

A path is decoded exactly once. Its canonical form is relative to the table's root wherever the file
lies inside it, so that the same file named absolutely, with `file:`, or encoded otherwise by
another writer is the same key.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import LogCorruptError

# What java.net.URI leaves as it is in a path; non-ASCII characters stay raw there too, but for the
# spaces, line ends and controls that it refuses.
_SAFE = "/_-!.~'()*,;:$&+=@"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_UNTIDY = re.compile(r"//|(^|/)\.{1,2}(/|$)")
_NEEDS_WORK = r"%|^/|//|(^|/)\.{1,2}(/|$)|^[A-Za-z][A-Za-z0-9+.\-]+:"


def encode_path(path: str) -> str:
    """The decoded relative path as the log writes it.

    Non-ASCII characters stay as they are where the reference leaves them.
    """
    return "".join(c if _stays_raw(c) else quote(c, safe=_SAFE) for c in path)


def is_absolute(path: str) -> bool:
    """True for a path with a scheme, or from the root of a file system."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def canonical_path(log_path: str, table_uri: str) -> str:
    """The decoded path of a file as the log names it: relative if inside the table, else absolute.

    Args:
        log_path: `path` of an add or remove, URI-encoded.
        table_uri: The table's root, a local path or URI, not encoded.

    Raises:
        LogCorruptError: The path is encoded in something else than UTF-8, so that it cannot be
            told which file it names, or it is relative and climbs out of the table.
    """
    decoded = _decoded(log_path, table_uri) if "%" in log_path else log_path
    if is_absolute(decoded):
        absolute = _tidy(_without_file_scheme(decoded))
        root = _without_file_scheme(table_uri).rstrip("/") + "/"
        if not absolute.startswith(root):
            return absolute
        decoded = absolute.removeprefix(root).lstrip("/")
    relative = posixpath.normpath(decoded) if _UNTIDY.search(decoded) else decoded
    if relative == ".." or relative.startswith("../"):
        raise LogCorruptError(
            table_uri, log_path, "this path climbs out of the table; remove the file from the log"
        )
    return relative


def canonical_paths(log_paths: pa.Array, table_uri: str) -> pa.Array:
    """`canonical_path` of each; the same array where none of them needs work."""
    touched = pc.match_substring_regex(log_paths, _NEEDS_WORK)
    if not pc.any(touched).as_py():
        return log_paths
    return pa.array(
        (
            canonical_path(path, table_uri) if needs else path
            for path, needs in zip(log_paths.to_pylist(), touched.to_pylist(), strict=True)
        ),
        pa.string(),
    )


def _stays_raw(character: str) -> bool:
    category = unicodedata.category(character)
    return ord(character) > 127 and category != "Cc" and not category.startswith("Z")


def _decoded(log_path: str, table_uri: str) -> str:
    try:
        return unquote(log_path, errors="strict")
    except UnicodeDecodeError as error:
        # A replacement character would make one file of two that differ in such bytes only.
        raise LogCorruptError(
            table_uri, log_path, "the percent-escapes of this path are not UTF-8"
        ) from error


def _tidy(absolute: str) -> str:
    """A local path without steps; in the keys of an object store they are no steps."""
    is_local = absolute.startswith("/") and _UNTIDY.search(absolute)
    return posixpath.normpath(absolute) if is_local else absolute


def _without_file_scheme(uri: str) -> str:
    return re.sub(r"^file:/{1,3}", "/", uri)
