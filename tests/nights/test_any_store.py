"""Commands that read nights answer for every mixture of results over nights."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Triage
from tests.nights.documents import STATUSES, case_result, night
from triage.model.revision import Revision
from triage.nightly.store import NightStore
from triage.toolchains.home import Home

NIGHTS = 4
LETTERS = st.text([*STATUSES, "-"], min_size=NIGHTS, max_size=NIGHTS)
RESULTS = st.tuples(LETTERS, st.sampled_from(list(STATUSES)), st.booleans())


@given(
    results=st.lists(RESULTS, max_size=3),
    days=st.lists(st.integers(1, 9), min_size=NIGHTS, max_size=NIGHTS),
    stopped=st.sampled_from([None, "interrupted"]),
)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_results_is_listed_shown_and_a_site(
    tmp_path_factory: pytest.TempPathFactory,
    triage: Triage,
    results: list[tuple[str, str, bool]],
    days: list[int],
    stopped: str | None,
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = NightStore(Home(folder / "home"))
    for at, day in enumerate(days):
        cases = [
            case_result(f"case-{name}", letters[at], old, flaky=flaky)
            for name, (letters, old, flaky) in enumerate(results)
            if letters[at] != "-"
        ]
        revision = Revision(f"3.{day}.0", f"{day:040x}", f"2026-01-{day:02}")
        store.add(night(at + 1, {}, cases=cases, toolchain=revision, stopped=stopped))
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
    listed = json.loads(answer("nights", "list", "--format", "json"))["nights"]
    assert len(listed) == NIGHTS
    if not names:
        assert triage("site", env=environment, cwd=folder).returncode == 2
        return
    site = json.loads(answer("site", "--format", "json"))
    assert site["cases"] == len(names)
    # the overview says of the last nights what the list of nights says
    public = folder / "public"
    table, index = (
        (public / f"{name}.html").read_text() for name in ("nights", "index")
    )
    for style, text in re.findall(r'class="track (\w+)">(.*?)</p>', index):
        said = text.partition(": ")[2]
        assert said in table
        assert (style == "bad") == ("newly fail" in said)
    linked = {
        name
        for page in public.rglob("*.html")
        for name in re.findall(r"failures/(\w+(?:-\d+)?)\.html", page.read_text())
    }
    pages = {page.stem for page in (public / "failures").glob("*.html")}
    assert linked == pages
