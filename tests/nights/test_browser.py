"""The site in Chromium, from file://: as a person uses it, with a mouse, with a
keyboard, on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser import faults
from tests.nights.documents import nightly_name, nights
from tests.nights.test_site import HOSTILE
from triage.nightly.store import NightStore
from triage.reduce.result import IssueDraft
from triage.report.site import Site
from triage.toolchains.home import Home

pytestmark = pytest.mark.browser
NIGHTS = 20


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of 153 cases: `breaks` fails since the last night and is reduced, `slower`
    has a step, one name is hostile.
    """
    folder = tmp_path_factory.mktemp("site")
    draft = IssueDraft(
        {"input.mlir": "module @reduced {}\n"}, "compile --flag=1 input.mlir"
    )
    histories = {f"case-{number:03}": "P" * NIGHTS for number in range(150)}
    histories |= {
        "breaks": "P" * (NIGHTS - 1) + "F",
        HOSTILE: "P" * 5 + "G" * (NIGHTS - 5),
        "slower": "P" * NIGHTS,
    }
    store = NightStore(Home(folder / "home"))
    for at, record in enumerate(nights(histories)):
        slow = 2.0 if at < 10 else 3.0
        cases = [
            replace(case, cpu_seconds=slow, source="slower.yaml")
            if case.case == "slower"
            else case
            for case in record.cases
        ]
        clusters = [
            replace(cluster, draft=draft, representative="breaks", owner="@ann")
            for cluster in record.clusters
            if "breaks" in cluster.cases
        ]
        store.add(replace(record, cases=cases, clusters=clusters))
    Site(store, folder / "public").write()
    return folder / "public"


@pytest.fixture
def page(chromium: Any, site: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of a new profile. The test fails if its console has an error, or it loads
    anything that is not a file.
    """
    context = chromium.new_context(
        **{"viewport": {"width": 1200, "height": 800}, **getattr(request, "param", {})}
    )
    page, problems = context.new_page(), []
    page.on(
        "console",
        lambda message: (
            problems.append(message.text)
            if message.type in ("error", "warning")
            else None
        ),
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda sent: (
            None
            if sent.url.startswith(("file:", "data:"))
            else problems.append(sent.url)
        ),
    )
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
    page.get_by_role("region", name="New failures").get_by_role(
        "link", name="legalize"
    ).click()
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


def test_the_search_finds_cases_failures_flags_and_commits(page: Any) -> None:
    find = page.get_by_label("Find a case, failure, flag or commit")
    find.fill("segfault")
    page.keyboard.press("Enter")
    found = page.locator("section[data-kind]:visible")
    page.get_by_role("status").filter(has_text="1 found").wait_for()
    assert [kind.split()[0] for kind in found.all_inner_texts()] == ["Failures"]
    for text, kind in (
        ("case-03", "Cases"),
        ("--flag", "Flags"),
        (nightly_name(NIGHTS), "Commits"),
    ):
        find.fill(text)
        page.get_by_role("status").filter(has_text=f"found for {text}").wait_for()
        assert found.first.inner_text().split()[0] == kind, text
    page.locator("section[data-kind=commit] a").first.click()
    page.get_by_text("2026-01-").first.wait_for()
    assert page.title().startswith("Grid")


def test_only_the_failures_of_one_owner_are_shown_also_next_time(page: Any) -> None:
    row = page.locator("#new tbody tr")
    page.get_by_label("Mine").select_option("-")
    row.wait_for(state="hidden")
    page.reload()
    assert not row.is_visible()
    page.get_by_label("Mine").select_option("@ann")
    row.wait_for()


def test_a_step_shows_its_range_and_its_command_with_the_keyboard(
    page: Any, site: Path
) -> None:
    page.goto((site / "case.html").as_uri() + "#slower")
    step = page.get_by_role("button", name="2 to 3 s")
    step.focus()
    page.keyboard.press("Enter")
    page.get_by_text("Between 2026-01-10").wait_for()
    command = page.locator(".block pre", has_text="triage bisect slower.yaml")
    assert f"--metric cpu_seconds --good {nightly_name(10)}" in command.inner_text()
    assert page.locator(".block:has(button.copy):visible").count() == 1
    page.locator("#strip").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text(f"2026-01-{NIGHTS - 1}, 3.10.0rc").first.wait_for()


def test_the_grid_is_filtered_and_sorted(page: Any, site: Path) -> None:
    page.goto((site / "grid.html").as_uri())
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


@pytest.mark.parametrize(
    "page",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"color_scheme": "dark", "viewport": {"width": 320, "height": 700}},
        {"reduced_motion": "reduce", "viewport": {"width": 1600, "height": 900}},
    ],
    indirect=True,
    ids=["light", "dark", "phone", "wide"],
)
def test_no_page_has_an_accessibility_fault(page: Any, site: Path) -> None:
    failure = next((site / "failures").iterdir()).name
    for name in (
        "index.html",
        "grid.html",
        "trends.html",
        "nights.html",
        "search.html?text=segfault",
        f"failures/{failure}",
        "case.html#breaks",
    ):
        page.goto((site / name).as_uri().replace("%23", "#").replace("%3F", "?"))
        page.wait_for_load_state("networkidle")
        assert faults(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            f"{name} is wider than the window"
        )
