"""The site in Chromium, from file://: as a person uses it, with a mouse, with a keyboard, on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser import faults
from tests.nights.documents import nights
from tests.nights.test_site import HOSTILE
from triage.nightly.result import IssueDraft
from triage.nightly.store import NightStore
from triage.report.site import Site

pytestmark = pytest.mark.browser
NIGHTS = 20


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of 153 cases: `breaks` fails since the last night and is reduced, `slower` has a step, one name is hostile."""
    folder = tmp_path_factory.mktemp("site")
    draft = IssueDraft("input.mlir", "module @reduced {}\n", "compile input.mlir", "")
    histories = {f"case-{number:03}": "P" * NIGHTS for number in range(150)}
    histories |= {"breaks": "P" * (NIGHTS - 1) + "F", HOSTILE: "P" * 5 + "G" * (NIGHTS - 5), "slower": "P" * NIGHTS}
    store = NightStore(folder / "home")
    for at, record in enumerate(nights(histories)):
        slow = {"cpu_seconds": 2.0 if at < 10 else 3.0}
        cases = [replace(case, metrics=slow) if case.case == "slower" else case for case in record.cases]
        clusters = [
            replace(cluster, draft=draft, representative="breaks") for cluster in record.clusters if "breaks" in cluster.cases
        ]
        store.add(replace(record, cases=cases, clusters=clusters))
    Site(store, folder / "public").write()
    return folder / "public"


@pytest.fixture
def page(chromium: Any, site: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of a new profile. The test fails if its console has an error, or it loads anything that is not a file."""
    context = chromium.new_context(**{"viewport": {"width": 1200, "height": 800}, **getattr(request, "param", {})})
    page, problems = context.new_page(), []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith(("file:", "data:")) else problems.append(sent.url))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.goto((site / "index.html").as_uri())
    yield page
    context.close()
    assert problems == []


def shown(page: Any) -> list[str]:
    names: list[str] = page.locator("#grid li").all_text_contents()
    return names


def filtered(page: Any, count: int) -> None:
    page.get_by_role("status").filter(has_text=f"{count} of 153 cases").wait_for()


def test_from_the_overview_to_a_reproducer_and_back(page: Any) -> None:
    page.locator("#rates canvas").wait_for()
    page.get_by_role("region", name="New failures").get_by_role("link", name="legalize").click()
    assert page.get_by_text("module @reduced {}").is_visible()
    page.get_by_role("link", name="breaks").first.click()
    page.get_by_role("heading", name="breaks").wait_for()
    page.locator(".metric canvas").first.wait_for()
    assert page.locator("#state").inner_text().startswith("failed")
    page.get_by_role("link", name="legalize").click()
    page.get_by_text("module @reduced {}").wait_for()
    page.go_back()
    page.get_by_role("heading", name="breaks").wait_for()
    page.go_back()
    page.go_back()
    assert page.title().startswith("Overview")


def test_the_grid_is_filtered_sorted_and_searched(page: Any, site: Path) -> None:
    page.get_by_label("Find a case or a failure").fill("segfault")
    page.keyboard.press("Enter")
    filtered(page, 1)
    assert shown(page) == [HOSTILE.replace("\x1b", "\\u001b").replace("\u2028", "\\u2028")]
    page.get_by_role("button", name="Clear").click()
    filtered(page, 153)
    assert shown(page)[0] == "breaks"  # the newest failure comes first
    assert len(shown(page)) < 60
    page.get_by_label("Sort").select_option("name")
    page.get_by_label("Text").fill("case-0 5")
    filtered(page, 19)
    assert shown(page)[0] == "case-005"
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Class").select_option("legalize")
    filtered(page, 1)
    address = page.url
    page.get_by_role("link", name="breaks").click()
    page.go_back()
    filtered(page, 1)
    assert page.url == address


def test_the_grid_is_used_by_keyboard(page: Any, site: Path) -> None:
    page.goto((site / "grid.html").as_uri())
    filtered(page, 153)
    page.locator("#grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert "2026-01-19" in page.locator("#cell").inner_text()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('#grid').scrollTop > 2000")
    page.locator("#grid li.at").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="slower").wait_for()
    page.locator(".metric canvas").first.wait_for()
    assert "commits" in page.locator(".steps li").inner_text()


def test_pages_are_printed_whole_and_in_dark_ink(page: Any, site: Path) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    failure = next((site / "failures").iterdir()).name
    for name in ("index.html", "trends.html", f"failures/{failure}", "case.html#breaks", "grid.html"):
        page.goto((site / name).as_uri().replace("%23", "#"))
        page.wait_for_load_state("networkidle")
        red, green, blue = page.evaluate("getComputedStyle(document.body).color.match(/\\d+/g).map(Number)")
        assert max(red, green, blue) < 128, name
        assert not page.get_by_role("navigation").is_visible()
    filtered(page, 153)
    page.locator("#grid li").nth(152).wait_for()
    assert page.locator("#grid").bounding_box()["height"] == 153 * 20
    assert page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") > 2


def test_the_grid_keeps_its_place_when_the_window_changes(page: Any, site: Path) -> None:
    page.goto((site / "grid.html").as_uri())
    filtered(page, 153)
    page.evaluate("document.querySelector('#grid').scrollTop = 1000")
    page.locator("#grid").get_by_text("case-060").wait_for()
    page.set_viewport_size({"width": 700, "height": 800})
    page.wait_for_function("() => document.querySelector('#grid canvas').clientWidth < 700")
    assert page.evaluate("document.querySelector('#grid').scrollTop") == 1000


def test_tables_are_sorted(page: Any, site: Path) -> None:
    cells = page.locator("#open tbody tr td:first-child b")
    assert cells.all_text_contents() == ["legalize", "segfault"]
    page.locator("#open").get_by_role("button", name="age").click()
    assert cells.all_text_contents() == ["segfault", "legalize"]
    assert page.locator("#open th[aria-sort=descending]").count() == 1


def test_a_step_is_drawn(page: Any, site: Path) -> None:
    page.goto((site / "trends.html").as_uri())
    page.locator("#trend canvas").wait_for()
    assert page.locator("#steps tbody tr").count() == 1
    assert "+50.0 %" in page.locator("#steps tbody").inner_text()


@pytest.mark.parametrize(
    "page",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"color_scheme": "dark", "viewport": {"width": 360, "height": 700}}],
    indirect=True,
    ids=["light", "dark", "phone"],
)
def test_no_page_has_a_serious_accessibility_fault(page: Any, site: Path) -> None:
    failure = next((site / "failures").iterdir()).name
    for name in ("index.html", "grid.html", "trends.html", f"failures/{failure}", "case.html#breaks"):
        page.goto((site / name).as_uri().replace("%23", "#"))
        page.wait_for_load_state("networkidle")
        assert faults(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the window"
