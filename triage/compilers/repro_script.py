"""Describe a compile in a reproducer, so that it can be repeated without triage."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from triage.model.case import Case, RunSpec
from triage.model.revision import Toolchain
from triage.recipes.run_values import TOLERANCES, dtype_of, read_value, split_value

MODULE_PLACE = "{module}"
"""Stands for the compiled file in `StandaloneCompile.run`."""
RULES_FILE = "failure.rules"  # a suffix that no recipe has


_COMPARE = """\
# the relative and the absolute difference that each type may have
limits = {limits}
for result, expected in zip(results, [{expected}]):
    assert result.shape == expected.shape, (result.shape, expected.shape)
    if result.dtype.kind in "biuc":
        np.testing.assert_array_equal(result, expected)
    else:
        limit = limits.get(result.dtype.name, (0, 0))
        result, expected = result.astype("float64"), expected.astype("float64")
        np.testing.assert_allclose(result, expected, *limit)
"""


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
    release: str
    """The name of the compiler and its version, for readers."""
    version: str | None
    """PEP 440."""
    requirement: str | None
    """What pip installs for a release, quoted for a shell."""
    failure_class: str
    function: PythonFunction | None = None
    """The kernel in the input."""
    run: tuple[str, ...] = ()
    """The command that runs the compiled file; empty if it is not run."""
    runtime: str | None = None
    """What pip installs for that command."""


@dataclass(frozen=True, slots=True)
class StandaloneCall:
    """The commands of a reproducer, for its README and its shell script."""

    install: str | None
    """Arguments of `pip install`, if pip can install the compiler."""
    words: tuple[str, ...]
    """The command that compiles."""
    script: str
    """The lines of the shell script that run all commands."""
    remark: str
    """A comment in the script about its variables."""
    setup: tuple[str, ...] = ()
    """Lines of the shell script before `script`."""
    may_exec: bool = True
    """Whether the script may `exec` its command; false if a line must follow it."""
    run_words: tuple[str, ...] = ()
    """The command that runs the compiled file; empty if it is not run."""

    @property
    def text(self) -> str:
        """The commands, each on a line."""
        commands = filter(None, (self.words, self.run_words))
        return "\n".join(map(shlex.join, commands))


class ReproScript:
    """Describes the compiles of a family whose compiler is a program. Other families
    override its methods.
    """

    module = "module.bin"
    """The name of the compiled file, if the reproducer runs it."""

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
            "limits": {"timeout": run.limits.timeout_text},
        }
        known = {name: value for name, value in keys.items() if value}
        return {"compiler": case.compiler, "run": known}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        """Return what users call the compiler."""
        return toolchain.program.name

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Return `program options source -o /dev/null`. If the compiled file is run, it
        is kept, and a second command runs it.
        """
        output = self.module if task.run else "/dev/null"
        words = (task.program, *task.options, task.source, "-o", output)
        run = tuple(word.replace(MODULE_PLACE, self.module) for word in task.run)
        lines, variables = [], []
        for program, *arguments in filter(None, (words, run)):
            variable = re.sub(r"\W", "_", program).upper()
            variables.append(variable)
            lines.append(f'"${{{variable}:-{program}}}" {shlex.join(arguments)}')
        remark = (
            "\n# The flags use that version's spelling. Set "
            f"{' and '.join(variables)} to use another compiler."
        )
        install = " ".join(filter(None, (task.requirement, task.runtime))) or None
        return StandaloneCall(
            install, words, " &&\n".join(lines), remark, may_exec=not run, run_words=run
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        """Return the scripts, name -> text, that the call needs next to the input."""
        return {}


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
    dtype = dtype_of(value.element)
    kind = f'"{dtype.name}"' if dtype.isbuiltin == 1 else f"ml_dtypes.{dtype.name}"
    shape = value.type.split("x")[:-1]
    if value.file is not None:
        array = f"np.fromfile({value.file!r}, {kind})"
    else:
        elements = read_value(text)
        assert elements is not None  # the program was run with it
        if elements.size and (elements == elements.flat[0]).all():
            return f"np.full([{', '.join(shape)}], {elements.flat[0]}, {kind})"
        array = f"np.array([{', '.join(map(str, elements.flat))}], {kind})"
    return f"{array}.reshape([{', '.join(shape)}])"


def comparison(run: RunSpec) -> str:
    """Return Python that compares `results`, a list of arrays, with the expected ones;
    empty if nothing is expected.
    """
    if not run.expected:
        return ""
    limits = {**TOLERANCES, **dict(run.tolerances)}
    relative = limits.pop("relative")
    return _COMPARE.format(
        limits={dtype_of(name).name: (relative, limits[name]) for name in limits},
        expected=", ".join(map(python_array, run.expected)),
    )
