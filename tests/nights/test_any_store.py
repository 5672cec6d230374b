"""Commands that read nights answer for every mixture of results over nights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Triage
from tests.nights.documents import STATUSES, case_result, night
from triage.model.revision import Revision
from triage.nightly.store import NightStore
from triage.toolchains.home import Home

LETTERS = st.sampled_from([*STATUSES, "-"])
RESULTS = st.tuples(LETTERS, st.sampled_from(list(STATUSES)), st.booleans())


@st.composite
def stores(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the values of up to five nights with up to three cases."""
    count = draw(st.integers(1, 5))
    results = draw(
        st.lists(st.lists(RESULTS, min_size=count, max_size=count), max_size=3)
    )
    days = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    nights = []
    for number, day in enumerate(days):
        cases = [
            case_result(f"case-{name}", letter, old=old, flaky=flaky)
            for name, of_case in enumerate(results)
            for letter, old, flaky in [of_case[number]]
            if letter != "-"
        ]
        revision = Revision(f"3.{day}.0", f"{day:040x}", f"2026-01-{day:02}")
        stopped = draw(st.sampled_from([None, "interrupted"]))
        nights.append({"cases": cases, "toolchain": revision, "stopped": stopped})
    return nights


@given(stored=stores())
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_results_is_listed_shown_and_a_site(
    tmp_path_factory: pytest.TempPathFactory,
    triage: Triage,
    stored: list[dict[str, Any]],
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = NightStore(Home(folder / "home"))
    for number, values in enumerate(stored, 1):
        store.add(night(number, {}, **values))
    environment = {"TRIAGE_HOME": str(folder / "home")}

    def answer(*words: str) -> str:
        done = triage(*words, env=environment, cwd=folder)
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stderr)
        return done.stdout

    # results with an older toolchain than the night before had are left out
    names = {case.case for case in store.history().cases}
    for name in sorted(names):
        assert json.loads(answer("show", name, "--format", "json"))["case"] == name
        assert name in answer("show", name)
    for output in ("text", "markdown", "html", "json", "junit"):
        assert answer("nights", "show", "--format", output)
    assert len(
        json.loads(answer("nights", "list", "--format", "json"))["nights"]
    ) == len(stored)
    if not names:
        assert triage("site", env=environment, cwd=folder).returncode == 2
        return
    site = json.loads(answer("site", "--format", "json"))
    assert site["cases"] == len(names)
    # the overview says of the last nights what the list of nights says
    listed = Path(folder, "public", "nights.html").read_text()
    index = Path(folder, "public", "index.html").read_text()
    for style, text in re.findall(r'class="track (\w+)">(.*?)</p>', index):
        said = text.partition(": ")[2]
        assert said in listed
        assert (style == "bad") == ("newly fail" in said)
    linked = {
        name
        for page in Path(folder, "public").rglob("*.html")
        for name in re.findall(r"failures/(\w+(?:-\d+)?)\.html", page.read_text())
    }
    pages = {page.stem for page in Path(folder, "public", "failures").glob("*.html")}
    assert linked == pages
