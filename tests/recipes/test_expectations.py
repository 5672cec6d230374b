"""Known failures and flags hold for versions, and are updated from what was seen: the
file that a recipe names is written anew, and a list in a recipe is printed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bisect.letters import case_named
from tests.recipes.conftest import BASE
from tests.recipes.loading import ended, load_recipes
from triage.model.case import Expectation, Flag
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.expectations import (
    UpdatedFile,
    applied_flags,
    expectation_for,
    updated_expectations,
)

TIMEOUT = Failure("timeout", "timeout", "timeout", "too long")
WRONG = Failure("wrong-result", "run", "wrong-result:0", "wrong", stage=Stage.COMPARE)


def updated(
    text: str, failures: dict[str, Failure | None], version: str | None = "3.9.0"
) -> UpdatedFile:
    """Update a recipe; the named cases were seen."""
    path = Path("r.yaml")
    path.write_text(text)
    cases = load_recipes([path])
    seen = [case for case in cases if case.name in failures]
    probes = [ended(case, failures[case.name], version) for case in seen]
    update = updated_expectations(path.absolute(), cases, probes)
    if update.paste:
        Path("expect.yaml").write_text(update.paste)
        path.write_text(text.partition("expect:")[0] + "expect: expect.yaml\n")
    else:
        update.path.write_text(update.text)
    load_recipes([path])  # it is still a recipe
    return update


@pytest.mark.parametrize(
    ("known", "failure", "version", "entries"),
    [
        ("", TIMEOUT, "3.9.0", ['{failure: timeout, since: "3.9.0"}']),
        ("", TIMEOUT, None, ["{failure: timeout}"]),
        ("{failure: timeout}", TIMEOUT, "3.9.0", ["{failure: timeout}"]),
        (
            '{failure: timeout, since: "3.1.0", issue: "a/b#1"}, {failure: segfault, until: "3.2.0"}',
            None,
            "3.9.0",
            [
                '{failure: timeout, since: "3.1.0", until: "3.9.0", issue: "a/b#1"}',
                '{failure: segfault, until: "3.2.0"}',
            ],
        ),
        ('{failure: timeout, since: "3.9.0"}', None, "3.9.0", []),
        (
            '{failure: timeout, until: "3.20.0"}',
            WRONG,
            "3.9.0",
            [
                '{failure: timeout, until: "3.9.0"}',
                '{failure: wrong-result, since: "3.9.0", stage: compare}',
            ],
        ),
    ],
)
def test_entries_begin_and_end_at_the_version(
    folder: Path,
    known: str,
    failure: Failure | None,
    version: str | None,
    entries: list[str],
) -> None:
    base = BASE.replace("name: a", "name: n")  # which YAML reads as no, unquoted
    update = updated(f"{base}expect: [{known}]\n", {"n": failure}, version)
    first, *lines = (update.paste or "").splitlines()
    assert "expect: expect.yaml" in first
    listed = [f"  - {entry}" for entry in entries]
    assert lines == (['"n":', *listed] if listed else ["{}"])


def test_a_file_has_a_list_for_each_case(folder: Path) -> None:
    file = Path("expect.yaml")
    file.write_text('# ours\nkind=b: [{failure: timeout, issue: "a/b#1"}]\n')
    text = f"{BASE}flags: ['--x=${{kind}}']\nmatrix: {{kind: [b, c]}}\nexpect: {file}\n"
    update = updated(text, {"a[kind=b]": TIMEOUT, "a[kind=c]": WRONG})
    assert (update.path, update.paste) == (file.absolute(), None)
    assert Path("r.yaml").read_text() == text
    expected = [case.expect for case in load_recipes([Path()])]
    assert [[(item.failure, item.issue) for item in items] for items in expected] == [
        [("timeout", "a/b#1")],
        [("wrong-result", None)],
    ]
    assert updated(text, {"a[kind=c]": WRONG}).changes == []
    assert file.read_text() == update.text
    file.write_text("# nothing yet\n")
    [change] = updated(text, {"a[kind=c]": TIMEOUT}).changes
    assert change.after == "timeout"


def holds(since: str | None, until: str | None, version: str | None) -> bool:
    """Return whether a failure is expected, and a flag passed."""
    expected, flag = Expectation("crash", since, until), Flag("-a", since, until)
    case = replace(case_named("a"), expect=(expected,), flags=(flag,))
    is_passed = applied_flags(case, version) == ["-a"]
    assert is_passed == (expectation_for(case, version) is not None)
    return is_passed


# A nightly counts as the release that it leads to; a bound that names more than a
# release is exact.
RANGES = """\
since:3.1.0 until:3.8.0 holds:3.1.0 not:3.8.0
since:3.9.0 holds:3.10.0
since:3.5.0 holds:3.5.0rc20250604
until:3.5.0 not:3.5.0rc20250604 not:3.5.0.post1
since:3.5.0 until:3.5.1 holds:3.5.0+cu128
since:3.5.0rc20250604 not:3.5.0rc20250603
until:3.5.0rc20250604 holds:3.5.0rc20250603
"""


@pytest.mark.parametrize("line", RANGES.splitlines())
def test_ranges(line: str) -> None:
    words = [word.split(":") for word in line.split()]
    bounds = dict(words)
    for name, version in words:
        if name in ("holds", "not"):
            is_held = holds(bounds.get("since"), bounds.get("until"), version)
            assert is_held is (name == "holds")


@pytest.mark.parametrize("version", [None, "local build"])
def test_an_unknown_version_excuses_nothing_and_is_new(version: str | None) -> None:
    case = replace(
        case_named("a"),
        expect=(Expectation("crash", "3.1.0"),),
        flags=(Flag("--new", since="3.1.0"), Flag("--old", until="3.1.0")),
    )
    assert expectation_for(case, version) is None
    assert applied_flags(case, version) == ["--new"]
    assert holds(None, None, version)
