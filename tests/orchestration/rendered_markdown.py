"""Markdown as GitHub renders it, with HTML: the UI allows less."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token


class _Reader(MarkdownIt):
    """Accepts links to any address, so that tests see the bad links."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the reader's own name
        return bool(url)


_READER = _Reader("commonmark").enable(["table", "strikethrough"])


def tokens(text: str) -> Iterator[Token]:
    """All tokens, those within lines among them."""
    for token in _READER.parse(text):
        yield token
        yield from token.children or ()


def links(text: str) -> list[str]:
    """Targets of the links."""
    return [str(each.attrs["href"]) for each in tokens(text) if each.type == "link_open"]


def images(text: str) -> dict[str, str]:
    """Sources of images by their alternative texts."""
    return {each.content: str(each.attrs["src"]) for each in tokens(text) if each.type == "image"}


def cells(text: str) -> list[list[str]]:
    """The rows of the tables, header first, as Markdown."""
    rows: list[list[str]] = []
    is_cell = False
    for token in _READER.parse(text):
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline" and is_cell:
            rows[-1].append(token.content)
        is_cell = token.type in ("th_open", "td_open")
    return rows


def plain_words(text: str) -> str | None:
    """The shown text if it is one paragraph without markup; None otherwise."""
    found = list(tokens(text))
    if [each.type for each in found if each.block] != [
        "paragraph_open",
        "inline",
        "paragraph_close",
    ]:
        return None
    inline = [each for each in found if not each.block]
    if any(each.type not in ("text", "text_special") for each in inline):
        return None
    return "".join(each.content for each in inline)
