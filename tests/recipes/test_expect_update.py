"""Known failures of recipes are updated from what was seen; comments and other entries
stay.
"""

from __future__ import annotations

from pathlib import Path

from tests.recipes.loading import load_recipes
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.expectations import ObservedCase, UpdatedFile, updated_expectations

BASE = "name: n\ninput: models/matmul.mlir\ntarget: {backend: cuda}\n"
MATRIX = BASE + "flags: ['--x=${kind}']\nmatrix: {kind: [a, b]}\n"
TIMEOUT = Failure("timeout", "timeout", "timeout", "too long")
WRONG = Failure("wrong-result", "run", "wrong-result:0", "wrong", stage=Stage.COMPARE)


def updated(
    text: str, failures: dict[str, Failure | None], version: str | None = "3.9.0"
) -> UpdatedFile:
    """Update a recipe; the named cases were seen."""
    Path("r.yaml").write_text(text)
    cases = {case.name: case for case in load_recipes([Path("r.yaml")])}
    observed = [
        ObservedCase(cases[name], version, failure)
        for name, failure in failures.items()
    ]
    update = updated_expectations(
        Path("r.yaml").absolute(), observed, len(cases) - len(observed)
    )
    update.path.write_text(update.new)
    load_recipes([Path("r.yaml")])  # it is still a recipe
    return update


def added(update: UpdatedFile) -> list[str]:
    return [
        line[1:]
        for line in update.diff.splitlines()
        if line.startswith("+") and not line.startswith("+++")
    ]


def removed(update: UpdatedFile) -> list[str]:
    return [
        line[1:]
        for line in update.diff.splitlines()
        if line.startswith("-") and not line.startswith("---")
    ]


def test_a_new_failure_gets_an_entry_from_this_version_on(folder: Path) -> None:
    update = updated(BASE, {"n": TIMEOUT})
    assert added(update) == ["expect:", '  - {failure: timeout, since: "3.9.0"}']
    assert removed(update) == []
    assert [
        (change.case, change.before, change.after) for change in update.changes
    ] == [("n", None, "timeout")]
    assert updated(update.new, {"n": TIMEOUT}).changes == ()
    assert added(updated(BASE + "expect: []\n", {"n": TIMEOUT})) == [
        'expect: [{failure: timeout, since: "3.9.0"}]'
    ]


def test_entries_that_are_over_end_at_this_version(folder: Path) -> None:
    text = BASE + (
        "expect:  # known\n"
        "  # for long\n"
        '  - {failure: timeout, since: "3.1.0"}  # slow\n'
        "  - failure: unknown\n"
        '    issue: "a/b#1"  # here\n'
        '  - {failure: segfault, until: "3.2.0"}\n'
    )
    update = updated(text, {"n": None})
    assert update.new == text.replace('"3.1.0"}', '"3.1.0", until: "3.9.0"}').replace(
        "  # here\n", '\n    until: "3.9.0"  # here\n'
    )


def test_a_failure_of_another_class_ends_one_entry_and_begins_another(
    folder: Path,
) -> None:
    update = updated(BASE + "expect: [{failure: timeout}]\n", {"n": WRONG})
    assert added(update) == [
        'expect: [{failure: timeout, until: "3.9.0"}, {stage: compare, failure: wrong-result, since: "3.9.0"}]'
    ]
    update = updated(
        BASE + 'expect:\n- failure: timeout\n  until: "3.20.0"\n', {"n": WRONG}
    )
    assert added(update) == [
        '  until: "3.9.0"',
        '- {stage: compare, failure: wrong-result, since: "3.9.0"}',
    ]


def test_a_shared_list_changes_only_when_all_cases_agree(folder: Path) -> None:
    assert (
        updated(MATRIX, {"n[kind=a]": TIMEOUT, "n[kind=b]": TIMEOUT}).changes[0].after
        == "timeout"
    )
    for failures in ({"n[kind=a]": TIMEOUT, "n[kind=b]": None}, {"n[kind=a]": TIMEOUT}):
        update = updated(MATRIX, failures)
        assert (update.new, update.changes) == (MATRIX, ())
        assert [one.case for one in update.left] == ["n[kind=a]"]
    known = MATRIX + "expect: [{failure: timeout}]\n"
    assert updated(known, {"n[kind=a]": None}).new == known


def test_a_file_has_a_list_for_each_case(folder: Path) -> None:
    Path("expect.yaml").write_text(
        '# ours\nkind=a: [{failure: timeout, issue: "a/b#1"}]\n'
    )
    text = MATRIX + "expect: expect.yaml\n"
    update = updated(text, {"n[kind=a]": TIMEOUT, "n[kind=b]": WRONG})
    assert update.path.name == "expect.yaml"
    assert added(update) == [
        "kind=b:",
        '  - {stage: compare, failure: wrong-result, since: "3.9.0"}',
    ]
    assert Path("r.yaml").read_text() == text
    cases = load_recipes([Path()])
    assert [[item.failure for item in case.expect] for case in cases] == [
        ["timeout"],
        ["wrong-result"],
    ]
    assert [case.expect[0].issue for case in cases] == ["a/b#1", None]
    Path("expect.yaml").write_text("# nothing yet\n")
    assert added(updated(text, {"n[kind=b]": TIMEOUT}))[0] == "kind=b:"
