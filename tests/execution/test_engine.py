"""The engine, with a shell script in place of a compiler."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.execution.test_inputs import contents_in
from tests.programs import write_program
from triage.compilers.base import Compiler, Description
from triage.compilers.invocation import Invocation
from triage.compilers.parts import Measures, PassTrace, Runner
from triage.execution.cache import ResultCache
from triage.execution.engine import Engine
from triage.execution.plan import reference_results
from triage.execution.task import Naming, ProbeJob
from triage.model.case import Case, Input, InputKind, Reference, RunSpec, Target
from triage.model.execution import Limits
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.processes.sealing import Seal
from triage.toolchains.home import Home, Workspace
from triage.toolchains.install import MANIFEST
from triage.toolchains.registry import ToolchainRef

# Notes its arguments, then does what the next line of the plan says; its last line says
# it for all later runs.
COMPILER = """#!/bin/sh
here=$(dirname "$0")
for output; do :; done
echo "$*" >> "$here/runs"
run=$(wc -l < "$here/runs")
last=$(wc -l < "$here/plan")
eval "$(sed -n "$((run < last ? run : last))p" "$here/plan")"
"""
COMPILES = 'echo artifact > "$output"'
CRASHES = "kill -SEGV $$"
FAILS = "echo 'm.mlir:1:1: error: no such thing' >&2; exit 1"
KILLED = "kill -KILL $$"
NAMES_ITS_PASS = """case "$*" in *--report*)
 echo '// -----// IR Dump After SomePass Failed (some-pass) //----- //' >&2;; esac; exit 1""".replace(
    "\n", ""
)


class ScriptPasses(PassTrace):
    def printing_passes(
        self, invocation: Invocation, only: str | None = None, *, generic: bool = True
    ) -> Invocation:
        return replace(invocation, printing=("--report",))

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        return replace(invocation, printing=("--one-thread",))


class ScriptRunner(Runner):
    """Runs the script `program` beside the compiler, whatever its format."""

    def program(self, root: Path, *, measured: bool) -> Path | None:
        return root / "program"


class ScriptFamily(Compiler):
    name = "script"
    passes, run, measures = ScriptPasses(), ScriptRunner(), Measures()
    folders = "any"

    def locate(self, root: Path) -> Path | None:
        return root / "compiler"

    def describe(self, program: Path, seal: Seal) -> Description:
        raise NotImplementedError

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation:
        return Invocation(())


@dataclass
class Laboratory:
    """An engine, a toolchain whose compiler is the script, and a case."""

    folder: Path
    engine: Engine
    evidence: ResultCache

    def plan(self, *steps: str) -> None:
        (self.folder / "plan").write_text("".join(f"{step}\n" for step in steps))
        (self.folder / "runs").write_text("")

    @property
    def runs(self) -> list[str]:
        return (self.folder / "runs").read_text().splitlines()

    @property
    def toolchain(self) -> Toolchain:
        return lab_toolchain(self.folder)

    def job(self) -> ProbeJob:
        return ProbeJob(self.case(), ToolchainRef("script", Revision("1.0.0")))

    def case(self) -> Case:
        source = Input(self.folder / "m.mlir", InputKind.MLIR)
        names = ("m", "m", "", "script", self.folder / "m.yaml")
        return Case(*names, source, Target("llvm-cpu"), limits=Limits(timeout=60))


def lab_toolchain(folder: Path) -> Toolchain:
    names = ("script", Revision("1.0.0"), "identity")
    places = (folder, folder / "compiler")
    return Toolchain(*names, *places, Capabilities(), "1.0.0", (folder,))


@pytest.fixture
def lab(tmp_path: Path) -> Laboratory:
    (tmp_path / "m.mlir").write_text("module {}")
    write_program(tmp_path / "compiler", COMPILER)
    return Laboratory(
        tmp_path, engine_in(tmp_path), ResultCache(tmp_path / "evidence.db")
    )


def engine_in(folder: Path, home: Path | None = None) -> Engine:
    """An engine as another process with the same home has it."""
    registry: Any = SimpleNamespace(
        home=Home(home or folder),
        runtime=lambda toolchain, _: toolchain.root,
        resolve=lambda _rev, _family: None,
        obtain=lambda _ref: lab_toolchain(folder),
        workspace=Workspace(Home(folder)),
        contents=contents_in(folder),
    )
    cache, stop = ResultCache(folder / "evidence.db"), threading.Event()
    families = {"script": ScriptFamily()}
    return Engine(registry, families, cache, stop)


def test_a_crash_is_confirmed_by_a_second_run(lab: Laboratory) -> None:
    lab.plan(CRASHES)
    outcome = lab.engine.probe(lab.job()).outcome
    assert isinstance(outcome, Failed)
    assert not outcome.flaky
    assert len(lab.runs) == 2


def crashes_in(function: str) -> str:
    return f"echo ' #0 0x0000000000000001 {function}() (lib.so+0x1)' >&2; {CRASHES}"


def test_of_threads_that_crash_at_different_places_a_run_on_one_thread_decides(
    lab: Laboratory,
) -> None:
    lab.plan(crashes_in("ns::first"), crashes_in("ns::second"), crashes_in("ns::third"))
    outcome = lab.engine.probe(lab.job()).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.failure.signature, outcome.flaky) == ("segfault:ns::third", False)
    assert ["--one-thread" in line for line in lab.runs] == [False, False, True]


def test_a_failure_with_which_a_run_disagrees_is_flaky(lab: Laboratory) -> None:
    lab.plan(CRASHES, FAILS)
    outcome = lab.engine.probe(lab.job()).outcome
    assert isinstance(outcome, Failed)
    assert outcome.flaky
    recalled = lab.engine.probe(lab.job())
    assert recalled.cached
    assert recalled.outcome == outcome


def test_a_trial_is_recorded_apart_from_probes(lab: Laboratory) -> None:
    lab.plan(CRASHES)
    trial = replace(lab.job(), once=Naming.NEVER)
    assert [lab.engine.probe(trial).cached for _ in range(2)] == [False, True]
    assert len(lab.runs) == 1
    assert not lab.engine.probe(lab.job()).cached


def test_the_failing_pass_comes_from_another_run(lab: Laboratory) -> None:
    lab.plan(NAMES_ITS_PASS)
    outcome = lab.engine.probe(lab.job()).outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.failing_pass == "SomePass"
    assert ["--report" in line for line in lab.runs] == [False, True]


def test_an_input_that_changes_meanwhile_leaves_no_answer(lab: Laboratory) -> None:
    lab.plan(f'echo >> "$here/m.mlir"; {COMPILES}')
    outcome = lab.engine.probe(lab.job()).outcome
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.ENVIRONMENT
    assert not lab.evidence.newest_of("m")


def test_a_number_above_its_threshold_is_a_failure(lab: Laboratory) -> None:
    lab.plan(COMPILES)
    for largest, is_failure in ((9.0, False), (8.0, True)):
        case = replace(lab.case(), thresholds=(("artifact_bytes", largest),))
        outcome = lab.engine.probe(replace(lab.job(), case=case)).outcome
        assert isinstance(outcome, Failed) is is_failure
    assert outcome.failure
    assert outcome.failure.signature == "metric:artifact_bytes"


def test_a_kill_from_outside_is_not_recorded(lab: Laboratory) -> None:
    lab.plan(KILLED)
    outcome = lab.engine.probe(lab.job()).outcome
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.ENVIRONMENT
    assert not lab.evidence.newest_of("m")


MISSES_A_MODULE = """rm -f "$here/opt_einsum.py"; [ -e "$here/opt_einsum.py" ] || {
 echo "ModuleNotFoundError: No module named 'opt_einsum'" >&2; exit 1; }""".replace(
    "\n", ""
)


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_answer_of_an_install_that_is_damaged_meanwhile_is_not_kept(
    tmp_path: Path, is_whole: bool
) -> None:
    root = tmp_path / "toolchains" / "script-1.0.0"
    root.mkdir(parents=True)
    lab = Laboratory(root, engine_in(root, tmp_path), ResultCache(tmp_path / "e.db"))
    (root / "m.mlir").write_text("module {}")
    write_program(root / "compiler", COMPILER)
    lab.plan(MISSES_A_MODULE)
    sizes = {} if is_whole else {"opt_einsum.py": 0}
    (root / "opt_einsum.py").touch()
    manifest = {"folder": root.name, "release": None, "files": sizes}
    (root / MANIFEST).write_text(json.dumps(manifest))
    outcomes = [lab.engine.probe(lab.job()) for _ in range(2)]
    cause = Cause.RECIPE if is_whole else Cause.ENVIRONMENT
    assert [probe.outcome.cause for probe in outcomes] == [cause, cause]
    assert [probe.cached for probe in outcomes] == [False, is_whole]


RUNS = """#!/bin/sh
here=$(dirname "$0")
[ -n "$MALLOC_PERTURB_" ] && mv "$here/other.npy" "$here/result.npy"
echo "result[0]: 2xf32=1 1"
for word; do case $word in --output=@*) cp "$here/result.npy" "${word#--output=@}";; esac; done
"""


def test_results_that_depend_on_unwritten_memory_are_remembered(
    lab: Laboratory,
) -> None:
    np.save(lab.folder / "result.npy", np.ones(2, dtype="f4"))
    np.save(lab.folder / "other.npy", np.zeros(2, dtype="f4"))
    write_program(lab.folder / "program", RUNS)
    lab.plan(COMPILES)
    case = replace(lab.case(), run=RunSpec())
    for engine in (lab.engine, engine_in(lab.folder)):
        results = reference_results(
            engine, case, lab.toolchain, Reference("1.0.0"), lab.folder / "kept"
        )
        assert isinstance(results, NoAnswer)
        assert "memory" in results.reason
    assert len(lab.runs) == 1
