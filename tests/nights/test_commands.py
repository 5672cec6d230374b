"""`triage nights`, `show` and `site` as users call them, for any stored nights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.conftest import Asked, Triage
from tests.fake_releases import command_recipe, install
from tests.nights.conftest import Stored
from tests.nights.documents import STATUSES, case_result, night, nights
from tests.nights.test_store import HISTORIES
from tests.programs import write_program
from triage.execution.in_turn import Pace
from triage.investigate.result import CaseResult
from triage.model.case import Target
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.result import TimeChange

NIGHTS = 4
LETTERS = st.text([*STATUSES, "-"], min_size=NIGHTS, max_size=NIGHTS)
RESULTS = st.tuples(LETTERS, st.sampled_from(list(STATUSES)), st.booleans())
ISSUE = "o/r#7"
SLOWER = TimeChange(case="slow", baseline_seconds=4.0, seconds=8.0, verdict=Pace.SLOWER)


@given(
    results=st.lists(RESULTS, max_size=3),
    days=st.lists(st.integers(1, 9), min_size=NIGHTS, max_size=NIGHTS),
    stopped=st.sampled_from([None, "interrupted"]),
)
@example([("UUUU", "P", False), ("PFXY", "P", True)], [1, 2, 3, 4], None)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_results_is_listed_shown_and_a_site(
    triage: Triage,
    asked: Asked,
    stored: Stored,
    workplace: Path,
    results: list[tuple[str, str, bool]],
    days: list[int],
    stopped: str | None,
) -> None:
    store = stored()
    store.remove(store.numbers())
    for at, day in enumerate(days):
        cases = [
            case_result(f"case-{name}", letters[at], old, flaky=flaky)
            for name, (letters, old, flaky) in enumerate(results)
            if letters[at] != "-"
        ]
        revision = Revision(f"3.{day}.0", f"{day:040x}", f"2026-01-{day:02}")
        store.add(night(at + 1, {}, cases=cases, toolchain=revision, stopped=stopped))
    # results with an older toolchain than the night before had are left out
    histories = store.history().cases
    names = {case.case for case in histories}
    for words in (("nights", "show"), *(("show", name) for name in names)):
        for output in ("text", "markdown", "html", "json"):
            done = triage(*words, "--format", output)
            assert (done.returncode, done.stderr) == (0, ""), words
            assert words[-1] in done.stdout or words[-1] == "show"
    assert len(asked("nights", "list")["nights"]) == NIGHTS
    if not names:
        assert triage("site").returncode == 2
        return
    assert asked("site")["cases"] == len(names)
    # the overview says of the last nights what the list of nights says
    public = workplace / "public"
    table, index = (
        (public / f"{name}.html").read_text() for name in ("nights", "index")
    )
    for style, text in re.findall(r'class="track (\w+)">(.*?)</p>', index):
        verdict = text.partition(": ")[2]
        assert verdict in table
        assert (style == "bad") == ("newly fail" in verdict)
    pass_now = [
        case for case in histories if case.runs and case.runs[-1].status == "xpass"
    ]
    assert index.count("triage expect update") == len(pass_now)
    pages = "".join(page.read_text() for page in public.rglob("*.html"))
    linked = re.findall(r"failures/(\w+(?:-\d+)?)\.html", pages)
    assert set(linked) == {page.stem for page in public.glob("failures/*.html")}


def test_nights_are_shown_by_name_and_removed(asked: Asked, stored: Stored) -> None:
    stored(*nights(HISTORIES))
    for name in ("2026-01-03", "3"):
        shown = asked("nights", "show", name)
        assert [case["case"] for case in shown["regressed"]] == ["breaks", "mended"]
    assert asked("nights", "prune", "--keep", "3") == {"removed": [1, 2]}


def on(backend: str, name: str, letter: str = "F") -> CaseResult:
    return case_result(name, letter, target=Target(backend, "gpu"))


def test_a_regression_does_not_show_the_issue_of_another_backend(
    asked: Asked, stored: Stored
) -> None:
    for day, letter in ((1, "P"), (2, "F")):
        cases = [on("cuda", "on-cuda"), on("rocm", "on-rocm", letter)]
        store = stored(night(day, {}, cases=cases))
    store.add_issues(night(1, {}).started, {"on-cuda": ISSUE})
    for backend, issue in (("cuda", ISSUE), ("rocm", None)):
        assert asked("show", f"on-{backend}")["failures"][0]["issue"] == issue


def test_a_site_of_some_tracks_has_their_nights_only(
    home: Path,
    triage: Triage,
    asked: Asked,
    workplace: Path,
    stored: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIAGE_NIGHTS", str(home.parent / "own-nights"))
    for day, backend in enumerate(("cuda", "rocm", "cuda"), 1):
        cases = [on(backend, f"on-{backend}")]
        cases += [on("vulkan", "slow", "P")] if day != 2 else []
        stored(night(day, {}, cases=cases, times=[SLOWER]))
    index = workplace / "public" / "index.html"
    for pattern, counts in (("*cuda*", [2, 1, 1]), ("*", [3, 3, 2])):
        written = asked("site", "--track", pattern)
        assert [written[key] for key in ("nights", "cases", "failures")] == counts
        for text in ("4 s -&gt; 8 s, slower", "vulkan: "):
            assert (text in index.read_text()) is (pattern == "*")
    assert triage("site", "--track", "tpu").returncode == 2
    assert not [*home.glob("nights*")]


def test_a_nightly_stores_its_night_and_the_page_shows_its_log(
    shared_home: Path, triage: Triage, asked: Asked, tmp_path: Path, workplace: Path
) -> None:
    recipe = command_recipe(tmp_path, "c", "fine")
    # the last line is one for triage
    lines = 'echo fine >&2\necho broken badly\necho \'triage: {"metrics": {"a": 1}}\'\nexit 1'
    bad, good = tmp_path / "bad", install(tmp_path / "good", 0)
    write_program(bad / "tools" / "iree-compile", f"#!/bin/sh\n{lines}\n")
    ends = ("-t", f"path:{bad}", "-b", f"path:{good}")
    words = ("nightly", recipe, *ends)
    [cluster] = asked(*words, "--investigate", "--out", "out", code=1)["clusters"]
    steps = {step["step"]: step["status"] for step in cluster["steps"]}
    assert steps["bisect"] == "done"
    assert list(cluster["replays"].values()) == ["reproduces"]
    assert triage(*words).returncode == 1, "without a log"
    shown = asked("show", "c")
    assert "broken badly" in shown["log"]
    assert {state["status"] for state in shown["states"]} == {"passed", "failed"}
    asked("site")
    [case] = (workplace / "public" / "cases").glob("*.html")
    page = case.read_text()
    assert "broken badly" in page.partition('id="log-0"')[2]
    command = f"triage run {recipe} --case c -t {ends[1]}"
    assert command in page.replace("~/", f"{Path.home()}/")
    [failure] = (workplace / "public" / "failures").glob("*.html")
    assert f"../cases/{case.name}#log-0" in failure.read_text()
    for text in (shown["log"], triage("show", "c").stdout, page, failure.read_text()):
        assert "triage: {" not in text


def test_a_slower_run_leads_to_the_case_of_its_own_track(
    asked: Asked, stored: Stored, workplace: Path
) -> None:
    for day, times in ((1, [SLOWER]), (2, [])):
        kind = list(ToolchainKind)[day]
        stored(night(day, {"slow": "P"}, times=times, kind=kind))
    asked("site")
    index = (workplace / "public" / "index.html").read_text()
    [link] = re.findall('"(cases/.*?)"', index)
    assert "2026-01-01" in (workplace / "public" / link).read_text()
