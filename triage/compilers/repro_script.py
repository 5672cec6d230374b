"""Describe a compile in a reproducer, so that it can be repeated without triage."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triage.compilers.invocation import fill_placeholders
from triage.model.case import Case, RunSpec
from triage.recipes.run_values import (
    TOLERANCES,
    array_dtype,
    file_value,
    read_value,
    split_value,
    value_suffix,
)

MODULE_PLACE = "{module}"
"""Stands for the compiled file in `StandaloneCompile.run`."""
RULES_FILE = "failure.rules"  # a suffix that no recipe has
_COMPARE = "compare.py"
_REPRO = "repro.py"
NO_OUTPUT = "no-output"  # the class of a compile that wrote nothing
_PYTHON = "python3"
_SHELL_PYTHON = '"${PYTHON:-python3}"'
_VARIABLES = {"{python}": _SHELL_PYTHON, "{toolchain}": '"$TOOLCHAIN"'}
_TYPES = "ml_dtypes."  # part of a script that needs this package


_LOAD = """\
from math import inf, nan

import numpy as np

results = [{results}]
"""
_COMPARISON = """\
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


@dataclass(frozen=True)
class PythonFunction:
    """A kernel function in a Python file."""

    name: str
    """As the file refers to it: `softmax`, or `softmax.fn` below an autotuner."""
    parameters: tuple[str, ...]


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class StandaloneCall:
    """The commands of a reproducer, for its README and its shell script.

    >>> call = StandaloneCall((), [["{python}", "a b.py"], ["iree-opt", "c.mlir"]])
    >>> print(call.text)
    python3 'a b.py'
    iree-opt c.mlir
    >>> print(call.shell_script)
    "${PYTHON:-python3}" 'a b.py' &&
    "${IREE_OPT:-iree-opt}" c.mlir
    """

    packages: tuple[str, ...]
    """What pip installs."""
    commands: Sequence[Sequence[str]]
    """`{python}` and `{toolchain}` in their words are variables of the shell script."""
    setup: Sequence[str] = ()
    """Lines of the shell script before the commands."""
    output: str = ""
    """The output file."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The scripts that the commands need next to the input, name -> text."""

    @property
    def text(self) -> str:
        """The commands, each on a line."""
        shown = {"python": _PYTHON}
        return "\n".join(
            shlex.join(fill_placeholders(word, shown) for word in words)
            for words in self.commands
        )

    @property
    def shell_script(self) -> str:
        """The lines of the shell script that run all commands."""
        lines = []
        for program, *words in self.commands:
            start = _shell_word(program)
            if re.fullmatch(r"[\w-]+", program):
                start = f'"${{{program.replace("-", "_").upper()}:-{program}}}"'
            lines.append(" ".join([start, *map(_shell_word, words)]))
        return " &&\n".join(lines)


def _shell_word(word: str) -> str:
    """Quote a word for the shell, except the variables in it."""
    parts = filter(None, re.split(r"(\{python\}|\{toolchain\})", word))
    return "".join(_VARIABLES.get(part) or shlex.quote(part) for part in parts) or "''"


def script_call(task: StandaloneCompile, script: str, module: str) -> StandaloneCall:
    """Return the command that runs a Python script next to the input. `module` is what
    the script imports.
    """
    check = f'{_SHELL_PYTHON} -c "import {module}" || exit 127'
    files = {_REPRO: script}
    return StandaloneCall(task.packages, [("{python}", _REPRO)], [check], files=files)


def program_call(
    task: StandaloneCompile, module: str, worker: Path | None
) -> StandaloneCall:
    """Return the commands that compile, run and compare.

    Args:
        task: The compile.
        module: The name of the compiled file, which is kept if it is run.
        worker: The script that compiles and runs, if the compiler is not a program. The
            reproducer has a copy of it.
    """
    output = "/dev/null"
    if task.run or task.failure_class == NO_OUTPUT:
        output = module
    start = [task.program]
    run_words = [*task.run]
    packages = task.packages
    files = dict[str, str]()
    setup = list[str]()
    if worker:
        start = ["{python}", worker.name]
        if run_words:
            run_words = [*start, *run_words[run_words.index("run") :]]
        files[worker.name] = worker.read_text("utf-8")
        check = f"{_SHELL_PYTHON} {worker.name} describe >/dev/null || exit 127"
        setup.append(check)
    commands = [[*start, *task.options, task.source, "-o", output]]
    if run_words:
        commands.append([word.replace(MODULE_PLACE, output) for word in run_words])
    run = task.case.run
    if run_words and run and run.expected:
        files[_COMPARE] = comparing_script(run)
        commands.append(["{python}", _COMPARE])
        imported = "numpy"
        if _TYPES in files[_COMPARE]:
            imported = "ml_dtypes"
            packages = (*packages, imported)
        setup.append(f'{_SHELL_PYTHON} -c "import {imported}" || exit 127')
    return StandaloneCall(packages, commands, setup, output, files)


def result_files(run: RunSpec) -> list[Path]:
    """Return the files for results, one for each expected one."""
    files = []
    for index, value in enumerate(map(split_value, run.expected)):
        ending = value_suffix(value.type) if value.type else ".npy"
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


def comparison_code(run: RunSpec) -> str:
    """Return Python that compares `results`, a list of arrays, with the expected
    ones.
    """
    limits = {**TOLERANCES, **dict(run.tolerances)}
    relative = limits.pop("relative")
    return _COMPARISON.format(
        limits={array_dtype(name).name: (relative, limits[name]) for name in limits},
        expected=", ".join(map(python_array, run.expected)),
    )


def comparing_script(run: RunSpec) -> str:
    """Return a script in Python that compares the `result_files` of a run with the
    expected results.
    """
    values = (python_array(file_value(file)) for file in result_files(run))
    text = _LOAD.format(results=", ".join(values)) + comparison_code(run)
    if _TYPES in text:
        return f"import ml_dtypes\n{text}"
    return text
