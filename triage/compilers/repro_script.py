"""Describe a compile in a reproducer, so that it can be repeated without triage."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triage.model.case import Case, RunSpec
from triage.model.execution import Limits
from triage.model.revision import FamilyRef, Toolchain
from triage.recipes.run_values import (
    TOLERANCES,
    array_dtype,
    file_value,
    read_value,
    split_value,
    value_ending,
)
from triage.recipes.values import format_size

MODULE_PLACE = "{module}"
"""Stands for the compiled file in `StandaloneCompile.run`."""
RULES_FILE = "failure.rules"  # a suffix that no recipe has
COMPARE = "compare.py"
REPRO = "repro.py"
NO_OUTPUT = "no-output"  # the class of a compile that wrote nothing
_PYTHON = "python3"
_SHELL_PYTHON = '"${PYTHON:-python3}"'
_TYPES = "ml_dtypes."  # part of a script that needs this package


_LOAD = """\
from math import inf, nan

import numpy as np

results = [{results}]
"""
_COMPARE = """\
# the relative and the absolute difference that each type may have
limits = {limits}
for result, expected in zip(results, [{expected}]):
    assert result.shape == expected.shape, (result.shape, expected.shape)
    if result.dtype.kind in "biucU":
        np.testing.assert_array_equal(result, expected)
    else:
        limit = limits.get(result.dtype.name, (0, 0))
        result, expected = result.astype("float64"), expected.astype("float64")
        np.testing.assert_allclose(result, expected, *limit)
"""


def limits_keys(limits: Limits) -> dict[str, str]:
    """Return limits as a recipe has them; the usual one for output is left out."""
    keys = {"timeout": limits.timeout_text, "memory": format_size(limits.memory)}
    if limits.output != Limits().output:
        keys["output"] = format_size(limits.output)
    return keys


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A kernel function in a Python file."""

    name: str
    """As the file refers to it: `softmax`, or `softmax.fn` below an autotuner."""
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneCompile:
    """A compile that a reproducer repeats."""

    case: Case
    source: str
    """File name of the input."""
    program: str
    """The name of the compiler's program."""
    options: tuple[str, ...]
    """The command line without program, input and output."""
    version: str | None
    """PEP 440."""
    packages: tuple[str, ...]
    """What pip installs, quoted for a shell; empty for a compiler that is a folder."""
    failure_class: str
    function: PythonFunction | None = None
    """The kernel in the input."""
    run: tuple[str, ...] = ()
    """The command that runs the compiled file; empty if it is not run."""


@dataclass(frozen=True, slots=True)
class StandaloneCall:
    """The commands of a reproducer, for its README and its shell script."""

    packages: tuple[str, ...]
    """What pip installs."""
    text: str
    """The commands, each on a line."""
    script: str
    """The lines of the shell script that run all commands."""
    setup: tuple[str, ...] = ()
    """Lines of the shell script before `script`."""
    output: str = ""
    """The output file, as the shell script names it."""


class ReproScript:
    """Describes the compiles of a family whose compiler is a program. Other families
    override its methods.
    """

    def __init__(self, module: str = "module.bin") -> None:
        """`module` is the name of the compiled file, if the reproducer runs it."""
        self.module = module

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        """Return `compiler`, `run`, and the recipe keys that only this family has."""
        run = case.run
        if run is None:
            return {"compiler": case.compiler}
        keys = {
            "inputs": run.inputs,
            "expected": run.expected,
            "function": run.function,
            "device": run.device,
            "flags": run.flags,
            "tolerance": dict(run.tolerances),
            "limits": limits_keys(run.limits),
        }
        run_keys = {name: value for name, value in keys.items() if value}
        return {"compiler": case.compiler, "run": run_keys}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        """Return what users call the compiler."""
        return toolchain.program.name

    def commands(self, task: StandaloneCompile, output: str) -> list[tuple[str, ...]]:
        """Return the commands that compile to a file, and that run it if need be."""
        compiling = (task.program, *task.options, task.source, "-o", output)
        return [compiling, task.run] if task.run else [compiling]

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Return the commands that compile, run and compare. A compiled file that is
        not run is not kept.
        """
        keeps_output = task.run or task.failure_class == NO_OUTPUT
        output = self.module if keeps_output else "/dev/null"
        commands = self.commands(task, output)
        packages, setup = task.packages, tuple[str, ...]()
        comparing = self.files(task).get(COMPARE)
        if comparing:
            commands.append((_PYTHON, COMPARE))
            module = "numpy"
            if _TYPES in comparing:
                module = "ml_dtypes"
                packages = (*packages, module)
            setup = (f'{_SHELL_PYTHON} -c "import {module}" || exit 127',)
        lines = []
        for program, *arguments in commands:
            variable = re.sub(r"\W", "_", program.removesuffix("3")).upper()
            line = f'"${{{variable}:-{program}}}" {shlex.join(arguments)}'
            lines.append(line.replace(MODULE_PLACE, output))
        text = "\n".join(map(shlex.join, commands)).replace(MODULE_PLACE, output)
        return StandaloneCall(packages, text, " &&\n".join(lines), setup, output)

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        """Return the scripts, name -> text, that the call needs next to the input."""
        run = task.case.run
        if task.run and run and run.expected:
            return {COMPARE: comparing_script(run)}
        return {}


class PackageScript(ReproScript):
    """Repeats a compile with a Python script that needs a package."""

    def __init__(self, package: str, module: str) -> None:
        """`module` is what the script imports of the package."""
        super().__init__()
        self.package, self.imported = package, module

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return self.package

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Return the command that runs the script next to the input."""
        return StandaloneCall(
            task.packages,
            f"{_PYTHON} {REPRO}",
            f"{_SHELL_PYTHON} {REPRO}",
            (f'{_SHELL_PYTHON} -c "import {self.imported}" || exit 127',),
        )


class WorkerScript(ReproScript):
    """Repeats what a family's worker does, with a copy of it."""

    def __init__(self, worker: Path) -> None:
        super().__init__()
        self.worker = worker

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return FamilyRef.parse(toolchain.family).title

    def commands(self, task: StandaloneCompile, output: str) -> list[tuple[str, ...]]:
        compiling, *running = super().commands(task, output)
        worker = (_PYTHON, self.worker.name)
        commands = [(*worker, *compiling[1:])]
        commands += [(*worker, *words[words.index("run") :]) for words in running]
        return commands

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        call = super().call(task)
        check = f"{_SHELL_PYTHON} {self.worker.name} describe >/dev/null || exit 127"
        return replace(call, setup=(check, *call.setup))

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        """Return the worker, and the script that compares."""
        worker = {self.worker.name: self.worker.read_text("utf-8")}
        return {**worker, **super().files(task)}


def result_files(run: RunSpec) -> list[Path]:
    """Return the files for results, one for each expected one."""
    files = []
    for index, value in enumerate(map(split_value, run.expected)):
        ending = value_ending(value.type) if value.type else ".npy"
        files.append(Path(f"result_{index}{ending}"))
    return files


def python_array(text: str) -> str:
    """Return the Python expression of a value. It needs `np`, `ml_dtypes`, `nan` and
    `inf`.

    >>> python_array("2xf32=1 nan")
    'np.array([1.0, nan], "float32").reshape([2])'
    """
    value = split_value(text)
    if value.file is not None and not value.type:
        return f"np.load({value.file!r})"
    if not value.type:
        return f"np.array({value.literal})"
    dtype = array_dtype(value.element)
    kind = f'"{dtype.name}"' if dtype.isbuiltin == 1 else f"ml_dtypes.{dtype.name}"
    shape = value.type.split("x")[:-1]
    if value.file is not None:
        array = f"np.fromfile({value.file!r}, {kind})"
    else:
        elements = read_value(text)
        assert elements is not None  # the program was run with it
        array = f"np.array([{', '.join(map(str, elements.flat))}], {kind})"
    return f"{array}.reshape([{', '.join(shape)}])"


def comparison(run: RunSpec) -> str:
    """Return Python that compares `results`, a list of arrays, with the expected
    ones.
    """
    limits = {**TOLERANCES, **dict(run.tolerances)}
    relative = limits.pop("relative")
    return _COMPARE.format(
        limits={array_dtype(name).name: (relative, limits[name]) for name in limits},
        expected=", ".join(map(python_array, run.expected)),
    )


def comparing_script(run: RunSpec) -> str:
    """Return a script in Python that compares the `result_files` of a run with the
    expected results.
    """
    values = (python_array(file_value(file)) for file in result_files(run))
    text = _LOAD.format(results=", ".join(values)) + comparison(run)
    if _TYPES in text:
        return f"import ml_dtypes\n{text}"
    return text
