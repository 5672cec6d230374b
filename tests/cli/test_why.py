"""One failure explained on one screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Asked, Triage
from tests.fake_releases import recipe

RELEASES = 6
OVERFLOW = "error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes"


@pytest.fixture(scope="module")
def every_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the tests share, so that each release is installed once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def with_releases(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "real" not in request.keywords:
        request.getfixturevalue("released")
        home = request.getfixturevalue("every_home")
        monkeypatch.setenv("TRIAGE_HOME", str(home))


def after(change: Any) -> str:
    """The first revision of the new state."""
    return str(change["after"]["name"])


@pytest.fixture
def said(triage: Triage) -> Callable[..., str]:
    """Explains a failure on a screen, and returns it in one line."""
    return lambda *words: " ".join(triage("why", *words).stdout.split())


Said = Callable[..., str]


def test_a_failure_of_the_newest_release_has_its_culprit_and_two_commands(
    asked: Asked, triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "broke", "breaks-3")
    found = asked("why", path, code=1)
    assert (found["status"], found["fails_on"]["name"]) == ("fails", "1.5.0")
    assert found["failure"]["class"] == "shared-memory-overflow"
    bisection = found["bisection"]
    assert (bisection["before"]["name"], after(bisection)) == ("1.2.0", "1.3.0")
    assert bisection["confirmed"]
    reduce, narrow = found["next"]
    assert reduce == f"triage reduce {path} -t 1.5.0 --good 1.2.0"
    assert narrow == f"triage bisect {path} --good 1.2.0 --bad 1.3.0 --repo DIR"
    done = triage("why", path)
    assert "fails on 1.5.0" in done.stdout
    assert "history: " not in done.stderr  # nothing is looked for elsewhere


@pytest.mark.parametrize("rev", [None, "1.3.0"])
def test_a_failure_that_a_newer_release_fixed(
    asked: Asked, tmp_path: Path, rev: str | None
) -> None:
    path = recipe(tmp_path, "fixed", "breaks-2 fixed-4")
    found = asked("why", path, *(("-t", rev) if rev else ()), code=1)
    assert (found["status"], found["passes"]) == ("fixed", rev is None)
    assert found["fails_on"]["name"] == "1.3.0"
    assert after(found["bisection"]) == "1.2.0"
    assert after(found["bisection"]["fixed"]) == "1.4.0"


def test_a_spent_budget_says_the_narrowest_range_and_what_was_tried(
    triage: Triage, said: Said, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "spent", "breaks-3 spent")  # nothing is known of it
    for version in ("1.1.0", "1.4.0"):
        triage("run", path, "-t", version)
    shown = said(path, "-t", "1.5.0", "--budget", "0.001s")
    for text in (
        "one of 3 IREE revisions: 1.2.0, 1.3.0, 1.4.0; not confirmed",
        "last good 1.1.0",
        "fails on 1.4.0 to 1.5.0; not tried on 1.2.0 to 1.3.0; passes on 1.1.0",
        "not done bisect: the budget is spent",
        "--budget 10m",
    ):
        assert text in shown


def test_a_log_is_classified_and_said_not_to_be_run(
    asked: Asked, tmp_path: Path
) -> None:
    log = tmp_path / "build.log"
    log.write_text(f"{OVERFLOW}\n")
    found = asked("why", log, code=3)
    assert found["status"] == "log"
    assert "contains no complete program" in found["reason"]
    assert found["log"]["failures"][0]["class"] == "shared-memory-overflow"
    assert found["next"][0].startswith("triage why PROGRAM --backend")
    piped = asked("why", "-", code=3, input=log.read_text())
    assert piped["log"]["failures"] == found["log"]["failures"]


PROGRAM = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (
            "See https://gist.github.com/a/b\n`iree-compile a.mlir --iree-hal-target-backends=rocm --iree-plugin=x.so -o /etc/x @flags`\n",
            "no complete program",
            "triage why PROGRAM --backend BACKEND",
        ),
        (
            f"```mlir\n{PROGRAM}```\n\n`mlir-opt a.mlir --canonicalize`\n",
            "no package to install this compiler from is known",
            "triage why {path} -t path:DIR",
        ),
    ],
)
def test_why_a_text_cannot_be_run_is_said_first_with_what_helps(
    asked: Asked, said: Said, tmp_path: Path, text: str, reason: str, line: str
) -> None:
    path = tmp_path / "issue.md"
    path.write_text(text)
    found = asked("why", path, code=3)
    assert reason in found["reason"]
    assert found["next"] == [line.format(path=path)]
    assert said(path).startswith("not run: ")


@pytest.mark.parametrize(
    ("words", "target"), [("It is slow.", "llvm-cpu"), ("On a MI300X.", "rocm gfx942")]
)
def test_what_nobody_named_is_assumed_and_said(
    asked: Asked, said: Said, tmp_path: Path, words: str, target: str
) -> None:
    path = tmp_path / "issue.md"
    path.write_text(f"{words}\n```mlir\n{PROGRAM}```\n")
    found = asked("why", path)
    assert (found["target"], found["assumed"]) == (target, target.split())
    assert said(path).startswith(f"issue for {target} (assumed; --backend and --chip")
    found = asked("why", path, "--backend", "cpu")
    assert (found["target"], found["assumed"]) == ("llvm-cpu", [])


def test_the_releases_that_read_a_program_are_named(
    triage: Triage, asked: Asked, said: Said, tmp_path: Path
) -> None:
    assert triage("toolchains", "install", "all").returncode == 0
    path = recipe(tmp_path, "old", "unreadable-4")
    found = asked("why", path, code=3)
    assert found["status"] == "inconclusive"
    known = found["releases"][-1]
    ends = known["first"]["name"], known["last"]["name"]
    assert (known["outcome"], ends) == ("untestable", ("1.4.0", "1.5.0"))
    shown = said(path)
    assert "cannot be tested on 1.4.0 to 1.5.0; passes on 1.0.0 to 1.3.0" in shown
    broken = asked("why", recipe(tmp_path, "both", "breaks-2 unreadable-4"), code=1)
    assert broken["fails_on"]["name"] == "1.3.0"
    assert after(broken["bisection"]) == "1.2.0"


def issue(folder: Path, program: str, name: str) -> Path:
    """Write an issue that reports an overflow with IREE 1.3.0."""
    path = folder / name
    path.write_text(
        f"IREE 1.3.0:\n```\n{OVERFLOW}\n```\n"
        f"```mlir\nfunc.func @f() {{ // {program}\n  return\n}}\n```\n"
    )
    return path


def test_what_a_recipe_expects_decides_what_is_tried(
    asked: Asked, tmp_path: Path
) -> None:
    expect = (
        'expect: [{failure: shared-memory-overflow, since: "1.2.0", until: "1.4.0"}]'
    )
    found = asked("why", recipe(tmp_path, "window", "breaks-2 fixed-4", expect), code=1)
    assert (found["status"], found["fails_on"]["name"]) == ("fixed", "1.3.0")
    path = recipe(tmp_path, "fine", "fine", expect)
    unseen = asked("why", path, code=3)
    assert (unseen["status"], unseen["unseen"]) == (
        "inconclusive",
        "shared-memory-overflow",
    )
    # an older toolchain that was asked for need not have it
    assert asked("why", path, "-t", "1.5.0", code=0)["status"] == "passes"


def test_another_failure_is_never_taken_for_the_reported_one(
    triage: Triage, asked: Asked, said: Said, tmp_path: Path
) -> None:
    path = issue(tmp_path, "differs-3", "issue.md")
    found = asked("why", path, code=3)
    assert found["status"] == "inconclusive"
    assert (found["failure"], found["bisection"]) == (None, None)
    shown = said(path)
    assert "the reported shared-memory-overflow was not seen" in shown
    assert "fails otherwise on 1." in shown
    # where both are seen, the reported one is explained
    both = issue(tmp_path, "breaks-2 fixed-3 differs-4", "both.md")
    failure = asked("why", both, code=1)["failure"]
    assert failure["class"] == "shared-memory-overflow"
    other = triage("why", path, "-t", "1.5.0")
    assert other.returncode == 1
    assert "shared-memory-overflow, which is another failure" in other.stdout


@pytest.mark.parametrize("words", [(), ("-t", "1.4.0")])
def test_a_program_that_no_release_reads_is_wrong(
    asked: Asked, said: Said, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = recipe(tmp_path, "wrong", "unreadable-0")
    assert asked("why", path, *words, code=2)["failure"] is None
    shown = said(path, *words)
    assert "the program is wrong: no release can read it" in shown
    assert "reason" in shown


@pytest.mark.real
def test_a_real_failure_is_explained_with_its_pass_and_a_flag(
    asked: Asked,
    shared_home: Path,
    installed: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = [installed(version).resolve() for version in ("3.2.0", "3.3.0")]
    toolchains = shared_home / "toolchains"
    toolchains.unlink()
    toolchains.mkdir()
    for folder in folders:
        (toolchains / folder.name).symlink_to(folder)
    # only what is installed
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    found = asked("why", ROOT / "recipes/i4-matvec.yaml", code=1)
    assert (found["status"], found["fails_on"]["name"]) == ("fails", "3.3.0")
    assert found["failure"]["class"] == "legalization"
    assert found["bisection"]["before"]["name"] == "3.2.0"
    assert found["attribution"]["suspect_passes"]
    flags = [flag for remedy in found["remedies"] for flag in remedy["flags"]]
    assert "--iree-rocdl-enable-buffer-instructions=false" in flags
    assert found["left"] == []
