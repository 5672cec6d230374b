"""The exit code of every command whose toolchain cannot be obtained or does not run,
and of results in general.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bisect.letters import case_named, outcome
from tests.conftest import ROOT, Triage
from tests.toolchains.loopback import LoopbackIndex, make_wheel, serve
from triage.execution.judge import result_of
from triage.model.outcome import (
    Cause,
    Exit,
    Measured,
    NoAnswer,
    Outcome,
    Probe,
    exit_for_results,
)
from triage.model.revision import Revision

RECIPE = "name: one\ninput: one.mlir\ntarget: {backend: llvm-cpu}\n"
MATRIX = "name: two\ninput: one.mlir\ntarget: {backend: '${b}'}\nmatrix: {b: [llvm-cpu, cuda]}\n"
REPRODUCER = ROOT / "reproducers" / "affinity-symbol-undeclared"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackIndex]:
    """An index with two releases that install, but whose compiler is not a program."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("1.0.0", "1.1.0"):
        make_wheel(folder, version)
    with serve(folder) as loopback:
        loopback.publish()
        monkeypatch.setenv("TRIAGE_INDEX_URL", loopback.url)
        yield loopback


@pytest.mark.parametrize(
    "line",
    [
        "run {one} -t 1.1.0",
        "nightly {one} -t 1.1.0 -b 1.0.0",
        "bisect {one} --good 1.0.0 --bad 99.0.0",
        "attribute {one} --good 1.0.0 --bad 1.1.0",
        "reduce {one} -t 99.0.0",
        "variants {two} -t 1.1.0",
        "replay {reproducer} -t 99.0.0",
        "lint {one} -t 1.1.0",
    ],
)
def test_a_toolchain_that_cannot_be_used_is_an_environment_failure(
    home: Path, index: LoopbackIndex, triage: Triage, tmp_path: Path, line: str
) -> None:
    (tmp_path / "one.mlir").write_text("module {}\n")
    paths = {"one": tmp_path / "one.yaml", "two": tmp_path / "two.yaml"}
    paths["one"].write_text(RECIPE)
    paths["two"].write_text(MATRIX)
    done = triage(*line.format(**paths, reproducer=REPRODUCER).split())
    assert done.returncode == Exit.ENVIRONMENT, done.stderr
    assert "Traceback" not in done.stderr


NO_TOOLCHAIN = NoAnswer(Cause.TOOLCHAIN, "none")


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], Exit.OK),
        ([outcome("P")], Exit.OK),
        ([outcome("P"), outcome("U")], Exit.OK),
        ([outcome("U")], Exit.INCONCLUSIVE),
        ([outcome("U"), outcome("F")], Exit.FOUND),
        ([NO_TOOLCHAIN, outcome("F")], Exit.FOUND),
        ([NO_TOOLCHAIN, outcome("P")], Exit.ENVIRONMENT),
    ],
)
def test_a_failure_outweighs_what_could_not_be_tested(
    outcomes: list[Outcome], code: Exit
) -> None:
    case, revision = case_named("case"), Revision("1.0.0")
    results = [
        result_of(Probe(case, revision, "1.0.0", outcome, Measured(), cached=False))
        for outcome in outcomes
    ]
    assert exit_for_results(results) is code
