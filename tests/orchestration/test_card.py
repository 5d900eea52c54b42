"""The card of a table: its texts, its pictures, and tables with hostile texts."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.orchestration import table_card
from delta_ops.orchestration.card.plots import CommitPoint, commit_plot, file_size_plot, log_plot
from tests.orchestration.rendered_markdown import cells, images, links, tokens

PROJECT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
RUN = "0f8e2c5a-1111-2222-3333-444455556666"
HOSTILE = [
    pytest.param("a|b|c", id="pipes"),
    pytest.param("`" * 7, id="backticks"),
    pytest.param("[x](javascript:alert(1))", id="brackets"),
    pytest.param("x\n\n# y\n| z |", id="lines"),
    pytest.param("<script>alert(1)</script>", id="a script"),
    pytest.param("]]></title><image href='http://evil.example'/>", id="svg"),
    pytest.param("https://evil.example www.evil.example x@evil.example", id="addresses"),
    pytest.param("\x1b[2J\u202e\u200b", id="what cannot be seen"),
    pytest.param("__a__ ~~b~~ &lt; \\", id="emphasis"),
    pytest.param("W" * 5000, id="a long one"),
]


def commit(root: Path, **info: Any) -> None:
    """An append of a small file."""
    da.write(root, pa.table({"x": [1, 2, 3]}), **info)


def pictures(card: str) -> dict[str, ET.Element]:
    """The SVGs of a card, by their alternative texts."""
    found = {}
    for text, source in images(card).items():
        kind, _, data = source.partition(",")
        assert kind == "data:image/svg+xml;base64"
        found[text] = ET.fromstring(base64.b64decode(data))
    return found


def shown(svg: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in svg.iter(f"{SVG}text")]


def colours(svg: ET.Element, kind: str) -> list[str | None]:
    return [each.get("fill") for each in svg.iter(f"{SVG}{kind}")]


def test_a_card_shows_the_state_of_the_table(tmp_path: Path) -> None:
    for _ in range(12):
        commit(tmp_path)
    card = table_card(tmp_path)
    assert f"`{tmp_path}`" in card
    assert "version **11** · 12 files, " in card
    assert " · 36 rows · " in card
    assert "- **due**, small files: optimize: small files of a partition can be compacted" in card
    assert list(pictures(card)) == [
        "Files by size: 12 to compact, 0 large enough",
        next(text for text in images(card) if text.startswith("Commits: the last 12, ")),
        "Log: checkpoint 10, commits since then: 1, a checkpoint is due after 10; versions 0 to 11",
    ]


def test_a_card_of_one_file_says_so(tmp_path: Path) -> None:
    commit(tmp_path)
    card = table_card(tmp_path)
    assert "version **0** · 1 file, " in card
    assert " · 3 rows · log " in card


def test_recent_commits_link_to_their_runs(tmp_path: Path) -> None:
    commit(tmp_path, user_metadata=json.dumps({"dagster/run_id": RUN}))
    commit(tmp_path)
    optimize(tmp_path)
    card = table_card(tmp_path, commits=2)
    header, newest, appended = cells(card)
    assert header == ["version", "time (UTC)", "operation", "rows", "files", "run"]
    assert [*newest[:1], *newest[2:]] == ["2", "OPTIMIZE", newest[3], "+1 -2", ""]
    assert [*appended[:1], *appended[2:]] == ["1", "WRITE", "+3", "+1", ""]
    assert links(card) == []
    assert links(table_card(tmp_path)) == [f"/runs/{RUN}"]


def test_a_card_is_small(tmp_path: Path) -> None:
    for number in range(60):
        commit(tmp_path, user_metadata=json.dumps({"dagster/run_id": RUN, "n": number}))
    assert len(table_card(tmp_path).encode()) < 12_000


def test_a_table_without_files_and_one_without_history_have_cards(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"x": pa.array([], pa.int64())}))
    create_checkpoint(tmp_path)
    assert len(pictures(table_card(tmp_path))) >= 2
    for each in (tmp_path / "_delta_log").glob("*0.json"):
        each.unlink()
    assert list(pictures(table_card(tmp_path)))[-1].startswith("Log: checkpoint 0")
    assert cells(table_card(tmp_path)) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_log_becomes_markup(tmp_path: Path, text: str) -> None:
    name = "".join(c for c in text if c not in "/\n")[:60].strip() or "t"
    place = tmp_path / name
    commit(place, user_metadata=json.dumps({"dagster/run_id": text}))
    commit(place)
    newest = place / "_delta_log" / f"{1:020d}.json"
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    (info,) = [line["commitInfo"] for line in lines if "commitInfo" in line]
    info |= {"operation": text, "userMetadata": text, "engineInfo": text}
    info["operationMetrics"] = {"numOutputRows": text, "numFiles": "9" * 5000}
    newest.write_text("\n".join(map(json.dumps, lines)))
    card = table_card(place)
    assert links(card) == []
    kinds = {each.type for each in tokens(card)}
    assert not kinds & {"html_inline", "html_block", "fence", "code_block", "s_open"}
    assert all(len(row) == 6 for row in cells(card))
    assert len(cells(card)) == 3
    assert card.replace("\n", "").isprintable()
    for svg in pictures(card).values():
        assert {each.tag.removeprefix(SVG) for each in svg.iter()} <= {
            "svg",
            "title",
            "text",
            "rect",
            "circle",
            "path",
            "tspan",
        }
    assert len(card) < 12_000
    words = cells(card)[1][2]
    assert "evil.example" not in words


def test_small_files_are_highlighted_in_the_plot() -> None:
    svg = ET.fromstring(file_size_plot([10, 2000, 2**21, 2**28], 2**20).svg)
    bad, good = colours(svg, "tspan")
    assert Counter(colours(svg, "rect")) == {bad: 2, good: 2}
    assert {"■ 2 to compact\u2003■ 2 large enough", "1 KiB", "1 MiB", "256 MiB"} <= set(shown(svg))


@pytest.mark.parametrize(
    ("sizes", "enough"),
    [
        pytest.param([0], 1, id="an empty file"),
        pytest.param([2**60], 2**40, id="a huge file"),
        pytest.param([1, 2**50], 2**27, id="from a byte to a petabyte"),
        pytest.param([5] * 10_000, 2**27, id="many files"),
    ],
)
def test_every_file_is_in_a_bar_of_the_plot(sizes: list[int], enough: int) -> None:
    svg = ET.fromstring(file_size_plot(sizes, enough).svg)
    bars = list(svg.iter(f"{SVG}rect"))
    assert all(0 < float(str(bar.get("height"))) <= 88 for bar in bars)
    assert all(0 <= float(str(bar.get("x"))) < 620 for bar in bars)
    counts = [int(text.replace(",", "")) for text in shown(svg) if text.replace(",", "").isdigit()]
    assert sum(counts) == len(sizes)


def test_the_rarest_operations_share_a_lane() -> None:
    operations = ["WRITE"] * 5 + ["MERGE"] * 4 + ["A", "B", "C", "D", "E"]
    points = [CommitPoint(timestamp_ms=1000 * n, operation=o) for n, o in enumerate(operations)]
    svg = ET.fromstring(commit_plot(points).svg)
    paths = [str(each.get("d")) for each in svg.iter(f"{SVG}path")]
    assert len(paths) == 5 + 1
    assert paths[-1].count("h0") == len(points)
    assert "others" in shown(svg)


@pytest.mark.parametrize(
    ("checkpoint", "latest", "is_overdue"),
    [
        pytest.param(None, 0, False, id="one commit and no checkpoint"),
        pytest.param(None, 12, True, id="many commits and no checkpoint"),
        pytest.param(3, 3, False, id="nothing after the checkpoint"),
        pytest.param(3, 12, False, id="not yet due"),
        pytest.param(3, 13, True, id="due"),
    ],
)
def test_an_overdue_checkpoint_is_highlighted(
    checkpoint: int | None, latest: int, is_overdue: bool
) -> None:
    plot = log_plot(earliest=0, checkpoint=checkpoint, latest=latest, interval=10)
    svg = ET.fromstring(plot.svg)
    usual = ET.fromstring(log_plot(earliest=0, checkpoint=0, latest=1, interval=10).svg)
    assert (colours(svg, "rect")[-1] != colours(usual, "rect")[-1]) is is_overdue
    assert ("commits to replay" in " ".join(shown(svg))) is is_overdue
    assert all(float(str(each.get("width"))) >= 0 for each in svg.iter(f"{SVG}rect"))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("background", ["#ffffff", "#0f1116"], ids=["light", "dark"])
def test_plots_can_be_read_on_light_and_on_dark(background: str) -> None:
    plots = [
        file_size_plot([1, 2**30], 2**20),
        commit_plot([CommitPoint(timestamp_ms=0, operation="OPTIMIZE")]),
        log_plot(earliest=0, checkpoint=2, latest=20, interval=10),
    ]
    for plot in plots:
        for each in ET.fromstring(plot.svg).iter():
            for colour in filter(None, {each.get("fill"), each.get("stroke")}):
                one, other = sorted((luminance(colour), luminance(background)))
                least = 4 if each.tag == f"{SVG}text" else 3
                assert (other + 0.05) / (one + 0.05) >= least, colour


def test_the_examples_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = (PROJECT / "docs" / "checks-and-cards.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks)
    exec(
        compile(code, "docs/checks-and-cards.md", "exec", dont_inherit=True),
        {"__name__": "__main__"},
    )
