"""What every compiler family must do. A family has a Sample; `test_contract.py` checks
each family of the registry, and a test of another family may do the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

from tests.programs import write_program
from tests.reduce.made import reproducer
from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation
from triage.compilers.registry import family_of, load_cases
from triage.execution.engine import open_engine
from triage.execution.plan import plan_task
from triage.execution.task import ProbeJob, RunTask, Task
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Stage
from triage.model.outcome import Failed, Passed
from triage.model.revision import Toolchain
from triage.processes.sealing import Seal
from triage.recipes.values import parse_version, recipe_lines
from triage.reduce.reproducer import _standalone, portable_run
from triage.report.reproducer import keys_of_case, write_reproducer
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

    def refuses_a_program_that_does_not_run(self) -> None:
        with pytest.raises(EnvironmentFailure):
            self.family.describe(self.folder / "a" / "b" / "c" / "program", Seal(()))

    def writes_the_recipe_of_its_case(self) -> None:
        """The keys of a reproducer give the same case again."""
        keys = {"name": "sample", **keys_of_case(self.case, self.sample.source)}
        path = self.folder / "again.yaml"
        path.write_text("\n".join(recipe_lines(keys)))
        [case] = load_cases([path])
        assert (case.compiler, case.spec) == (self.case.compiler, self.case.spec)
        assert (case.run, case.rules) == (self.case.run, self.case.rules)

    def compiles_and_repeats_its_failure(self) -> None:
        """The checks that need the compiler. In an empty environment, the script of a
        reproducer succeeds where the program is right, and fails where it is wrong.
        """
        sample = self.sample
        broken = sample.program if sample.wrong else sample.broken
        samples = [(sample.right, sample.program), (sample.wrong, broken)]
        for status, (run, program) in enumerate(samples):
            [case] = load_cases([sample.recipe(self.folder, run, program)])
            with open_engine([case]) as engine:
                ref = engine.registry.resolve(sample.rev, case.compiler)
                toolchain = engine.registry.obtain(ref)
                outcome = engine.probe(ProbeJob(case, ref)).outcome
                task = plan_task(engine, case, toolchain)
            assert isinstance(outcome, Passed) is not bool(status), outcome
            if status and run:
                assert isinstance(outcome, Failed)
                assert outcome.failure.failure_class == "wrong-result"
                assert outcome.failure.stage is Stage.COMPARE
            self._is_described(toolchain)
            script = self._reproducer(task, ref) / "repro.sh"
            env = self._environment(task)
            done = subprocess.run(script, env=env, capture_output=True)
            assert done.returncode == status, done.stderr
            nothing = {"PATH": "/usr/bin:/bin", "PYTHON": "/no/python"}
            lost = subprocess.run(script, env=nothing, capture_output=True)
            assert lost.returncode == 127

    def _reproducer(self, task: Task, ref: ToolchainRef) -> Path:
        """Write the reproducer of a task, as if it failed. Return its folder."""
        made, case = reproducer(), task.case
        failing, *_ = (
            probe for probe in made.reduction.probes if probe.outcome.failure
        )
        failing = replace(failing, case=case, version=task.toolchain.version)
        source = f"input{case.input.path.suffix}"
        files = {source: case.input.path.read_bytes()}
        if case.run:
            case = replace(case, run=portable_run(task, case.run, files))
        return write_reproducer(
            replace(
                made,
                reduction=replace(made.reduction, small=case, program=None),
                compile=_standalone(task, case, failing, ref, source),
                file=source,
                files=files,
            ),
            self.folder / "reproducers",
        )

    def _environment(self, task: Task) -> dict[str, str]:
        """Return the variables with which a user finds the compiler, and nothing
        else.
        """
        program = task.toolchain.program
        places = [program.parent]
        if isinstance(task.run, RunTask):
            places.append(task.run.tool.parent)
        path = f"{task.toolchain.root}:{self.folder}"
        (self.folder / "setuptools.py").touch()  # old releases of Triton import it
        own = program if program.name == "python" else sys.executable
        start = f'#!/bin/sh\nPYTHONPATH={path} exec {own} "$@"\n'
        python = write_program(self.folder / "python", start)
        return {
            "PATH": ":".join([*map(str, places), "/usr/bin", "/bin"]),
            "PYTHON": str(python),
            "TOOLCHAIN": str(program),
            "HOME": str(self.folder),
        }

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
        invocation = self.family.invocation(self.case, toolchain)
        assert isinstance(invocation, Invocation)
        assert invocation == self.family.invocation(self.case, toolchain)
        # results are stored by the options, and machines share them
        text, source = " ".join(invocation.options), self.case.input.path
        assert str(toolchain.root) not in text
        assert str(source) not in text
        argv = invocation.argv(program, source, Path("/out"))
        assert {str(source), "/out"} < set(argv)


CHECKS: Sequence[str] = (
    "refuses_a_program_that_does_not_run",
    "writes_the_recipe_of_its_case",
)
"""Those that need no compiler."""
