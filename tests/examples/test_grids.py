"""The example of arrays: days of a grid, and the plot of their means."""

from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree as ET

import dagster as dg
import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray")

from delta_ops.orchestration import DeltaArrayIOManager
from examples.grids import daily_temperatures, temperatures


@pytest.mark.full
def test_the_plot_has_a_point_for_each_day(tmp_path: Path) -> None:
    resources = {"io_manager": DeltaArrayIOManager(root=str(tmp_path))}
    with dg.DagsterInstance.ephemeral() as instance:
        for day in ("2026-01-02", "2026-01-05"):
            dg.materialize(
                [temperatures], partition_key=day, resources=resources, instance=instance
            )
        result = dg.materialize(
            [temperatures, daily_temperatures],
            selection=[daily_temperatures],
            resources=resources,
            instance=instance,
        )
    (event,) = result.asset_materializations_for_node("daily_temperatures")
    text = str(event.metadata["plot"].value)
    picture = ET.fromstring(b64decode(text.partition("base64,")[2].rstrip(")")))
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == 2
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[2:] == ["2026-01-02", "2026-01-05"]
