"""Dagster's UI as a user sees and clicks it, in a real browser.

Screenshots go to the folder in the environment variable SCREENSHOTS, else to the test's own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.job_base import RepoBackedJob
from dagster._core.execution.api import execute_run
from deltalake import DeltaTable, write_deltalake
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

import delta_ops.arrow as da
from delta_ops.maintenance import maintain
from delta_ops.orchestration import maintenance_config
from tests.browser.dagster_ui import DagsterUI, open_chromium

COMMITS = 12
ROWS = pa.table({"country": ["BE", "DE", "NL"], "amount": [10, 20, 30]})
WAIT_MS = 120_000
SIZE: ViewportSize = {"width": 1280, "height": 1100}
JOB = "/locations/shop/jobs/delta_maintenance"
SENSOR = """
query ($name: String!) {
  sensorOrError(sensorSelector: {
    sensorName: $name, repositoryName: "__repository__", repositoryLocationName: "shop"
  }) {
    ... on Sensor { sensorState { typeSpecificData { ... on SensorData { lastCursor } } } }
  }
}
"""
RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status parentRunId } } }"
NEWEST = """
{
  assetOrError(assetKey: {path: ["orders"]}) {
    ... on Asset {
      assetMaterializations(limit: 1) {
        metadataEntries { label ... on IntMetadataEntry { intValue } }
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterUI]:
    """A shop whose orders table has many small files, in Dagster's UI."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DELTA_OPS_TEST_LAKE", str(home / "lake"))
        from tests.browser import location

        served = DagsterUI(home, Path(location.__file__), location.LOCATION)
        # Created first, because two processes cannot create Dagster's databases at once.
        fill(home, location.defs, location.ASSETS)
        with served.serving():
            served.wait_until(served.is_up)
            yield served


def fill(home: Path, defs: dg.Definitions, assets: Sequence[dg.AssetsDefinition]) -> None:
    """Make small commits, run the checks, and maintain returns."""
    orders, returns = (next(a for a in assets if a.key.path == [n]) for n in ("orders", "returns"))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for name in ("orders", "returns"):
            for _ in range(COMMITS - 4):
                da.write(home / "lake" / name, ROWS, hooks=())
        for _ in range(3):  # some points of a plot
            dg.materialize([orders, returns], instance=instance, resources=defs.resources)
        everything = defs.resolve_implicit_global_asset_job_def()
        assert everything.execute_in_process(instance=instance).success
        job = RepoBackedJob("delta_maintenance", defs.get_repository_def())
        config = maintenance_config(["returns"])
        run = instance.create_run_for_job(job.get_definition(), run_config=config)
        assert execute_run(job, run, instance).success


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    with open_chromium() as opened:
        yield opened


@pytest.fixture
def page(ui: DagsterUI, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(base_url=ui.url, viewport=SIZE)
    context.set_default_timeout(WAIT_MS)
    yield context.new_page()
    context.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(
    ("asset", "healthy", "figures"),
    [
        pytest.param("orders", False, f"version {COMMITS - 1}, 36 rows, 12 files", id="in need"),
        pytest.param(
            "returns",
            True,
            f"version {COMMITS - 1}, 36 rows, 12 files",
            id="maintained",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "revenue", True, "version 0, 3 rows, 1 file,", id="new", marks=pytest.mark.full
        ),
    ],
)
def test_an_asset_page_shows_the_table_at_first_sight(
    ui: DagsterUI, page: Page, screenshots: Path, asset: str, healthy: bool, figures: str
) -> None:
    page.goto(f"/assets/{asset}?view=overview")
    expect(page.get_by_text("Latest materialization")).to_be_visible()
    card = row(page, "delta/card")
    expect(card).to_contain_text(figures)
    picture = card.locator("img[src^='data:image/svg+xml']")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 208
    # The definition shows the place, or else the card. The page hides the place of events.
    place = str(ui.home / "lake" / asset)
    expect(page.get_by_text(place, exact=True)).to_have_count(0 if asset == "revenue" else 1)
    shows_place = expect(card.locator("p").first)
    (shows_place.to_contain_text if asset == "revenue" else shows_place.not_to_contain_text)(place)
    assert card.evaluate("row => row.closest('table').parentElement.scrollWidth") <= card.evaluate(
        "row => row.closest('table').parentElement.clientWidth"
    )  # the whole table is in sight
    expect(page.get_by_text("string", exact=True).first).to_be_visible()
    expect(page.get_by_text("bigint", exact=True).first).to_be_visible()
    expect(row(page, "delta/num_files")).to_be_visible()
    for key in ("adopted", "already_committed", "commit_attempts", "commits", "bytes_saved"):
        expect(page.get_by_role("cell", name=f"delta/{key}", exact=True)).to_have_count(0)
    page.screenshot(path=screenshots / f"{asset}.png", animations="disabled")  # docs/images
    page.set_viewport_size({"width": 800, "height": 1200})
    page.screenshot(path=screenshots / f"{asset}-narrow.png", animations="disabled")

    page.set_viewport_size(SIZE)
    page.goto(f"/assets/{asset}?view=checks&checkDetail=health")
    expect(page.get_by_text("Latest execution")).to_be_visible()
    expect(page.get_by_text("Passed" if healthy else "Failed", exact=True).first).to_be_visible()
    page.screenshot(path=screenshots / f"{asset}-checks.png", animations="disabled")


@pytest.mark.full
def test_an_asset_page_has_plots_of_the_table(page: Page, screenshots: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 1250})
    page.goto("/assets/orders?view=overview")
    page.get_by_role("button", name="Plots").click()
    for name in ("dagster/size_bytes", "delta/num_files", "delta/rows_written"):
        expect(page.get_by_text(name, exact=True).first).to_be_attached()
    expect(page.locator("canvas").nth(3)).to_be_attached()
    page.screenshot(path=screenshots / "plots.png", animations="disabled")


def test_an_own_check_is_beside_health_and_health_links_to_its_cure(
    page: Page, screenshots: Path
) -> None:
    page.goto("/assets/orders?view=checks")
    expect(page.get_by_text("Checks (2)")).to_be_visible()
    expect(page.get_by_text("No order has a negative amount.")).to_be_visible()
    page.get_by_text("health", exact=True).first.click()
    found = page.get_by_text("12 small files, limit 10")
    expect(found.first).to_be_visible()
    expect(page.get_by_text("12 commits since the last checkpoint, limit 10").first).to_be_visible()
    page.screenshot(path=screenshots / "checks.png", animations="disabled")
    page.get_by_role("link", name="Open the launchpad to run optimize, checkpoint").first.click()
    expect(page.get_by_role("button", name="Launch Run")).to_be_visible()
    expect(page.get_by_text("optimize").first).to_be_visible()


@pytest.mark.full
def test_a_maintained_table_says_in_a_sentence_what_was_done(page: Page, screenshots: Path) -> None:
    page.goto("/assets/returns?view=events")
    sentence = re.compile(r"Compacted 12 files \(.* KiB\) into 1 \(.* B\) and wrote a checkpoint\.")
    expect(page.get_by_text(sentence).first).to_be_visible()
    expect(row(page, "delta/rewritten_into_files", 1)).to_be_visible()
    page.screenshot(path=screenshots / "observation.png", animations="disabled")
    page.get_by_text("[Show Markdown]").first.click()
    card = page.get_by_role("dialog")
    expect(card.get_by_role("table").first).to_be_visible()
    expect(card.locator("img[src^='data:image/svg+xml']").first).to_be_visible()
    page.screenshot(path=screenshots / "card.png", animations="disabled")
    page.keyboard.press("Escape")
    page.get_by_role("img", name="run_success").first.click()
    page.get_by_role("button", name="Show tags").click()
    expect(page.get_by_text(re.compile(rf"[0-9a-f]{{8}}@{COMMITS - 1}")).first).to_be_visible()


def test_a_launchpad_describes_its_fields(page: Page, screenshots: Path) -> None:
    page.goto(f"{JOB}/playground/setup")
    expect(page.get_by_role("button", name="Launch Run")).to_be_visible()
    page.get_by_text("maintain_tables").first.click()
    expect(page.get_by_text("dry_run").first).to_be_visible()
    # The defaults name what they choose, because a description is visible only on hover.
    editor = page.locator(".CodeMirror-code").first
    expect(editor.get_by_text("- due", exact=False).first).to_be_visible()
    expect(editor.get_by_text("- '*'", exact=False).first).to_be_visible()
    expect(editor.get_by_text("[]")).to_have_count(0)
    expect(editor.get_by_text("{}")).to_have_count(0)
    expect(page.get_by_text("handover")).to_have_count(0)
    page.screenshot(path=screenshots / "launchpad.png", animations="disabled")


@pytest.mark.full
def test_maintenance_is_launched_by_clicks_and_executed_again(
    ui: DagsterUI, page: Page, screenshots: Path
) -> None:
    config = "ops:\n  maintain_tables:\n    config:\n      tables: [orders]\n"
    page.goto(f"{JOB}/playground/setup?config={quote(config)}")
    page.get_by_role("button", name="Launch Run").click()
    first = finished_run(ui, page, after="")
    page.screenshot(path=screenshots / "run.png", animations="disabled")
    page.goto("/assets/orders?view=events")
    expect(row(page, "delta/compacted_files", COMMITS)).to_be_visible()
    page.screenshot(path=screenshots / "maintained.png", animations="disabled")
    page.goto("/assets/orders?view=checks&checkDetail=health")
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()
    assert len(orders_table(ui).file_uris()) == 1
    assert orders_table(ui).version() == COMMITS

    page.goto(f"/runs/{first}")
    page.get_by_role("button", name="Re-execute all").click()
    again = finished_run(ui, page, after=first)
    assert ui.query(RUN, id=again)["runOrError"]["parentRunId"] == first
    assert orders_table(ui).version() == COMMITS  # nothing was left to do


@pytest.mark.full
def test_a_sensor_that_is_switched_on_reports_a_foreign_commit(
    ui: DagsterUI, page: Page, screenshots: Path
) -> None:
    maintain(ui.home / "lake" / "orders")  # the health check is about the foreign commit alone
    page.goto("/locations/shop/sensors/quick")
    row(page, "Running").locator("label").click()
    ui.wait_until(lambda: sensor_cursor(ui, "quick"))
    rows = pa.table({"country": ["FR"], "amount": [40]})
    write_deltalake(ui.home / "lake" / "orders", rows, mode="append")
    version = orders_table(ui).version()
    ui.wait_until(lambda: newest_version(ui) == version)
    page.screenshot(path=screenshots / "sensor.png", animations="disabled")
    page.goto("/assets/orders?view=events")
    expect(row(page, "delta/version", version)).to_be_visible()
    page.screenshot(path=screenshots / "foreign.png", animations="disabled")
    page.goto("/assets/orders?view=checks&checkDetail=health")
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()
    page.goto("/locations/shop/asset-groups/shop")
    expect(page.get_by_text("1 / 2 Passed")).to_be_visible()  # the user's check did not run yet
    page.screenshot(path=screenshots / "lineage.png", animations="disabled")


def row(page: Page, key: str, value: object = "") -> Locator:
    """The first row of a table with this key, and with this value if one is given."""
    found = page.get_by_role("row").filter(has=page.get_by_role("cell", name=key, exact=True))
    if value != "":
        found = found.filter(has=page.get_by_role("cell", name=str(value), exact=True))
    return found.first


def finished_run(ui: DagsterUI, page: Page, *, after: str) -> str:
    """The run on the browser's current page, after the page shows its success."""
    page.wait_for_url(lambda url: "/runs/" in url and (not after or after not in url))
    run_id = re.split(r"/runs/|\?", page.url)[1]
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()
    assert ui.query(RUN, id=run_id)["runOrError"]["status"] == "SUCCESS"
    return run_id


def orders_table(ui: DagsterUI) -> DeltaTable:
    return DeltaTable(ui.home / "lake" / "orders")


def sensor_cursor(ui: DagsterUI, name: str) -> str | None:
    sensor = ui.query(SENSOR, name=name)["sensorOrError"]
    cursor: str | None = (sensor["sensorState"]["typeSpecificData"] or {}).get("lastCursor")
    return cursor


def newest_version(ui: DagsterUI) -> int | None:
    """The version of the newest materialization."""
    (event,) = ui.query(NEWEST)["assetOrError"]["assetMaterializations"]
    values = {each["label"]: each.get("intValue") for each in event["metadataEntries"]}
    version: int | None = values["delta/version"]
    return version
