"""The prober, with a shell script in place of a compiler."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.execution.no_importer import inputs_without_importer
from triage.classify import FailingPass
from triage.compilers.base import Compiler, Description
from triage.compilers.invocation import Invocation
from triage.execution.cache import Evidence
from triage.execution.prober import Naming, Prober
from triage.execution.scratch import Scratch
from triage.model.case import Artifact, Case, Flag, Input, InputKind, RunSpec, Target
from triage.model.errors import Interrupted
from triage.model.execution import Ending, Execution, Limits
from triage.model.outcome import Cause, Compiled, Failed, Untestable
from triage.model.revision import Capabilities, Revision, Toolchain

# Notes its arguments, then does what the next line of the plan says; its last line says it for all later runs.
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
HANGS = "exec sleep 60"
KILLED = "kill -KILL $$"
NAMES_ITS_PASS = """case "$*" in *--report*)
 echo '// -----// IR Dump After SomePass Failed (some-pass) //----- //' >&2;; esac; exit 1""".replace("\n", "")


class ScriptFamily(Compiler):
    name = "script"
    folders = "any"

    def locate(self, root: Path) -> Path | None:
        return root / "compiler"

    def describe(self, program: Path) -> Description:
        raise NotImplementedError

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        flags = tuple(flag.text for flag in case.flags)
        unknown = next((flag for flag in flags if flag == "--unknown"), None)
        return Untestable(Cause.FLAG, f"does not know the flag {unknown}") if unknown else Invocation(flags)

    def with_pass_reporting(self, invocation: Invocation) -> Invocation:
        return replace(invocation, printing=("--report",))

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        return replace(invocation, printing=("--one-thread",))


@dataclass
class Laboratory:
    """A prober, a toolchain whose compiler is the script, and a case."""

    folder: Path
    prober: Prober
    evidence: Evidence
    stop: threading.Event

    def plan(self, *steps: str) -> None:
        (self.folder / "plan").write_text("".join(f"{step}\n" for step in steps))
        (self.folder / "runs").write_text("")

    @property
    def runs(self) -> list[str]:
        return (self.folder / "runs").read_text().splitlines()

    @property
    def toolchain(self) -> Toolchain:
        return lab_toolchain(self.folder)

    def case(self, *flags: str, timeout: float = 60.0) -> Case:
        source = Input(self.folder / "m.mlir", InputKind.MLIR)
        target, given = Target("llvm-cpu"), tuple(map(Flag, flags))
        return Case("m", "m", "", "script", self.folder / "m.yaml", source, target, given, limits=Limits(timeout=timeout))


def lab_toolchain(folder: Path) -> Toolchain:
    return Toolchain("script", Revision("1.0.0"), "identity", folder, folder / "compiler", Capabilities(), "1.0.0")


def no_download(url: str, _target: Path) -> None:
    raise AssertionError(url)


@pytest.fixture
def lab(tmp_path: Path) -> Laboratory:
    (tmp_path / "m.mlir").write_text("module {}")
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    evidence, stop = Evidence(tmp_path / "evidence.db"), threading.Event()
    inputs = inputs_without_importer(tmp_path)
    prober = Prober(
        tmp_path,
        {"script": ScriptFamily()},
        evidence,
        inputs,
        stop,
        runtime=lambda toolchain, _: toolchain.root,
        toolchain_of=lambda _rev, _family: lab_toolchain(tmp_path),
        download=no_download,
    )
    return Laboratory(tmp_path, prober, evidence, stop)


def test_a_probe_is_recalled(lab: Laboratory) -> None:
    lab.plan(COMPILES)
    assert lab.prober.recall(lab.case(), lab.toolchain) is None
    first = lab.prober.probe(lab.case(), lab.toolchain)
    again = lab.prober.probe(lab.case(), lab.toolchain)
    assert isinstance(first.outcome, Compiled)
    assert (first.cached, again.cached, len(lab.runs)) == (False, True, 1)
    assert first.measured.metrics == {"artifact_bytes": len("artifact\n")}
    assert lab.prober.recall(lab.case(), lab.toolchain) == again


@dataclass(frozen=True)
class NoArguments:
    """The arguments of a program that has none, which is known only once it is there."""

    def artifacts(self) -> tuple[Artifact, ...]:
        return ()


@pytest.mark.parametrize("run", [None, RunSpec(), RunSpec(arguments=NoArguments())])
def test_a_probe_has_the_case_that_was_asked_for(lab: Laboratory, run: RunSpec | None) -> None:
    lab.plan(COMPILES)
    case = replace(lab.case(), run=run)
    assert lab.prober.probe(case, lab.toolchain).case is case  # searches match their candidates with it


def test_a_fresh_probe_runs_again(lab: Laboratory) -> None:
    lab.plan(COMPILES)
    lab.prober.probe(lab.case(), lab.toolchain)
    assert not lab.prober.probe(lab.case(), lab.toolchain, fresh=True).cached
    assert len(lab.runs) == 2


def test_results_that_disagree_without_a_change_are_unsteady(lab: Laboratory) -> None:
    lab.plan(COMPILES, COMPILES, FAILS)
    assert not lab.prober.is_unsteady(lab.case(), lab.toolchain)
    lab.prober.probe(lab.case(), lab.toolchain)
    lab.prober.probe(lab.case(), lab.toolchain, fresh=True)
    assert not lab.prober.is_unsteady(lab.case(), lab.toolchain)
    lab.prober.probe(lab.case(), lab.toolchain, fresh=True)
    assert lab.prober.is_unsteady(lab.case(), lab.toolchain)
    assert not lab.prober.is_unsteady(lab.case("--flag"), lab.toolchain)


def test_the_output_of_a_compile_is_kept(lab: Laboratory) -> None:
    lab.plan(FAILS)
    assert lab.prober.output(lab.case(), lab.toolchain) is None
    lab.prober.probe(lab.case(), lab.toolchain)
    assert "no such thing" in (lab.prober.output(lab.case(), lab.toolchain) or "")


def test_other_flags_are_another_probe(lab: Laboratory) -> None:
    lab.plan(COMPILES)
    lab.prober.probe(lab.case(), lab.toolchain)
    assert not lab.prober.probe(lab.case("--flag"), lab.toolchain).cached
    assert [line.split()[0] == "--flag" for line in lab.runs] == [False, True]


def test_a_failure_is_believed_at_once(lab: Laboratory) -> None:
    lab.plan(FAILS)
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Failed)
    assert not outcome.flaky
    assert len([line for line in lab.runs if "--report" not in line]) == 1


def test_a_crash_is_confirmed_by_a_second_run(lab: Laboratory) -> None:
    lab.plan(CRASHES)
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Failed)
    assert not outcome.flaky
    assert len(lab.runs) == 2


def crashes_in(function: str) -> str:
    return f"echo ' #0 0x0000000000000001 {function}() (lib.so+0x1)' >&2; {CRASHES}"


def test_a_crash_that_prints_the_same_stack_twice_needs_no_third_run(lab: Laboratory) -> None:
    lab.plan(crashes_in("ns::first"))
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.signature == "segfault:ns::first"
    assert len(lab.runs) == 2


def test_of_threads_that_crash_at_different_places_a_run_on_one_thread_decides(lab: Laboratory) -> None:
    lab.plan(crashes_in("ns::first"), crashes_in("ns::second"), crashes_in("ns::third"))
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.failure.signature, outcome.flaky) == ("segfault:ns::third", False)
    assert ["--one-thread" in line for line in lab.runs] == [False, False, True]


def test_a_crash_from_before_stacks_had_names_is_run_again(lab: Laboratory) -> None:
    old = "echo 'Stack dump without symbol names (ensure you have llvm-symbolizer in your PATH)' >&2"
    lab.plan(f"{old}; {CRASHES}", f"{old}; {CRASHES}", crashes_in("ns::first"))
    lab.prober.probe(lab.case(), lab.toolchain)
    probe = lab.prober.probe(lab.case(), lab.toolchain)
    assert not probe.cached
    assert isinstance(probe.outcome, Failed)
    assert probe.outcome.failure.signature == "segfault:ns::first"
    assert not lab.prober.is_unsteady(lab.case(), lab.toolchain)


def test_two_of_three_runs_decide_after_a_crash(lab: Laboratory) -> None:
    lab.plan(CRASHES, COMPILES)
    assert isinstance(lab.prober.probe(lab.case(), lab.toolchain).outcome, Compiled)
    assert len(lab.runs) == 3


def test_a_failure_with_which_a_run_disagrees_is_flaky(lab: Laboratory) -> None:
    lab.plan(CRASHES, FAILS)
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Failed)
    assert outcome.flaky
    recalled = lab.prober.probe(lab.case(), lab.toolchain)
    assert recalled.cached
    assert recalled.outcome == outcome


def test_a_timeout_is_repeated(lab: Laboratory) -> None:
    lab.plan(HANGS)
    probe = lab.prober.probe(lab.case(timeout=0.3), lab.toolchain)
    assert isinstance(probe.outcome, Failed)
    assert len([line for line in lab.runs if "--report" not in line]) == 2


def test_the_failing_pass_comes_from_another_run(lab: Laboratory) -> None:
    lab.plan(NAMES_ITS_PASS)
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.failing_pass == "SomePass"
    assert ["--report" in line for line in lab.runs] == [False, True]


def test_a_kill_from_outside_is_not_recorded(lab: Laboratory) -> None:
    lab.plan(KILLED)
    outcome = lab.prober.probe(lab.case(), lab.toolchain).outcome
    assert isinstance(outcome, Untestable)
    assert outcome.cause is Cause.ENVIRONMENT
    assert lab.evidence.count() == 0


def test_nothing_runs_for_a_flag_that_the_version_does_not_have(lab: Laboratory) -> None:
    lab.plan(COMPILES)
    outcome = lab.prober.probe(lab.case("--unknown"), lab.toolchain).outcome
    assert isinstance(outcome, Untestable)
    assert (outcome.cause, lab.runs) == (Cause.FLAG, [])


def test_a_trial_believes_one_run_and_each_attempt_is_cached(lab: Laboratory) -> None:
    lab.plan(CRASHES)
    for attempt in (0, 0, 1):
        assert isinstance(lab.prober.trial(lab.case(), lab.toolchain, Naming.NEVER, attempt=attempt).outcome, Failed)
    assert len(lab.runs) == 2
    assert lab.prober.recall(lab.case(), lab.toolchain) is None


def test_a_trial_names_the_pass_in_its_only_run(lab: Laboratory) -> None:
    lab.plan("echo 'm.mlir:1:1: error: failed to legalize operation' >&2; " + NAMES_ITS_PASS.replace(CRASHES, "exit 1"))
    outcome = lab.prober.trial(lab.case(), lab.toolchain, Naming.AT_ONCE).outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.failing_pass == "SomePass"
    assert len(lab.runs) == 1


def test_a_cancelled_trial_is_interrupted_and_not_recorded(lab: Laboratory) -> None:
    lab.plan(HANGS)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Interrupted):
        lab.prober.trial(lab.case(), lab.toolchain, Naming.NEVER, cancelled=cancelled)
    assert lab.evidence.count() == 0


def test_a_stop_interrupts_a_probe_and_nothing_is_recorded(lab: Laboratory) -> None:
    lab.plan(HANGS)
    lab.stop.set()
    with pytest.raises(Interrupted):
        lab.prober.probe(lab.case(), lab.toolchain)
    assert lab.evidence.count() == 0


def test_an_observed_run_passes_its_output_on(lab: Laboratory) -> None:
    lab.plan(f"echo warning >&2; {COMPILES}")
    printed, written = bytearray(), []
    execution = lab.prober.observe(
        lab.case(),
        lab.toolchain,
        lambda invocation: replace(invocation, printing=("--altered",)),
        on_stderr=printed.extend,
        on_output=lambda path: written.append(path.read_text()),
    )
    assert isinstance(execution, Execution)
    assert execution.ending is Ending.EXITED
    assert (bytes(printed), written) == (b"warning\n", ["artifact\n"])
    assert lab.runs[0].startswith("--altered")
    assert lab.evidence.count() == 0


def test_a_record_has_no_path_of_this_machine(lab: Laboratory) -> None:
    lab.plan(COMPILES)
    lab.prober.probe(lab.case("--flag"), lab.toolchain)
    recorded = lab.prober.recorded(lab.case("--flag"), lab.toolchain)
    assert recorded is not None
    assert str(lab.folder) not in " ".join(recorded[1].argv)
    assert recorded[1].argv[:2] == ("compiler", "--flag")


def test_the_folder_of_a_run_is_removed(lab: Laboratory) -> None:
    lab.plan("touch dropped; pwd >&2; exit 1")
    lab.prober.probe(lab.case(), lab.toolchain)
    assert not list((lab.folder / "scratch").iterdir())


def test_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / "scratch" / "4194305-dead").mkdir(parents=True)  # above the largest process id
    (tmp_path / "scratch" / "1-alive").mkdir()
    with Scratch(tmp_path / "scratch").folder() as folder:
        assert folder.is_dir()
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["1-alive"]


def test_a_folder_of_a_process_in_another_container_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = Scratch(tmp_path / "scratch")
    monkeypatch.setattr("os.getpid", lambda: 4194305)  # no process has it here
    with scratch.folder() as folder:
        Scratch(tmp_path / "scratch")
        assert folder.is_dir()
    folder.mkdir()
    Scratch(tmp_path / "scratch")
    assert not folder.exists()


def test_the_pass_of_a_record_is_kept(lab: Laboratory) -> None:
    lab.plan(NAMES_ITS_PASS)
    lab.prober.probe(lab.case(), lab.toolchain)
    [kept] = lab.evidence.newest_of(lab.case().name)
    assert kept.failing_pass == FailingPass("SomePass", "some-pass")
