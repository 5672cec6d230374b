"""A night: how cases are compared, its reports, and the owners of its failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from tests.bisect.letters import HistoryEngine, case_named, failure
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.result import Bisection, BisectKind, Suspect, Transition
from triage.execution.in_turn import Pace
from triage.model.case import Expectation
from triage.model.errors import BadFiles, BadInput
from triage.model.execution import PassName
from triage.model.revision import Revision
from triage.nightly.compare import owner_of, owner_rules
from triage.nightly.result import Night, TimeChange, parse_night, stored_bytes
from triage.nightly.run import NightRun
from triage.nightly.store import read_night
from triage.remedy.result import Remedy
from triage.report.document import rendered
from triage.report.issue import LONGEST, issue_markdown
from triage.report.night import night_document, night_junit

STATES = """
case          letters  change           result in JUnit's report
worse         PF       regressed        failure
other         FG       changed          failure
same          FF       failing          failing
fine          PP       passing          passed
fixed         FP       fixed            passed
unsteady      PF       flaky            flaky
never-tested  UU       untestable       untestable
lost          PU       untestable       untestable
new           UF       new-untested     failure
known         PF       known            known
known-before  FF       known            known
known-other   PG       regressed        failure
known-healed  PP       unexpected-pass  passed
known-fixed   FP       fixed            passed
"""
ROWS = [line.split() for line in STATES.splitlines()[2:]]


def night_of(
    histories: dict[str, str], old: int = 0, new: int = 1, *, bisects: bool = True
) -> Night:
    """Return a night between two of the releases that the letters of each case are for,
    with a bisect of each new failure. What is `known` is expected to fail since 1.1.0,
    and `unsteady` is known to be flaky.
    """
    engine: Any = HistoryEngine(histories)
    engine.compiles = 7
    refs = engine.releases("iree")
    known = Expectation("class-F", since="1.1.0")
    cases = [
        case_named(name, *([known] if name.startswith("known") else []))
        for name in histories
    ]
    earlier: Any = SimpleNamespace(
        is_flaky=lambda name: name == "unsteady", is_known=lambda *_: False
    )
    run = NightRun(
        engine, cases, refs[new], refs[old], bisects=bisects, earlier=lambda: earlier
    )
    run.compare()
    if bisects:
        run.investigate()
    return run.night()


@pytest.fixture(scope="module")
def night() -> Night:
    return night_of({name: letters for name, letters, *_ in ROWS})


def test_a_night_is_read_as_it_was_written(night: Night) -> None:
    remedy = Remedy(flags=("-O1",), result=night.cases[0].baseline, effect="less")
    clusters = [replace(night.clusters[0], remedies=[remedy])]
    night = replace(night, clusters=clusters)
    for text in (rendered("json", night, night_document), stored_bytes(night)):
        assert parse_night(text, "night") == night


@pytest.mark.parametrize(
    "text", [b"", b'{"schema": 6}', b"\xed\xa0\x80", b"[" * 100_000]
)
def test_a_file_that_is_not_a_night_is_bad_input(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "nightly.json").write_bytes(text)
    with pytest.raises(BadInput):
        read_night(tmp_path)


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        ('"cpu_seconds": 0.0', '"cpu_seconds": NaN'),
        ('"metrics": {', '"metrics": {"x": 1e999'),
    ],
)
def test_a_number_that_json_does_not_have_is_bad_input(
    night: Night, text: str, damaged: str
) -> None:
    whole = rendered("json", night, night_document)
    with pytest.raises(BadInput):
        parse_night(whole.replace(text, damaged), "night")


@pytest.mark.parametrize("path", ["/etc/passwd", "{}/link", "../secret.md"])
@pytest.mark.parametrize(
    ("part", "kind", "folder"),
    [
        ("clusters", "issue", "issues"),
        ("clusters", "reproducer", "reproducers"),
        ("cases", "log", "logs/1.0.0"),
    ],
)
def test_a_path_that_leads_out_of_the_folder_is_bad_input(
    night: Night, tmp_path: Path, part: str, kind: str, folder: str, path: str
) -> None:
    link = tmp_path / "out" / folder / "link"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "secret.md")
    bad = replace(getattr(night, part)[0], **{kind: path.format(folder)})
    content = stored_bytes(replace(night, **{part: [bad]}))
    (tmp_path / "out" / "nightly.json").write_bytes(content)
    with pytest.raises(BadInput, match=kind):
        read_night(tmp_path / "out")


def junit_results(report: str) -> dict[str, str]:
    """The result of each test case of the JUnit report, or why it is skipped."""
    results = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        result = next(iter(case), Element("passed"))
        why = result.get("message", "").partition(":")[0]
        results[case.get("name", "")] = why if result.tag == "skipped" else result.tag
    return results


def test_each_state_is_told_and_flaky_cases_begin_nothing(night: Night) -> None:
    junit = junit_results(night_junit(night))
    states = [[case.case, case.change, junit[case.case]] for case in night.cases]
    assert states == [[name, change, result] for name, _, change, result in ROWS]
    named = [name for cluster in night.clusters for name in cluster.cases]
    new = [name for name, result in junit.items() if result == "failure"]
    assert sorted(named) == sorted(new)


def test_junit_fails_what_is_slower_or_healed_only_where_asked(night: Night) -> None:
    times = {"baseline_seconds": 0.002, "seconds": 0.004, "verdict": Pace.SLOWER}
    rows = [TimeChange(case="fine", function="decode", **times)]
    rows.append(TimeChange(case="other", reason="1.2.0: there is no device hip"))
    for strict, count in ((False, 4), (True, 7)):
        changed = replace(night, times=rows, strict=strict)
        results = junit_results(night_junit(changed))
        assert list(results.values()).count("failure") == count


def test_an_issue_stays_within_the_limit(night: Night) -> None:
    names = [f"case-{number}" for number in range(20_000)]
    text = issue_markdown(replace(night.clusters[0], cases=names), night)
    assert len(text.encode()) <= LONGEST
    assert "`case-0`" in text
    assert "more, which are left out" in text


RULES = """\
name: iree
compiler: iree
owners:
  - {owner: "@suites", suites: onnx*}
  - {owner: "@rocm", backends: rocm}
  - {owner: "@passes", passes: "*Vectorize*"}
  - {owner: "@old", files: [compiler/src/Codegen]}
  - {owner: "@codegen", files: [compiler/src/Codegen, llvm]}
"""
ENDS = (Revision("3.1.0"), Revision("3.2.0"))
VECTORIZES = Attribution(
    "a",
    *ENDS,
    ComparisonResult.FAILING,
    failing=PassName("GenericVectorizePass"),
)


def culprit(file: str, *, confirmed: bool = True) -> Bisection:
    suspects = (Suspect("abc", files=(file,)),)
    reason = failure("F")
    return Bisection("a", broke=Transition(*ENDS, reason, confirmed, suspects))


TILE = culprit("compiler/src/Codegen/GPU/Tile.cpp")
SUSPECTED = culprit("llvm/a.cpp", confirmed=False)
FIX = replace(TILE, kind=BisectKind.FIX)


@pytest.mark.parametrize(
    ("suite", "known", "owner"),
    [
        ("models", {}, None),
        ("onnx_ops", {}, "@suites"),
        ("onnx_ops", {"backend": "rocm"}, "@rocm"),
        ("onnx_ops", {"backend": "rocm", "attribution": VECTORIZES}, "@passes"),
        ("onnx_ops", {"attribution": VECTORIZES, "culprit": TILE}, "@codegen"),
        ("models", {"backend": "rocm", "culprit": SUSPECTED}, "@rocm"),
        ("models", {"culprit": FIX}, None),
    ],
)
def test_the_last_rule_that_fits_names_the_owner(
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    night: Night,
    suite: str,
    known: dict[str, Any],
    owner: str | None,
) -> None:
    (workplace / "triage.yaml").write_text(RULES)
    monkeypatch.chdir(workplace)
    cluster = replace(night.clusters[0], **{"culprit": None, **known})
    assert owner_of(cluster, {suite}, owner_rules("iree")) == owner
    assert owner_rules("triton") == ()
    (workplace / "triage.yaml").write_text("owners: []")
    with pytest.raises(BadFiles):
        owner_rules("iree")
