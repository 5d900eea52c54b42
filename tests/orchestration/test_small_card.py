"""The small card: a picture that Dagster shows in place, so below 1,000 characters."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import cluster_by
from delta_ops.orchestration.card.small_card import MAX_LENGTH, small_card
from delta_ops.orchestration.markdown import place_link
from tests.orchestration.rendered_markdown import tokens

ROWS = pa.table({"day": ["a", "b"], "x": [1, 2]})


def texts(card: str) -> list[str]:
    """The texts in the picture of a card."""
    (found,) = re.findall(r"!\[[^]]*\]\(<data:image/svg\+xml,(.*)>\)", card)
    svg = ET.fromstring(unquote(found))
    return [str(each.text) for each in svg.iter("{http://www.w3.org/2000/svg}text")]


def card(root: Path, num_rows: int | None = 4) -> str:
    return small_card(DeltaLog(root).snapshot(), num_rows, is_placed=True)


def test_a_card_has_figures_and_a_picture(tmp_path: Path) -> None:
    for _ in range(2):
        da.write(tmp_path, ROWS)
    found = card(tmp_path)
    assert re.match(r"\*\*version 1, 4 rows, 2 files, [\d.]+ \w+\*\*\n\n!\[", found)
    assert [each.type for each in tokens(found) if each.type == "image"] == ["image"]
    assert texts(found)[0] == "Files by size: 2 small, 0 fine"
    assert "2 commits since checkpoint, limit 10" in texts(found)


@pytest.mark.parametrize(
    ("partition_by", "said"),
    [
        pytest.param([], "Files by size: 0 small, 1 fine", id="a single file"),
        pytest.param(["day"], "Files by size: 0 small, 2 fine", id="one in each partition"),
    ],
)
def test_a_small_file_without_a_partner_is_fine(
    tmp_path: Path, partition_by: list[str], said: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=partition_by)
    assert texts(card(tmp_path))[0] == said


def test_files_of_a_clustered_table_are_fine(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    cluster_by(tmp_path, ["x"])
    da.write(tmp_path, ROWS)
    assert texts(card(tmp_path))[0] == "Files by size: 0 small, 2 fine"


def test_an_empty_table_has_figures_alone(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS.slice(0, 0))
    assert card(tmp_path, None) == "**version 0, 0 files, 0 B**"


def test_a_card_may_say_where_the_table_is(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    first, picture = small_card(DeltaLog(tmp_path).snapshot(), 2).split("\n\n")
    assert first.partition("** in ")[2] == place_link(str(tmp_path))
    assert "data:image" in picture


def test_a_long_place_takes_the_room_of_the_picture(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["folders_of_the_lake" for _ in range(30)])
    da.write(root, ROWS)
    found = small_card(DeltaLog(root).snapshot(), 2)
    assert "data:image" not in found
    assert found.endswith(place_link(str(root)))


def test_files_of_all_sizes_fit_into_the_card(tmp_path: Path) -> None:
    """Files that exist only in the log, from bytes to terabytes."""
    da.write(tmp_path, ROWS)
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    (line,) = [each for each in text.splitlines() if '"add"' in each]
    path, size = re.findall(r'"path":"([^"]+)"', line)[0], re.findall(r'"size":(\d+)', line)[0]
    more = [
        line.replace(path, f"{power}-{number}-{path}").replace(
            f'"size":{size}', f'"size":{2**power}'
        )
        for power in range(1, 42)
        for number in range(power * 10)
    ]
    commit.write_text("\n".join([*text.splitlines(), *more]) + "\n")
    commit.with_suffix(".crc").unlink(missing_ok=True)
    found = card(tmp_path, 10**12)
    assert "data:image" in found
    assert len(found) <= MAX_LENGTH
