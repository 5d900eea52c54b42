"""Hooks of MkDocs: add generated pages, expand the navigation, and adapt links to the site."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.files import File
from pymdownx.slugs import slugify

from scripts.docs.pages import (
    HOME,
    PROJECT,
    adapt_links,
    expand_navigation,
    generated_pages,
    page_of,
    sources_beside_docs,
)

_RECORDS = ("decisions/", "measurements/", "checkout/benchmarks/")
"""Pages that a search lists after guides and references."""


def on_config(config: Any) -> Any:
    """Expand patterns of the navigation, and name anchors as GitHub does."""
    config.nav = expand_navigation(config.nav)
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the home page, files beside `docs/` that pages link to, and generated pages."""
    for source in ("README.md", *sources_beside_docs()):
        path = PROJECT / source
        files.append(File.generated(config, page_of(source), abs_src_path=str(path)))
    for page, text in generated_pages().items():
        files.append(File.generated(config, page, content=text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to pages of the site, and rank records low in a search."""
    source = page.file.src_uri
    if source.startswith(_RECORDS):
        page.meta.setdefault("search", {"boost": 0.2})
    if source != HOME and page.file.generated_by and not source.startswith("checkout/"):
        return markdown
    return adapt_links(markdown, source)
