"""Foreign texts stay plain text in the UI's Markdown, and links have the right target."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.orchestration.markdown import (
    code_text,
    launchpad_link,
    plain_text,
    run_link,
    table_text,
)
from tests.orchestration.rendered_markdown import cells, links, plain_words, tokens

MARKUP = [
    pytest.param("a | b \\| c", id="pipes"),
    pytest.param("`x` ``y``` `", id="backticks"),
    pytest.param("[x](javascript:alert(1)) ![y](data:z) [z]: w", id="brackets"),
    pytest.param("<script>alert(1)</script> <https://evil.example> <!-- x", id="tags"),
    pytest.param("# x", id="a heading"),
    pytest.param("- x", id="a list"),
    pytest.param("12) x", id="a numbered list"),
    pytest.param("> x", id="a quotation"),
    pytest.param("---", id="a rule"),
    pytest.param("_a_ __b__ *c* ~~d~~ ~e~ a_b", id="emphasis"),
    pytest.param("&lt; &#60; \\& \\\\", id="entities and backslashes"),
]


@pytest.mark.parametrize("text", MARKUP)
def test_markup_of_others_is_shown_literally(text: str) -> None:
    assert plain_words(plain_text(text)) == text
    (row,) = cells(table_text(["x", "y"], [[plain_text(text), "1"]]))[1:]
    assert plain_words(row[0]) == text
    assert row[1] == "1"


@pytest.mark.parametrize("text", MARKUP)
def test_code_of_others_is_shown_literally(text: str) -> None:
    found = [
        each for each in tokens(f"removed {code_text(text)} and more") if each.children is None
    ]
    (code,) = [each for each in found if each.type == "code_inline"]
    assert code.content == text
    assert [each.content for each in found if each.type == "text"] == ["removed ", " and more"]


@given(st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_text_is_one_paragraph_without_markup(text: str) -> None:
    shown = plain_text(text)
    assert shown.isprintable()
    assert (plain_words(shown) is not None) is bool(text.split())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\nb\r\n\n c\t", "a b c", id="lines"),
        pytest.param("a\x1b[2J\u202eb\u200b", r"a\x1b[2J\u202eb\u200b", id="what cannot be seen"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_text_is_on_one_line_and_can_be_seen(text: str, shown: str) -> None:
    assert (plain_words(plain_text(text)) or "") == shown


def test_a_run_is_a_link_and_anything_else_is_text() -> None:
    run_id = "0f8e2c5a-1111-2222-3333-444455556666"
    assert run_link(run_id) == f"[0f8e2c5a](/runs/{run_id})"
    for other in ("javascript:alert(1)", "../../x", "a](http://evil.example)", "", "x" * 100):
        assert links(run_link(other)) == []


@pytest.mark.parametrize(
    ("location", "path"),
    [
        pytest.param(None, "/guess/upkeep/playground/setup", id="no location"),
        pytest.param(
            ("my code.py", "__repository__"),
            "/locations/my%20code.py/jobs/upkeep/playground/setup",
            id="a location",
        ),
        pytest.param(
            ("a/b", "lake"),
            "/locations/lake@a%2Fb/jobs/upkeep/playground/setup",
            id="a location and a repository",
        ),
    ],
)
def test_a_launchpad_link_holds_the_job_and_its_config(
    location: tuple[str, str] | None, path: str
) -> None:
    config: dict[str, Any] = {
        "ops": {
            "x": {"config": {"tables": ["a/b", 'é "q" & \\'], "dry_run": False, "1:": None, "n": 2}}
        }
    }
    (link,) = links(launchpad_link("Run (it) [now]", "upkeep", config, location))
    parts = urlsplit(link)
    assert parts.path == path
    assert yaml.safe_load(parse_qs(parts.query)["config"][0]) == config


def test_links_begin_with_the_address_of_the_ui(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTA_OPS_DAGSTER_URL", "https://lake.example/dagster/")
    assert links(run_link("0f8e2c5a-1111")) == ["https://lake.example/dagster/runs/0f8e2c5a-1111"]
