"""The run of a compiled case: execute it with the values of its recipe, and measure how far its results are off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.values import converted, differences, file_value, first_difference, identity_of, tensor_proto
from triage.execution.files import KeptFiles, digest_of
from triage.execution.judge import RUN_MS
from triage.execution.process import StopSignal, run
from triage.model.case import Case, RunSpec
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Captured, Execution, Limits
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Toolchain

if TYPE_CHECKING:
    from triage.compilers.base import Runner

READS_UNWRITTEN = "reads_unwritten"  # the metric of a run whose results depend on memory that was never written to
_UNWRITTEN = ("85", "170")  # bytes that glibc fills new memory with


def agreeing_runs(
    start: Callable[[], Execution], is_sure: Callable[[Execution], bool], result: Callable[[Execution], object]
) -> tuple[list[Execution], int]:
    """Run once, or up to three times if one run does not prove how it ends; return the majority and how many disagree.

    result: equal for executions that agree.
    """
    runs = [start()]
    if not is_sure(runs[0]):
        runs.append(start())
        if result(runs[0]) != result(runs[1]):
            runs.append(start())
    results = [result(execution) for execution in runs]
    agreeing = max(results, key=results.count)
    same = [execution for execution, found in zip(runs, results, strict=True) if found == agreeing]
    return same, len(runs) - len(same)


@dataclass(frozen=True, slots=True)
class RunTask:
    """A run that can be made."""

    case: Case
    spec: RunSpec
    runner: Runner
    program: Path
    options: tuple[str, ...]
    """Without values."""
    libraries: tuple[Path, ...]
    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    identity: str
    """Decides the result, together with the compiled file."""
    overlooks_nan: bool = False
    """The program takes NaN for any number, so that results are compared here, too."""
    kept: Path | None = None
    """The folder to write the results of a reference to, which are compared with nothing."""
    must_be_defined: bool = False
    """Results that depend on memory that was never written to are not kept."""

    def make(self, module: Path, stop: StopSignal, result: Callable[[Execution], object]) -> tuple[Execution, int]:
        """Run a compiled file, one that fails again. `result` is equal for executions that agree.

        Returns:
            The result that most runs have, with numbers on wrong results as its metrics, and how many runs disagree.
        """
        scratch = module.parent
        if self.kept is not None:
            (folder := scratch / "results").mkdir()
            execution, files = self._results(module, folder, stop)
            if execution.ok and self.must_be_defined and not self._is_defined(module, files, stop):
                execution = replace(execution, metrics={READS_UNWRITTEN: 1.0})
            folder.rename(self.kept)
            return execution, 0
        same, disagreements = agreeing_runs(
            lambda: self._once(module, scratch, stop), lambda execution: execution.ok and not self._is_slow(execution), result
        )
        seconds = {"run_seconds": min(execution.seconds for execution in same)}
        times = [time for execution in same for time in self._milliseconds(execution)]
        if times:
            seconds[RUN_MS] = min(times)
        compared = bool(self.expected) and (self.overlooks_nan if same[0].ok else same[0].exit_code is not None)
        wrong = self._differences(self._results(module, scratch, stop)[1]) if compared else {}
        return replace(same[0], metrics={**seconds, **wrong}), disagreements

    def _results(self, module: Path, folder: Path, stop: StopSignal) -> tuple[Execution, list[Path]]:
        """Run a compiled file and write its results to files in a folder. No files when it fails."""
        printed = self._run(module, stop)
        if not printed.ok:
            return printed, []
        files = self.runner.result_files(printed.stdout.text, folder)
        saved = self._run(module, stop, results=files)
        return saved, files if saved.ok else []

    def _is_defined(self, module: Path, files: Sequence[Path], stop: StopSignal) -> bool:
        """Return whether results stay the same when memory that was not written to has another content."""
        again = [module.parent / f"again-{file.name}" for file in files]
        for pattern in _UNWRITTEN:
            ran = self._run(module, stop, results=again, MALLOC_PERTURB_=pattern)
            pairs = zip(map(file_value, again), map(file_value, files), strict=True)
            if not ran.ok or any(differences(*pair, self._tolerances).get("mismatches", 1) for pair in pairs):
                return False
        return True

    @property
    def _tolerances(self) -> dict[str, float]:
        if self.spec.closeness is None:
            return dict(self.spec.tolerances)
        relative, absolute, _ = self.spec.closeness
        return {**dict.fromkeys(("f16", "bf16", "f32", "f64"), absolute), "relative": relative}

    def _once(self, module: Path, scratch: Path, stop: StopSignal) -> Execution:
        """Run and compare. A difference that this program sees is written as the program that runs it writes its own."""
        if self.spec.closeness is None or not self.expected:
            return self._run(module, stop, self.expected)
        execution, files = self._results(module, scratch, stop)
        if not execution.ok:
            return execution
        messages = [] if len(files) == len(self.expected) else [f"{len(files)} results; expected {len(self.expected)}"]
        for index, (file, expected) in enumerate(zip(files, self.expected, strict=False)):
            message = first_difference(file_value(file), expected, self.spec.closeness)
            if message is not None:
                messages.append(f"[FAILED] result[{index}]: {message}")
        return replace(execution, exit_code=1, stdout=Captured("\n".join(messages))) if messages else execution

    def _run(
        self, module: Path, stop: StopSignal, expected: Sequence[str] = (), results: Sequence[Path] = (), **env: str
    ) -> Execution:
        argv = self.runner.argv(
            self.program,
            module,
            self.options,
            libraries=self.libraries,
            inputs=self.inputs,
            expected=expected,
            results=results,
            measured=self.spec.measured,
        )
        return run(argv, self.spec.limits, module.parent, env={**dict(self.case.env), **env}, stop=stop)

    def _milliseconds(self, execution: Execution) -> list[float]:
        return [1000 * time for time in self.runner.seconds(execution.stdout.text)] if self.spec.measured else []

    def _is_slow(self, execution: Execution) -> bool:
        """Return whether a measured run took longer than its threshold, perhaps because the machine is busy."""
        threshold = dict(self.case.thresholds).get(RUN_MS)
        return threshold is not None and min(self._milliseconds(execution), default=0.0) > threshold

    def _differences(self, files: Sequence[Path]) -> dict[str, float]:
        """Return numbers on the first wrong result; empty when results cannot be compared."""
        for index, (file, expected) in enumerate(zip(files, self.expected, strict=False)):
            numbers = differences(file_value(file), expected, self._tolerances)
            if numbers.get("mismatches"):
                return {"output": float(index), **numbers}
        return {}


def plan_run(
    case: Case,
    spec: RunSpec,
    toolchain: Toolchain,
    runner: Runner,
    runtime: Callable[[Toolchain, str], Path],
    values: Path,
    libraries: Sequence[Path] = (),
) -> RunTask | Untestable:
    """Return a run of a case on a toolchain, or why there is none.

    runtime: the folder of a package that belongs to a toolchain; values: where files are written that hold values in another
    form; libraries: compiled files, named for their content.
    """
    try:
        root = runtime(toolchain, runner.distribution)
    except EnvironmentFailure as error:
        return Untestable(Cause.TOOLCHAIN if isinstance(error, Unobtainable) else Cause.ENVIRONMENT, str(error))
    places = (root, toolchain.program.parent)
    program = next(filter(None, (runner.program(place, measured=spec.measured) for place in places)), None)
    if program is None:
        return Untestable(Cause.TOOLCHAIN, no_program(toolchain, runner.distribution))
    limits, own = spec.limits, runner.options(case, replace(spec, parameters=()))
    try:
        inputs, expected = readable(spec.inputs, values), readable(spec.expected, values)
        overlooks_nan = bool(expected) and runner.overlooks_nan(toolchain.version)
        kept = {artifact.path for artifact in spec.artifacts}
        parts = [
            *(_digest(program, program.stat().st_mtime_ns), *own),
            *(path.name for path in libraries),
            *([] if spec.closeness is None else [f"close {spec.closeness}"]),
            *(f"{scope}={digest_of(path, is_kept=path in kept)}" for scope, path in spec.parameters),
            *(f"{limits.timeout:g}", f"{limits.memory}"),
            *([] if limits.without_waiting else ["wall time"]),
            *([] if limits.output == Limits().output else [f"output {limits.output}"]),
            *(["compared here, too"] if overlooks_nan else []),
            *(*map(identity_of, inputs), "expected", *map(identity_of, expected)),
        ]
    except OSError as error:
        return Untestable(Cause.RECIPE, f"{error.filename}: {error.strerror}")
    except ValueError as error:
        return Untestable(Cause.RECIPE, str(error))
    identity, options = sha256("\0".join(parts).encode()).hexdigest(), tuple(runner.options(case, spec))
    return RunTask(case, spec, runner, program, options, tuple(libraries), inputs, expected, identity, overlooks_nan)


def readable(values: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return values as the program can read them; a file in another form is converted once for each content.

    Raises:
        OSError, ValueError: a file cannot be read or converted.
    """
    readable_values = []
    for value in values:
        if file := tensor_proto(value):
            data = file.read_bytes()

            def convert(scratch: Path, file: Path = file, data: bytes = data) -> Path:
                (made := scratch / "value.npy").write_bytes(converted(file, data))
                return made

            value = file_value(KeptFiles().get(folder / f"{sha256(data).hexdigest()}.npy", convert).path)
        readable_values.append(value)
    return tuple(readable_values)


@cache
def _digest(program: Path, _modified: int) -> str:
    return file_sha256(program)


def no_program(toolchain: Toolchain, package: str) -> str:
    """Say that a toolchain has no program of a package, and what to do."""
    return f"{toolchain.revision.name} has no programs of {package} next to its compiler: build or install them there"
