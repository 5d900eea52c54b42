"""Markdown for Dagster's UI: text that stays text, and links to pages of the UI.

The UI shows descriptions and Markdown metadata as GitHub's Markdown, without HTML. What comes from
a log (names, operations, paths, messages that repeat them) is anybody's, and is escaped here.

Links are paths below the web server. Where it is served below a prefix, or where events are read
elsewhere, the variable `DELTA_OPS_DAGSTER_URL` says what stands before them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from delta_ops.error_texts import escape_unprintable

URL_VARIABLE = "DELTA_OPS_DAGSTER_URL"
_SYNTAX = re.compile(r"[\\`*\[\]<~&|]|(?<![^\W_])_|_(?![^\W_])")
"""What begins Markdown or HTML; an underscore between letters does not."""
_BLOCK = re.compile(r"[-+=#>]|\d+(?=[.)])")
"""What makes a list, a heading or a quotation of a line that begins with it."""
_RUN_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_NO_REPOSITORY = "__repository__"
"""The name of a repository that has none; the UI leaves it out of paths."""


def plain_text(text: str) -> str:
    """The text on one line, in which nothing is Markdown.

    An http address in it becomes a link all the same: the UI makes links of those by itself.
    """
    escaped = _SYNTAX.sub(lambda found: f"\\{found[0]}", _one_line(text))
    block = _BLOCK.match(escaped)
    if block is None:
        return escaped
    begins = block[0] if block[0].isdigit() else ""
    return f"{begins}\\{escaped[len(begins) :]}"


def code_text(text: str) -> str:
    """The text as code, on one line: for names and paths. In a table use `plain_text`."""
    shown = _one_line(text)
    fence = "`"
    while fence in shown:
        fence += "`"
    padding = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{fence}{padding}{shown}{padding}{fence}" if shown else ""


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; columns whose header ends in ":" are numbers."""
    ruler = ["--:" if name.endswith(":") else "---" for name in header]
    lines = [[name.removesuffix(":") for name in header], ruler, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run_link(run_id: str) -> str:
    """A link to a run; text, if that can be no run's id."""
    if not _RUN_ID.fullmatch(run_id):
        return plain_text(run_id[:8])
    return f"[{run_id[:8]}]({_url(f'/runs/{run_id}')})"


def launchpad_link(
    label: str, job: str, config: Mapping[str, Any], location: tuple[str, str] | None
) -> str:
    """A link to a job's launchpad, filled in with a config.

    Args:
        location: Names of the code location and of the repository; if None, the UI looks for the
            job in all locations.
    """
    place = f"/guess/{quote(job, safe='')}"
    if location is not None:
        name, repository = location
        at = "" if repository == _NO_REPOSITORY else f"{quote(repository, safe='')}@"
        place = f"/locations/{at}{quote(name, safe='')}/jobs/{quote(job, safe='')}"
    given = quote(_yaml(config), safe="")
    return f"[{plain_text(label)}]({_url(f'{place}/playground/setup?config={given}')})"


def _url(path: str) -> str:
    return quote(os.environ.get(URL_VARIABLE, "").rstrip("/"), safe=":/@%") + path


def _one_line(text: str) -> str:
    """The text without what cannot be seen, or would end the line."""
    return escape_unprintable(" ".join(text.split()))


def _yaml(config: Mapping[str, Any], indent: int = 0) -> str:
    """Config as the launchpad's editor shows it; values are JSON, which is YAML too."""
    lines = []
    for name, value in config.items():
        key = f"{' ' * indent}{name if name.isidentifier() else json.dumps(name)}:"
        if isinstance(value, Mapping) and value:
            lines.append(f"{key}\n{_yaml(value, indent + 2)}")
        else:
            lines.append(f"{key} {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)
