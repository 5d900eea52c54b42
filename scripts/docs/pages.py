"""Pages of the documentation site: their sources in the checkout, and the links between them.

The site holds `docs/`, files of the checkout that a page links to, and generated pages. A link in
a page leads to a file of the checkout, so that it works on GitHub too. On the site, `README.md`
is the home page, `docs/x.md` is `x.md`, and another file `x` is `checkout/x`. No MkDocs here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
HOME = "index.md"
_INDEX = "docs/README.md"
"""The list of pages for readers of the checkout; the site has its navigation instead."""
_LINK = re.compile(r"(?<!`)(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")


def page_of(source: str) -> str:
    """The page of the site that shows a file of the checkout."""
    if source in ("README.md", _INDEX):
        return HOME
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    return f"checkout/{source}"


def source_of(page: str) -> str:
    """The file of the checkout that a page of the site shows."""
    if page == HOME:
        return "README.md"
    if page.startswith("checkout/"):
        return page.removeprefix("checkout/")
    return f"docs/{page}"


def linked_sources(source: str) -> Iterator[str]:
    """Files and folders of the checkout that a page links to."""
    for link in _LINK.finditer((PROJECT / source).read_text()):
        if (target := link["target"]) and ":" not in target:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def sources_beside_docs() -> list[str]:
    """Files outside of `docs/` that a page of the site links to."""
    found: list[str] = []
    pending = [path.relative_to(PROJECT).as_posix() for path in (PROJECT / "docs").rglob("*.md")]
    pending.append("README.md")
    while pending:
        for source in linked_sources(pending.pop()):
            is_beside = page_of(source).startswith("checkout/")
            if is_beside and source not in found and (PROJECT / source).is_file():
                found.append(source)
                pending += [source] if source.endswith(".md") else []
    return sorted(found)


def adapt_links(markdown: str, page: str) -> str:
    """Replace links to files of the checkout by links to pages of the site.

    A link to a folder becomes plain text, because the site has no page for it.
    """
    source = source_of(page)

    def replace(link: re.Match[str]) -> str:
        target, anchor = link["target"], link["anchor"] or ""
        if not target or ":" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (PROJECT / path).is_dir():
            return link["text"].strip("[]")
        relative = posixpath.relpath(page_of(path), posixpath.dirname(page))
        return f"{link['text']}({relative}{anchor})"

    return _LINK.sub(replace, markdown)


def expand_navigation(entries: Sequence[Any]) -> list[Any]:
    """Replace each pattern, such as `decisions/*.md`, by the pages that match it, in order."""
    return [expanded for entry in entries for expanded in _expand_entry(entry)]


def _expand_entry(entry: Any) -> list[Any]:
    match entry:
        case str() if "*" in entry:
            docs = PROJECT / "docs"
            return [path.relative_to(docs).as_posix() for path in sorted(docs.glob(entry))]
        case dict():
            return [
                {title: expand_navigation(each) if isinstance(each, list) else each}
                for title, each in entry.items()
            ]
        case _:
            return [entry]


def pages_of(entries: Sequence[Any]) -> Iterator[str]:
    """All pages of an expanded navigation."""
    for entry in entries:
        match entry:
            case str():
                yield entry
            case dict():
                for each in entry.values():
                    yield from pages_of(each if isinstance(each, list) else [each])


def generated_pages() -> dict[str, Callable[[], str]]:
    """The text of each page that is made from the code, by its place on the site."""
    from scripts.docs.api_pages import api_pages
    from scripts.docs.command_page import command_page

    return {"reference/commands.md": command_page, **api_pages()}
