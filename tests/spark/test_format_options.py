"""The options of `format("delta")`, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.delta_format.options import OPTIONS, Option, Options, Use, options_for

PAGE = Path(__file__).parents[2] / "docs" / "format-delta.md"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda each: each.name)
def test_the_page_lists_each_option(option: Option) -> None:
    table = PAGE.read_text().partition("## Options")[2].partition("## Methods")[0]
    assert f"`{option.name}`" in table
    assert not option.used_by & option.refused_by
    assert bool(option.refused_by) == bool(option.cure)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("1k", 1024), ("10G", 10 << 30), ("5mb", 5 << 20), ("7b", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert Options({"maxbytespertrigger": ("", text)}).size("maxBytesPerTrigger") == size


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5g"])
def test_texts_that_are_no_size_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="512m"):
        Options({"maxbytespertrigger": ("", text)}).size("maxBytesPerTrigger")


def test_an_option_that_is_not_supported_is_refused_with_what_to_do_instead() -> None:
    data = {"replacewhere": ("replaceWhere", "id = 1")}
    assert options_for(Use.WRITE, data).text("replaceWhere") == "id = 1"
    with pytest.raises(InvalidRequestError, match="foreachBatch"):
        options_for(Use.STREAM_WRITE, data)


def test_properties_are_distinguished_from_settings_of_hadoop() -> None:
    data = {
        "delta.appendonly": ("delta.appendOnly", "true"),
        "delta.minreaderversion": ("delta.minReaderVersion", "2"),
        "fs.s3a.endpoint": ("fs.s3a.endpoint", "http://127.0.0.1:9000"),
    }
    options = options_for(Use.WRITE, data)
    assert options.properties() == {"delta.appendOnly": "true", "delta.minReaderVersion": "2"}
    assert options.hadoop_settings() == {"fs.s3a.endpoint": "http://127.0.0.1:9000"}
