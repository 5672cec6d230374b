"""The run of a compiled case: execute it with the values of its recipe, and measure how
far its results are off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import mismatch_line
from triage.compilers.parts import RunValues
from triage.execution.files import KeptFiles, digest_of
from triage.execution.inputs import recipe_mistake
from triage.execution.metric import RUN_MS
from triage.execution.reads import files_in, surroundings
from triage.model.case import Case, RunSpec
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Captured, Execution, Limits
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.containment import settings
from triage.processes.process import StopSignal, run
from triage.processes.sealing import Seal
from triage.recipes.run_values import (
    TOLERANCES,
    converted,
    element_type,
    file_value,
    identity_of,
    read_value,
    tensor_proto,
)

if TYPE_CHECKING:
    from triage.compilers.base import Compiler
    from triage.compilers.parts import Measures, Runner, Surroundings
    from triage.toolchains.contents import Contents


def agreeing_runs(
    start: Callable[[], Execution],
    is_sure: Callable[[Execution], bool],
    agreement: Callable[[Execution], object],
) -> tuple[list[Execution], int]:
    """Run once, or up to three times if one run does not prove how it ends; return the
    majority and how many disagree.

    `agreement` returns what is equal for executions that agree.
    """
    runs = [start()]
    if not is_sure(runs[0]):
        runs.append(start())
        if agreement(runs[0]) != agreement(runs[1]):
            runs.append(start())
    agreements = [agreement(execution) for execution in runs]
    most_common = max(agreements, key=agreements.count)
    same = [
        execution
        for execution, own in zip(runs, agreements, strict=True)
        if own == most_common
    ]
    return same, len(runs) - len(same)


@dataclass(frozen=True, slots=True)
class RunTask:
    """A run that can be made."""

    case: Case
    spec: RunSpec
    runner: Runner
    measures: Measures | None
    tool: Path
    """The executable of the runtime."""
    options: tuple[str, ...]
    """Without values."""
    libraries: tuple[Path, ...]
    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    identity: str
    """Decides the result, together with the compiled file."""
    reads: tuple[Path, ...] = ()
    """The folders of the runtime."""
    overlooks_nan: bool = False
    """The program takes NaN for any number, so that results are compared here, too."""

    def make(
        self, module: Path, stop: StopSignal, agreement: Callable[[Execution], object]
    ) -> tuple[Execution, int]:
        """Run a compiled file, and again one that fails or is slow; see
        `agreeing_runs`.

        Returns:
            The result that most runs have, with numbers on wrong results as its
                metrics, and how many runs disagree.
        """
        same, disagreements = agreeing_runs(
            lambda: self._run_and_compare(module, stop),
            lambda execution: execution.ok and not self._is_slow(execution),
            agreement,
        )
        metrics = {"run_seconds": min(execution.seconds for execution in same)}
        times = [time for execution in same for time in self._milliseconds(execution)]
        if times:
            metrics[RUN_MS] = min(times)
        if self.expected and same[0].exit_code:
            _, files = self.results(module, module.parent, stop)
            _, numbers = self._first_wrong(files)
            metrics |= numbers
        return replace(same[0], metrics=metrics), disagreements

    def results(
        self, module: Path, folder: Path, stop: StopSignal
    ) -> tuple[Execution, list[Path]]:
        """Run a compiled file twice, to count its results and to write them to files
        in a folder. Return the last run, and the files; none if a run fails.
        """
        printed = self.start(module, stop)
        if not printed.ok:
            return printed, []
        files = self.runner.result_files(printed.stdout.text, folder)
        saved = self.start(module, stop, results=files)
        return saved, files if saved.ok else []

    def start(
        self,
        module: Path,
        stop: StopSignal,
        expected: Sequence[str] = (),
        results: Sequence[Path] = (),
        *,
        reads_all: bool = False,
        **env: str,
    ) -> Execution:
        """Run a compiled file once. `expected` is compared by the program, which writes
        its results to `results`. With `reads_all`, it may read everything.
        """
        argv = self.runner.argv(
            self.tool,
            module,
            self.options,
            RunValues(self.inputs, expected, results),
            self.libraries,
        )
        if self.spec.measured and self.measures:
            argv += self.measures.report_options
        seal = replace(
            self.seal(module),
            writes=tuple({file.parent for file in results}),
        )
        return run(
            argv,
            self.spec.limits,
            module.parent,
            seal=seal.reading_all() if reads_all else seal,
            env={**self.surroundings.variables, **dict(self.case.env), **env},
            stop=stop,
        )

    @property
    def surroundings(self) -> Surroundings:
        """What the device needs of this machine."""
        return self.runner.surroundings(self.case, self.spec)

    def seal(self, module: Path) -> Seal:
        """What a run may read: the runtime, and the files that its command names."""
        options = (*self.options, *self.inputs, *self.expected)
        reads = (
            *self.reads,
            *(module, *self.libraries, *self.case.reads),
            *files_in(options),
        )
        surroundings = self.surroundings
        return Seal((*reads, *surroundings.reads), devices=surroundings.devices)

    def _run_and_compare(self, module: Path, stop: StopSignal) -> Execution:
        """Run a compiled file once and compare its results with the expected ones.

        The runtime's tool compares the results. triage compares them here if the recipe
        sets `closeness`, which the tool cannot express, or if the tool overlooks NaN. A
        mismatch that is found here is written to stdout, as the tool would.
        """
        is_close = self.spec.closeness is not None and bool(self.expected)
        if is_close:
            saved, files = self.results(module, module.parent, stop)
            execution = saved
        else:
            execution = self.start(module, stop, self.expected)
            if not (execution.ok and self.overlooks_nan):
                return execution
            saved, files = self.results(module, module.parent, stop)
        if not saved.ok:
            return execution
        mismatch, _ = self._first_wrong(files)
        if is_close and len(files) != len(self.expected):
            line = f"{len(files)} results; expected {len(self.expected)}"
        elif mismatch:
            line = mismatch_line(**mismatch)
        else:
            return execution
        return replace(execution, exit_code=1, stdout=Captured(line))

    def with_mismatch(self, execution: Execution, files: Sequence[Path]) -> Execution:
        """Return a run as it ends when these results are compared with the expected
        ones: unchanged if they are equal. Raises ValueError if a result cannot be read.
        """
        mismatch, numbers = self._first_wrong(files, with_shapes=True)
        if not mismatch:
            return execution
        line = Captured(mismatch_line(**mismatch))
        return replace(execution, exit_code=1, stdout=line, metrics=numbers)

    def _first_wrong(
        self, files: Sequence[Path], *, with_shapes: bool = False
    ) -> tuple[dict[str, str | int], dict[str, float]]:
        """Return the first wrong result as in `MISMATCH`, and numbers on it; both are
        empty if none is wrong.

        with_shapes: compare shapes too, which the program does unless there is a
        closeness.
        """
        for index, (file, expected) in enumerate(
            zip(files, self.expected, strict=False)
        ):
            actual = file_value(file)
            numbers = differences(
                actual, expected, dict(self.spec.tolerances), self.spec.closeness
            )
            if numbers.get("mismatches"):
                element = int(numbers["element"])
                arrays = (read_value(actual), read_value(expected))
                got, want = (
                    f"{float(array.flat[element]):g}"
                    for array in arrays
                    if array is not None
                )
                mismatch: dict[str, str | int] = {
                    "output": index,
                    "element": element,
                    "actual": got,
                    "expected": want,
                }
                return mismatch, {"output": float(index), **numbers}
            if not numbers and (self.spec.closeness or with_shapes):
                return {"output": index, **_other_shape(actual, expected)}, {}
        return {}, {}

    def _milliseconds(self, execution: Execution) -> list[float]:
        if self.spec.measured and self.measures:
            times = self.measures.seconds(execution.stdout.text)
            return [1000 * time for time in times]
        return []

    def _is_slow(self, execution: Execution) -> bool:
        """Return whether a measured run took longer than its threshold, perhaps because
        the machine is busy.
        """
        threshold = dict(self.case.thresholds).get(RUN_MS)
        return (
            threshold is not None
            and min(self._milliseconds(execution), default=0.0) > threshold
        )


def differences(
    actual: str,
    expected: str,
    tolerances: Mapping[str, float],
    closeness: tuple[float, float, bool] | None = None,
) -> dict[str, float]:
    """Compare two results: `elements`, `mismatches`, `nan`, `inf`, `max_abs_error`,
    `max_rel_error`, and the index of the first mismatch as `element`.

    `nan` and `inf` count the elements that have become so. Results that cannot be read,
    or have different shapes, have no numbers. `tolerances` has those that differ from
    the defaults, by element type. `closeness` replaces them, see `RunSpec`.
    """
    import numpy as np

    read, wanted = read_value(actual), read_value(expected)
    if read is None or wanted is None or read.shape != wanted.shape:
        return {}
    element, allowed = element_type(expected, wanted), {**TOLERANCES, **tolerances}
    relative, absolute, equal_nan = closeness or (
        allowed["relative"] if element in allowed else 0.0,
        allowed.get(element, 0.0),
        True,
    )
    with np.errstate(all="ignore"):
        got = read.astype(np.float64, copy=False)
        want = wanted.astype(np.float64, copy=False)
        same = (got == want) | (np.isnan(got) & np.isnan(want) & equal_nan)
        error = np.where(same, 0.0, np.abs(got - want))
        wrong = ~same & ~(
            np.isfinite(want) & (error <= absolute + relative * np.abs(want))
        )
        finite = error[np.isfinite(error)]
        relative_error = (error / np.abs(want))[
            np.isfinite(error) & np.isfinite(want) & (want != 0)
        ]
    if wrong.any():
        first = {"element": float(np.flatnonzero(wrong)[0])}
    else:
        first = {}
    return {
        **first,
        "elements": float(got.size),
        "mismatches": float(np.count_nonzero(wrong)),
        "nan": float(np.count_nonzero(np.isnan(got) & ~np.isnan(want))),
        "inf": float(np.count_nonzero(np.isinf(got) & ~np.isinf(want))),
        "max_abs_error": float(finite.max(initial=0.0)),
        "max_rel_error": float(relative_error.max(initial=0.0)),
    }


def _other_shape(actual: str, expected: str) -> dict[str, str | int]:
    """Return two shapes as in `MISMATCH`. Raises ValueError if a result cannot be
    read.
    """
    got, want = read_value(actual), read_value(expected)
    if got is None or want is None:
        raise ValueError(f"{expected if want is None else actual} cannot be read")
    shape, expected_shape = ("x".join(map(str, array.shape)) for array in (got, want))
    return {"kind": "metadata", "actual": shape, "expected": expected_shape}


@dataclass(frozen=True)
class RunTool:
    """An executable that runs what a toolchain compiles."""

    path: Path
    reads: tuple[Path, ...]
    """What it may read besides."""
    identity: str
    """A digest of its content."""


@dataclass(frozen=True)
class RunTools:
    """The executables that run what toolchains compile. Each is found and read
    once.
    """

    runtime: Callable[[Toolchain, str], Path]
    """Returns the folder of a package that belongs to a toolchain."""
    contents: Contents
    _found: dict[tuple[str, str, bool], RunTool] = field(default_factory=dict)

    def find(
        self, toolchain: Toolchain, runner: Runner, *, measured: bool
    ) -> RunTool | None:
        """Return an executable; None if the toolchain has none. Raises
        EnvironmentFailure when its package cannot be installed.
        """
        key = (toolchain.family, toolchain.revision.name, measured)
        if key not in self._found:
            root = self.runtime(toolchain, runner.distribution)
            for place in (root, toolchain.program.parent):
                tool = runner.program(place, measured=measured)
                if tool:
                    digests = [file_sha256(tool)]
                    if root != toolchain.root:
                        digests.append(self.contents.digest(root))
                    reads = (root, *toolchain.reads)
                    self._found[key] = RunTool(tool, reads, " ".join(digests))
                    break
        return self._found.get(key)


def plan_run(
    case: Case,
    toolchain: Toolchain,
    compiler: Compiler,
    tools: RunTools,
    values: Path,
    libraries: Sequence[Path] = (),
) -> RunTask | NoAnswer:
    """Return the run of a case that is run on a toolchain, or why there is none.

    `values` is the folder for values in another form; `libraries` are compiled files,
    named for their content.
    """
    runner, measures, spec = compiler.run, compiler.measures, case.run
    assert spec is not None
    if runner is None or (spec.measured and measures is None):
        does = "measures" if runner else "runs"
        problem = f"{case.compiler} has nothing that {does} compiled programs here"
        return NoAnswer(Cause.TOOLCHAIN, problem)
    try:
        found = tools.find(toolchain, runner, measured=spec.measured)
    except EnvironmentFailure as error:
        if isinstance(error, Unobtainable):
            cause = Cause.TOOLCHAIN
        else:
            cause = Cause.ENVIRONMENT
        return NoAnswer(cause, str(error))
    if found is None:
        return NoAnswer(Cause.TOOLCHAIN, no_program(toolchain, runner.distribution))
    try:
        inputs = with_readable_files(spec.inputs, values)
        expected = with_readable_files(spec.expected, values)
        overlooks_nan = bool(expected) and runner.overlooks_nan(toolchain.version)
        task = RunTask(
            case,
            spec,
            runner,
            measures,
            found.path,
            tuple(runner.options(case, spec)),
            tuple(libraries),
            inputs,
            expected,
            identity="",
            reads=found.reads,
            overlooks_nan=overlooks_nan,
        )
        return replace(task, identity=_identity(task, found.identity))
    except OSError as error:
        return recipe_mistake(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        return recipe_mistake(str(error))


def _identity(task: RunTask, tool_digest: str) -> str:
    """Return the content key of a run."""
    parts = [
        tool_digest,
        *surroundings((), uses_processor=True),
        *settings(task.surroundings.variables),
        *task.runner.options(task.case, replace(task.spec, parameters=())),
        *(path.name for path in task.libraries),
        *_parts_of(task.spec),
        *(["compared here, too"] if task.overlooks_nan else []),
        *map(identity_of, task.inputs),
        "expected",
        *map(identity_of, task.expected),
    ]
    return sha256("\0".join(parts).encode()).hexdigest()


def _parts_of(spec: RunSpec) -> list[str]:
    """Return what else decides how a run ends, for its content key."""
    kept = {artifact.path for artifact in spec.artifacts}
    return [
        *([] if spec.closeness is None else [f"close {spec.closeness}"]),
        *(
            f"{scope}={digest_of(path, is_kept=path in kept)}"
            for scope, path in spec.parameters
        ),
        *limits_key(spec.limits),
    ]


def limits_key(limits: Limits) -> list[str]:
    """Return the limits that are part of a content key."""
    parts = []
    if limits.output != Limits().output:
        parts.append(f"output {limits.output}")
    if not limits.without_waiting:
        parts.append("wall time")
    return [*parts, f"{limits.timeout:g}", f"{limits.memory:g}"]


def with_readable_files(values: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return values as the program can read them: files of tensors in protobuf are
    replaced by copies in a folder.

    Raises OSError or ValueError if a file cannot be read or converted.
    """
    replaced = []
    for value in values:
        file = tensor_proto(value)
        replaced.append(file_value(_npy_copy(file, folder)) if file else value)
    return tuple(replaced)


def _npy_copy(file: Path, folder: Path) -> Path:
    """Convert a tensor in protobuf to .npy, once for each content."""
    data = file.read_bytes()

    def convert(scratch: Path) -> Path:
        made = scratch / "value.npy"
        made.write_bytes(converted(file, data))
        return made

    target = folder / f"{sha256(data).hexdigest()}.npy"
    return KeptFiles().get(target, convert).path


def no_program(toolchain: Toolchain, package: str) -> str:
    """Say that a toolchain has no program of a package, and what to do."""
    return (
        f"{toolchain.revision.name} has no programs of {package} next to its "
        "compiler: build or install them there"
    )
