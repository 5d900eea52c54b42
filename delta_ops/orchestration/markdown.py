"""Markdown for Dagster's UI: escaped text, and links to pages of the UI.

The UI renders descriptions and Markdown metadata as GitHub's Markdown, without HTML. Texts from a
log (names, operations, paths, and messages with them) are not trusted, and are escaped here.

Links are paths on the web server. If the server has a path prefix, or events are read elsewhere,
the environment variable `DELTA_OPS_DAGSTER_URL` holds the beginning of the links.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from delta_ops.error_texts import escape_unprintable
from delta_ops.storage.backends import backends
from delta_ops.storage.paths import redact

URL_VARIABLE = "DELTA_OPS_DAGSTER_URL"
_SYNTAX = re.compile(r"[\\`*\[\]<~&|]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that begin Markdown or HTML, without an underscore between letters."""
_BLOCK = re.compile(r"[-+=#>]|\d+(?=[.)])")
"""The beginning of a line that is a list item, a heading or a quotation."""
_SLASH = re.compile(r"(?<=[^/:])(?=/)")
"""The places before single slashes, and not those of `s3://`."""
WRAP = "![]()"
"""An image without a source: invisible, not copied with the text, and a line can end there."""
_RUN_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_NO_REPOSITORY = "__repository__"
"""Dagster's name for an unnamed repository; the UI omits it from paths."""


def plain_text(text: str) -> str:
    """The text on one line, with all Markdown escaped.

    The UI still turns an http address in the text into a link.
    """
    escaped = _SYNTAX.sub(lambda found: f"\\{found[0]}", _one_line(text))
    block = _BLOCK.match(escaped)
    if block is None:
        return escaped
    begins = block[0] if block[0].isdigit() else ""
    return f"{begins}\\{escaped[len(begins) :]}"


def code_text(text: str) -> str:
    """The text as code on one line, for names and paths. Use `plain_text` inside tables."""
    shown = _one_line(text)
    fence = "`"
    while fence in shown:
        fence += "`"
    padding = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{fence}{padding}{shown}{padding}{fence}" if shown else ""


def place_link(uri: str) -> str:
    """The place of a table, as code that can wrap at each slash; a link if a browser can open it.

    A table of metadata is as wide as its longest word, so a long path would move the other values
    out of sight.
    """
    shown = redact(uri)
    page = shown if is_web_address(shown) else console_url(shown)
    text = WRAP.join(code_text(part) for part in _SLASH.split(_one_line(shown)))
    return text if page is None else f"[{text}]({quote(page, safe=':/?=&%@+~')})"


def is_web_address(uri: str) -> bool:
    """Whether a browser can open an address."""
    return uri.startswith(("http://", "https://"))


def console_url(uri: str) -> str | None:
    """The page of a table's folder in the web console of its store; None if there is none.

    An S3 address does not say whether AWS or another store has the bucket.
    """
    scheme, separator, place = uri.partition("://")
    if not separator:
        return None
    of_scheme = (each for each in backends() if scheme in each.names.schemes)
    console = next((each.console_address for each in of_scheme if each.console_address), None)
    return None if console is None else f"{console}{quote(place.rstrip('/'))}"


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a header that ends in ":" marks a column of numbers.

    Args:
        rows: Cells, already Markdown.
    """
    ruler = ["--:" if name.endswith(":") else "---" for name in header]
    lines = [[name.removesuffix(":") for name in header], ruler, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run_link(run_id: str) -> str:
    """A link to a run; plain text if the id is malformed."""
    if not _RUN_ID.fullmatch(run_id):
        return plain_text(run_id[:8])
    return f"[{run_id[:8]}]({_url(f'/runs/{run_id}')})"


def launchpad_link(
    label: str, job: str, config: Mapping[str, Any], location: tuple[str, str] | None
) -> str:
    """A link to a job's launchpad with a config.

    Args:
        location: Names of the code location and of the repository; None: the UI searches all
            locations for the job.
    """
    place = f"/guess/{quote(job, safe='')}"
    if location is not None:
        name, repository = location
        at = "" if repository == _NO_REPOSITORY else f"{quote(repository, safe='')}@"
        place = f"/locations/{at}{quote(name, safe='')}/jobs/{quote(job, safe='')}"
    encoded = quote(_yaml(config), safe="")
    return f"[{plain_text(label)}]({_url(f'{place}/playground/setup?config={encoded}')})"


def _url(path: str) -> str:
    return quote(os.environ.get(URL_VARIABLE, "").rstrip("/"), safe=":/@%") + path


def _one_line(text: str) -> str:
    """The text on one line, with unprintable characters escaped."""
    return escape_unprintable(" ".join(text.split()))


def _yaml(config: Mapping[str, Any], indent: int = 0) -> str:
    """Format config as YAML for the launchpad's editor; values are JSON, which is valid YAML."""
    lines = []
    for name, value in config.items():
        key = f"{' ' * indent}{name if name.isidentifier() else json.dumps(name)}:"
        if isinstance(value, Mapping) and value:
            lines.append(f"{key}\n{_yaml(value, indent + 2)}")
        else:
            lines.append(f"{key} {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)
