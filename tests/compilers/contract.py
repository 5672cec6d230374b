"""What every compiler family must do. A family has a Sample; `test_contract.py` checks
each family of the registry, and a test of another family may do the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest
import yaml

from tests.reduce.made import reproducer
from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation
from triage.compilers.registry import family_of, load_cases
from triage.execution.engine import open_engine
from triage.execution.run_task import RunTask
from triage.execution.task import ProbeJob, Task
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, NoAnswer, Passed, Probe
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.processes.sealing import Seal
from triage.recipes.values import parse_version
from triage.reduce.reproducer import _standalone, portable_run
from triage.report.reproducer import write_reproducer
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True)
class Sample:
    """A small program of a family."""

    family: str
    """The value of `compiler`."""
    rev: str
    """A toolchain: a release, or `path:FOLDER`."""
    source: str
    """The name of the input."""
    program: str | bytes
    keys: str
    """The recipe's keys, except name, compiler and input."""
    right: str = ""
    """A key `run` whose results are right; empty if the family runs nothing."""
    wrong: str = ""
    """A key `run` whose results are wrong."""
    backends: frozenset[str] = frozenset()
    """Those of a toolchain that is not installed."""
    broken: str | bytes = ""
    """A program that does not compile, if the family runs nothing."""

    def recipe(self, folder: Path, run: str = "", program: str | bytes = "") -> Path:
        """Write the program and its recipe."""
        program = program or self.program
        data = program if isinstance(program, bytes) else program.encode()
        (folder / self.source).write_bytes(data)
        path = folder / "sample.yaml"
        start = f"name: sample\ncompiler: {self.family}\ninput: {self.source}\n"
        path.write_text(f"{start}{self.keys}\n{run}\n")
        return path


@dataclass(frozen=True)
class Contract:
    """Checks one family in an empty folder."""

    sample: Sample
    folder: Path

    @cached_property
    def case(self) -> Case:
        [case] = load_cases([self.sample.recipe(self.folder, self.sample.right)])
        return case

    @cached_property
    def family(self) -> Compiler:
        return family_of(self.case)

    @cached_property
    def imagined(self) -> Toolchain:
        """A toolchain that is not installed."""
        known = Capabilities(self.sample.backends)
        root = self.folder / "imagined"
        program = root / "bin" / "python"
        revision = Revision("1.0.0")
        return Toolchain(self.family.name, revision, "", root, program, known, "1.0.0")

    def refuses_a_program_that_does_not_run(self) -> None:
        with pytest.raises(EnvironmentFailure):
            self.family.describe(self.folder / "a" / "b" / "c" / "program", Seal(()))

    def names_no_path_in_what_decides_the_result(self, toolchain: Toolchain) -> None:
        """Results are stored by the options, and machines share them."""
        invocation = self.family.invocation(self.case, toolchain)
        if isinstance(invocation, NoAnswer):
            assert invocation.cause in (Cause.TOOLCHAIN, Cause.FLAG)
            return
        assert invocation == self.family.invocation(self.case, toolchain)
        text = " ".join(invocation.options)
        assert str(toolchain.root) not in text
        assert str(self.case.input.path) not in text
        self._reads_the_input(invocation, toolchain)

    def _reads_the_input(self, invocation: Invocation, toolchain: Toolchain) -> None:
        argv = invocation.argv(toolchain.program, self.case.input.path, Path("/out"))
        assert str(self.case.input.path) in argv
        assert "/out" in argv

    def says_why_a_backend_is_missing(self) -> None:
        if not self.sample.backends:
            return
        target = replace(self.case.target, backend="no-such-backend")
        answer = self.family.invocation(
            replace(self.case, target=target), self.imagined
        )
        assert isinstance(answer, NoAnswer)
        assert answer.cause in (Cause.TARGET, Cause.TOOLCHAIN)

    def writes_the_recipe_of_its_case(self) -> None:
        """The keys of a reproducer give the same case again."""
        keys = self.family.script.recipe_keys(self.case)
        again = yaml.safe_load(yaml.safe_dump(_plain(keys)))
        again |= {"name": "sample", "input": self.sample.source}
        target = self.case.target
        again["target"] = {"backend": target.backend, "chip": target.chip}
        again["target"] = {
            key: value for key, value in again["target"].items() if value
        }
        path = self.folder / "again.yaml"
        path.write_text(yaml.safe_dump(again))
        [case] = load_cases([path])
        assert (case.compiler, case.spec) == (self.case.compiler, self.case.spec)
        assert (case.run, case.rules) == (self.case.run, self.case.rules)

    def compiles_and_runs(self) -> None:
        """The checks that need the compiler."""
        right, wrong = self.sample.right, self.sample.wrong
        for run in filter(None, (right, wrong)) if right else [""]:
            [case] = load_cases([self.sample.recipe(self.folder, run)])
            for probe, toolchain in self._probed(case):
                if run == wrong and wrong:
                    assert isinstance(probe.outcome, Failed), probe.outcome
                    failure = probe.outcome.failure
                    assert failure.failure_class == "wrong-result"
                    assert failure.stage is Stage.COMPARE
                else:
                    assert isinstance(probe.outcome, Passed), probe.outcome
                self._is_described(toolchain)

    def repeats_a_failure_without_triage(self) -> None:
        """In an empty environment, the script of a reproducer succeeds where the
        program is right, and fails where it is wrong.
        """
        sample = self.sample
        recipes = [(sample.right, sample.program), (sample.wrong, sample.program)]
        if not sample.right:
            recipes = [("", sample.program), ("", sample.broken)]
        statuses = []
        for run, program in recipes:
            [case] = load_cases([sample.recipe(self.folder, run, program)])
            for folder, toolchain, tools in self._reproducers(case):
                script = [folder / "repro.sh"]
                env = self._empty_environment(toolchain, tools)
                done = subprocess.run(script, env=env, capture_output=True, check=False)
                statuses.append((done.returncode, done.stderr.decode()[-1000:]))
                nothing = {"PATH": "/usr/bin:/bin", "PYTHON": "/no/python"}
                lost = subprocess.run(
                    script, env=nothing, capture_output=True, check=False
                )
                assert lost.returncode == 127
        right, wrong = statuses
        assert right[0] == 0, right
        assert wrong[0] == 1, wrong

    def _reproducers(self, case: Case) -> Iterator[tuple[Path, Toolchain, list[Path]]]:
        """Yield the folder of a reproducer, the toolchain, and folders with programs
        that are installed next to it.
        """
        with open_engine([case]) as engine:
            ref = engine.registry.resolve(self.sample.rev, case.compiler)
            toolchain = engine.registry.obtain(ref)
            task = engine.planner.plan(case, toolchain)
            assert isinstance(task, Task), task
            engine.probe(ProbeJob(case, ref))
            made = reproducer()
            failing = replace(made.bad, case=case, version=toolchain.version)
            values: dict[str, bytes] = {}
            if case.run:
                case = replace(case, run=portable_run(task, case.run, values))
            source = f"input{case.input.path.suffix}"
            standalone = _standalone(task, case, failing, ref, source)
            reduction = replace(made.reduction, small=case, program=None)
            content = case.input.path.read_bytes()
            tools = [task.run.tool.parent] if isinstance(task.run, RunTask) else []
        yield (
            write_reproducer(
                replace(
                    made,
                    reduction=reduction,
                    compile=standalone,
                    file=source,
                    files={source: content, **values},
                ),
                self.folder / "reproducers",
            ),
            toolchain,
            tools,
        )

    def _empty_environment(
        self, toolchain: Toolchain, tools: list[Path]
    ) -> dict[str, str]:
        """Return the variables with which a user finds the compiler."""
        python = self.folder / "python"
        program, path = toolchain.program, toolchain.root
        if program.name != "python":
            program = Path(sys.executable)
        (self.folder / "setuptools.py").touch()  # old releases of Triton import it
        python.write_text(
            f'#!/bin/sh\nPYTHONPATH={path}:{self.folder} exec {program} "$@"\n'
        )
        python.chmod(0o755)
        places = [toolchain.program.parent, *tools, "/usr/bin", "/bin"]
        return {
            "PATH": ":".join(map(str, places)),
            "PYTHON": str(python),
            "TOOLCHAIN": str(toolchain.program),
            "HOME": str(self.folder),
        }

    def _probed(self, case: Case) -> Iterator[tuple[Probe, Toolchain]]:
        with open_engine([case]) as engine:
            ref: ToolchainRef = engine.registry.resolve(self.sample.rev, case.compiler)
            toolchain = engine.registry.obtain(ref)
            yield engine.probe(ProbeJob(case, ref)), toolchain

    def _is_described(self, toolchain: Toolchain) -> None:
        program = self.family.locate(toolchain.root)
        assert program == toolchain.program
        assert program.is_absolute()
        needs = self.family.needs(toolchain.root, program)
        assert needs.files
        assert all(path.exists() for path in needs.files)
        assert needs == self.family.needs(toolchain.root, program)
        known = self.family.describe(program, Seal(toolchain.reads))
        told, version = map(parse_version, (known.version, toolchain.version))
        assert (told and told.release) == (version and version.release)
        assert known.capabilities.backends >= self.sample.backends
        self.names_no_path_in_what_decides_the_result(toolchain)


CHECKS: Sequence[str] = (
    "refuses_a_program_that_does_not_run",
    "says_why_a_backend_is_missing",
    "writes_the_recipe_of_its_case",
)
"""Those that need no compiler."""


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "items"):
        return _plain(dict(value.items()))
    return value
