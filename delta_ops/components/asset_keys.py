"""Asset keys: converts paths to keys with distinct names in Dagster.

Dagster names steps by asset keys. A name has ASCII letters, digits and "_". Dagster joins the parts
of a key by "__" and replaces "-" and "." by "_". Two keys may therefore get the same name, and
Dagster does not distinguish them. Older versions of Dagster cannot check an asset whose key has a
dot, so there a dot becomes "_" in a key, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

import dagster as dg

from delta_ops.orchestration.dagster_versions import KEY_PUNCTUATION

_OTHER = re.compile(rf"[^\w{re.escape(KEY_PUNCTUATION)}]", re.ASCII)


def is_nameable(parts: Sequence[str]) -> bool:
    """Whether Dagster can build a name from a key with these parts."""
    # A part that consists of dots only is not a folder name.
    if not parts or any(not part.strip(".") or _OTHER.search(part) for part in parts):
        return False
    try:
        dg.op(name=_name_of(parts))(lambda: None)  # rejects reserved words of Python and Dagster
    except dg.DagsterInvalidDefinitionError:
        return False
    return True


def asset_keys(paths: Iterable[str], prefix: Sequence[str] = ()) -> dict[str, dg.AssetKey]:
    """A key for each path, as similar to the path as possible, with a distinct name.

    Other characters become "_". If the name is invalid or taken, a hash of the path is appended. A
    path that is already a valid key stays unchanged, because policies name tables by their keys.

    Args:
        paths: Separated by "/".
        prefix: First parts of all keys; must form a valid name.
    """
    keys: dict[str, dg.AssetKey] = {}
    names: set[str] = set()
    for path in sorted(paths, key=lambda each: (_key_text(each) != each, each)):
        parts = [*prefix, *_key_text(path).split("/")]
        if _name_of(parts) in names or not is_nameable(parts):
            parts[-1] += f"_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
        names.add(_name_of(parts))
        keys[path] = dg.AssetKey(parts)
    return keys


def _key_text(path: str) -> str:
    return "/".join(_OTHER.sub("_", part) for part in path.split("/"))


def _name_of(parts: Sequence[str]) -> str:
    return dg.AssetKey(parts).to_python_identifier()
