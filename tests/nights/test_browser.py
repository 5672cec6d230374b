"""The site in Chromium, from file://: as a person uses it, with a mouse, on a
phone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser import faults
from tests.nights.documents import nightly_name, nights
from tests.nights.test_site import DONE, HOSTILE
from triage.nightly.store import NightStore
from triage.reduce.result import IssueDraft
from triage.report.site import build_site
from triage.toolchains.home import Home

pytestmark = pytest.mark.browser
NIGHTS = 20
DRAFT = IssueDraft(
    {"input.mlir": "module @reduced {}\n"}, "compile --flag=1 input.mlir"
)


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of 153 cases: `breaks` fails since the last night and is reduced, `slower`
    has a step, one name is hostile.
    """
    folder = tmp_path_factory.mktemp("site")
    histories = {f"case-{number:03}": "P" * NIGHTS for number in range(150)}
    histories |= {
        "breaks": "P" * (NIGHTS - 1) + "F",
        HOSTILE: "P" * 5 + "G" * (NIGHTS - 5),
        "slower": "P" * NIGHTS,
    }
    store = NightStore(Home(folder / "home"))
    for at, record in enumerate(nights(histories)):
        cases = record.cases
        cases[-1] = replace(cases[-1], cpu_seconds=2.0 if at < 10 else 3.0)
        clusters = [
            replace(cluster, draft=DRAFT, representative="breaks", steps=[DONE])
            for cluster in record.clusters
            if "breaks" in cluster.cases
        ]
        store.add(replace(record, clusters=clusters))
    build_site(store, folder / "public")
    return folder / "public"


@pytest.fixture
def page(chromium: Any, public: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of a new profile. The test fails if its console has a message, or it loads
    anything that is not a file.
    """
    options = getattr(request, "param", {})
    context = chromium.new_context(
        **{"viewport": {"width": 1200, "height": 800}, **options}
    )
    page, problems = context.new_page(), list[str]()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda sent: problems.append(sent.url))
    page.goto((public / "index.html").as_uri())
    yield page
    context.close()
    assert [text for text in problems if not text.startswith(("file:", "data:"))] == []


def test_from_the_overview_to_a_reproducer_and_back(page: Any) -> None:
    page.get_by_role("link", name="failed to legalize").first.click()
    report = page.get_by_role("region", name="Report")
    assert report.get_by_text("module @reduced {}").is_visible()
    assert "breaks" in report.inner_text()
    page.go_back()
    page.get_by_role("heading", name="1 new failure").wait_for()


def test_a_draft_is_copied(page: Any) -> None:
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text }")
    page.get_by_role("button", name="Copy issue").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert "module @reduced {}" in page.evaluate("window.copied")


@pytest.mark.parametrize("text", ["segfault", "breaks"])
def test_the_search_finds_failures_by_message_and_case(page: Any, text: str) -> None:
    page.get_by_role("searchbox").fill(text)
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="1 found").wait_for()
    page.locator("#results a").click()
    page.locator("#results").wait_for(state="detached")
    assert text in page.locator("main").inner_text()


def test_a_step_has_its_line_and_its_range(page: Any, public: Path) -> None:
    page.goto((public / "trends.html").as_uri())
    page.get_by_text("2 to 3 s").wait_for()
    assert page.locator("svg.trend").is_visible()
    assert nightly_name(10) in page.locator(".step").inner_text()


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
def test_no_page_has_an_accessibility_fault(page: Any, public: Path) -> None:
    for path in sorted(public.rglob("*.html")):
        page.goto(f"{path.as_uri()}?text=segfault")
        page.wait_for_load_state("networkidle")
        assert faults(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
