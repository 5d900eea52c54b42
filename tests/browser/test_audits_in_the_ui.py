"""A failed audit, its branch and the publication, as a user sees and clicks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

import delta_ops.arrow as da
from delta_ops.versioning import list_branches
from tests.browser.dagster_ui import DagsterUI, open_chromium

pytestmark = pytest.mark.full

WAIT_MS = 120_000
SIZE: ViewportSize = {"width": 1280, "height": 1100}
JOB = "/locations/audits/jobs/publish_visits"
RUNS = "{ runsOrError { ... on Runs { results { status } } } }"


@pytest.fixture
def ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterUI]:
    monkeypatch.setenv("DELTA_OPS_TEST_LAKE", str(tmp_path / "lake"))
    from tests.browser import audited_location

    (tmp_path / "lake").mkdir()
    served = DagsterUI(tmp_path, Path(audited_location.__file__), audited_location.LOCATION)
    with served.serving():
        served.wait_until(served.is_up)
        yield served


@pytest.fixture
def page(ui: DagsterUI) -> Iterator[Page]:
    expect.set_options(timeout=WAIT_MS)
    with open_chromium() as browser:
        context = browser.new_context(base_url=ui.url, viewport=SIZE)
        context.set_default_timeout(WAIT_MS)
        yield context.new_page()
        context.close()


def test_a_failed_check_names_the_branch_and_a_later_run_publishes(
    ui: DagsterUI, page: Page
) -> None:
    table = ui.home / "lake" / "visits"
    launch(ui, page, "FAILURE")
    (branch,) = list_branches(table)
    assert da.count_rows(table) == 0
    page.goto("/assets/new_visits?view=checks&checkDetail=has_right_pages")
    expect(page.get_by_text("Failed", exact=True).first).to_be_visible()
    expect(page.get_by_role("cell", name=branch.name, exact=True).first).to_be_visible()
    expect(page.get_by_role("cell", name="delta/read_branch", exact=True).first).to_be_visible()
    page.goto("/assets/new_visits?view=events")
    expect(page.get_by_text(branch.name).first).to_be_visible()

    (ui.home / "lake" / "is_right").touch()
    launch(ui, page, "FAILURE", "SUCCESS")
    assert da.count_rows(table) == 2
    page.goto("/assets/visits?view=events")
    expect(page.get_by_role("cell", name="delta/version", exact=True).first).to_be_visible()
    page.goto("/assets/new_visits?view=checks&checkDetail=has_right_pages")
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()


def launch(ui: DagsterUI, page: Page, *outcomes: str) -> None:
    """Launch a run of all assets by a click, and wait until all runs have ended this way."""
    page.goto(JOB)
    page.get_by_role("button", name="Materialize all").click()
    wanted = sorted(outcomes)
    ui.wait_until(
        lambda: sorted(run["status"] for run in ui.query(RUNS)["runsOrError"]["results"]) == wanted
    )
