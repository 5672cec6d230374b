"""The engine, with a shell script in place of a compiler."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.programs import write_program
from triage.compilers.base import Compiler, Description
from triage.compilers.invocation import Invocation, IrPrinter, Runner
from triage.execution.cache import ResultCache
from triage.execution.engine import Engine
from triage.execution.judge import NoTask
from triage.execution.plan import reference_results
from triage.execution.task import PassNaming, ProbeJob
from triage.model.case import Case, Input, InputKind, Reference, RunSpec, Target
from triage.model.execution import Limits
from triage.model.outcome import Cause, Failed, Passed
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.processes.sealing import Seal
from triage.toolchains.contents import Contents
from triage.toolchains.home import MANIFEST, Home, Workspace
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
MISSES_A_MODULE = "echo \"ModuleNotFoundError: No module named 'a'\" >&2; exit 1"
NAMES_ITS_PASS = (
    'case "$*" in *--report*) echo "// -----// IR Dump After SomePass Failed '
    '(some-pass) //----- //" >&2;; esac; exit 1'
)


class ScriptRunner(Runner):
    """Runs the script `program` beside the compiler, whatever its format."""

    measures = True

    def program(self, root: Path, *, measured: bool) -> Path | None:
        return root / "program"


class ScriptFamily(Compiler):
    name = "script"
    passes, run = IrPrinter((), ("--report",)), ScriptRunner()
    folders = "any"

    def locate(self, root: Path) -> Path | None:
        raise NotImplementedError

    def describe(self, program: Path, seal: Seal) -> Description:
        raise NotImplementedError

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation:
        return Invocation(())


@dataclass
class Laboratory:
    """A toolchain whose compiler is the script, a case, and an engine."""

    home: Path
    folder: Path

    def __post_init__(self) -> None:
        program = write_program(self.folder / "compiler", COMPILER)
        source, revision = self.folder / "m.mlir", Revision("1.0.0")
        source.write_text("module {}")
        self.evidence = ResultCache(self.home / "evidence.db")
        places = ("identity", self.folder, program, Capabilities(), "1.0.0")
        self.toolchain = Toolchain("script", revision, *places, (self.folder,))
        words = ("m", "m", "", "script", self.folder / "m.yaml")
        program_text, target = Input(source, InputKind.MLIR), Target("llvm-cpu")
        self.case = Case(*words, program_text, target, limits=Limits(timeout=60))
        self.job = ProbeJob(self.case, ToolchainRef("script", revision))
        self.engine = self.another_engine()

    def another_engine(self) -> Engine:
        """Return an engine as another process with the same home has it."""
        workspace = Workspace(Home(self.home))
        registry: Any = SimpleNamespace(
            home=workspace.home,
            runtime=lambda toolchain, _: toolchain.root,
            obtain=lambda _ref: self.toolchain,
            resolve=lambda _rev, _family: None,
            is_installed=lambda _ref: True,
            workspace=workspace,
            contents=Contents(workspace.home),
            compilers={"script": ScriptFamily()},
        )
        return Engine(registry, self.evidence)

    def plan(self, *steps: str) -> None:
        (self.folder / "plan").write_text("".join(f"{step}\n" for step in steps))
        (self.folder / "runs").write_text("")

    @property
    def runs(self) -> list[str]:
        return (self.folder / "runs").read_text().splitlines()

    def failure(self) -> Failed:
        outcome = self.engine.probe(self.job).outcome
        assert isinstance(outcome, Failed)
        return outcome


@pytest.fixture
def lab(tmp_path: Path) -> Laboratory:
    return Laboratory(tmp_path, tmp_path)


@pytest.mark.parametrize(("second", "flaky"), [(CRASHES, False), (FAILS, True)])
def test_a_crash_is_confirmed_by_a_second_run(
    lab: Laboratory, second: str, flaky: bool
) -> None:
    lab.plan(CRASHES, second)
    outcome = lab.failure()
    assert outcome.flaky is flaky
    assert flaky or len(lab.runs) == 2
    recalled = lab.engine.probe(lab.job)
    assert (recalled.cached, recalled.outcome) == (True, outcome)


def test_a_trial_is_recorded_apart_from_probes(lab: Laboratory) -> None:
    lab.plan(CRASHES)
    trial = replace(lab.job, once=PassNaming.NEVER)
    assert [lab.engine.probe(trial).cached for _ in range(2)] == [False, True]
    assert len(lab.runs) == 1
    assert not lab.engine.probe(lab.job).cached


def test_a_cached_probe_has_the_case_of_its_job(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = SimpleNamespace(count_options=lambda _: [])
    monkeypatch.setattr(ScriptFamily, "kernels", kernels)
    lab.plan(FAILS)
    for cached in (False, True):
        [probe] = lab.engine.probe_all([replace(lab.job, resources=True)])
        assert (probe.cached, probe.case is lab.case) == (cached, True)


@pytest.fixture
def importing(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> ProbeJob:
    """Return the probe of a model that `importer.py` imports."""
    family = SimpleNamespace(onnx_importer="importer")
    monkeypatch.setattr("triage.execution.inputs.onnx_family", lambda: family)
    tools = SimpleNamespace(python_root=lab.folder)
    monkeypatch.setattr(ScriptFamily, "mlir_tools", lambda *_: tools)
    program = Input(lab.folder / "m.mlir", InputKind.ONNX, imported=True)
    return replace(lab.job, case=replace(lab.case, input=program))


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("onnx", Cause.RECIPE),
        ("iree.runtime", Cause.TOOLCHAIN),
        ("iree.compiler.tools.import_onnx", Cause.TOOLCHAIN),
    ],
)
def test_an_importer_may_lack_more_than_onnx(
    lab: Laboratory, importing: ProbeJob, module: str, cause: Cause
) -> None:
    (lab.folder / "importer.py").write_text(
        f"raise ImportError('No module named {module}')"
    )
    assert lab.engine.probe(importing).outcome.cause is cause


def test_a_failed_import_is_kept_for_its_limits_until_it_must_be_fresh(
    lab: Laboratory, importing: ProbeJob
) -> None:
    lab.plan(COMPILES)
    importer = lab.folder / "importer.py"
    importer.write_text("raise ValueError")
    assert isinstance(lab.engine.probe(importing).outcome, Failed)
    importer.write_text("import sys; open(sys.argv[-1], 'w').write('module {}')")
    longer = replace(importing.case, limits=Limits(timeout=61))
    fresh = replace(importing, fresh=True)
    for job, outcome in (
        (importing, Failed),
        (replace(importing, case=longer), Passed),
        (importing, Failed),
        (fresh, Passed),
        (importing, Passed),
    ):
        assert isinstance(lab.another_engine().probe(job).outcome, outcome)


def test_the_failing_pass_comes_from_another_run(lab: Laboratory) -> None:
    lab.plan(NAMES_ITS_PASS)
    assert lab.failure().failure.failing_pass == "SomePass"
    assert ["--report" in line for line in lab.runs] == [False, True]


def test_a_kill_from_outside_is_not_recorded(lab: Laboratory) -> None:
    lab.plan("kill -KILL $$")
    assert lab.engine.probe(lab.job).outcome.cause is Cause.ENVIRONMENT
    assert not lab.evidence.newest_of("m")


@pytest.mark.parametrize(
    ("sizes", "cause"), [({}, Cause.RECIPE), ({"a.py": 0}, Cause.ENVIRONMENT)]
)
def test_the_answer_of_an_install_that_is_damaged_meanwhile_is_not_kept(
    tmp_path: Path, sizes: dict[str, int], cause: Cause
) -> None:
    root = tmp_path / "toolchains" / "script-1.0.0"
    lab = Laboratory(tmp_path, root)
    lab.plan(f'rm -f "$here/a.py"; {MISSES_A_MODULE}')
    (root / "a.py").touch()
    manifest = {"folder": root.name, "release": None, "files": sizes}
    (root / MANIFEST).write_text(json.dumps(manifest))
    probes = [lab.engine.probe(lab.job) for _ in range(2)]
    assert [probe.outcome.cause for probe in probes] == [cause, cause]
    assert [probe.cached for probe in probes] == [False, not sizes]


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
    case, kept = replace(lab.case, run=RunSpec()), lab.folder / "kept"
    for engine in (lab.engine, lab.another_engine()):
        with pytest.raises(NoTask, match="memory"):
            reference_results(engine, case, lab.toolchain, Reference("1.0.0"), kept)
    assert len(lab.runs) == 1
