"""Lint a case: read its program, apply the family's rules, drop silenced findings, measure the solver's limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.analysis import Linter, LintFinding, ProgramDevice, ProgramFindings, Severity, SolverLimit
from triage.compilers.invocation import Invocation
from triage.compilers.picture import ProgramPicture
from triage.execution.mlir_tools import Reader
from triage.execution.prober import Naming
from triage.execution.process import run
from triage.execution.runner import ProbeRunner
from triage.execution.solver_choices import solver_choices
from triage.mlir import Module, SourcePosition, UnparsableError, parse_module
from triage.model.case import Case, Flag, InputKind
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Compiled, Untestable
from triage.model.progress import Task
from triage.model.revision import Toolchain
from triage.recipes import flag_applies
from triage.remedy.search import narrow

_SEVERITIES = list(Severity)
_IGNORE = re.compile(rb"(^\s*)?//\s*triage:\s*ignore(?:\[([\w\s,-]*)\])?\s*$")
_ALL = "*"
_NO_BACKEND = "the backend is unknown, so rules that depend on it are skipped (--flag passes flags of the compiler)"


@dataclass(frozen=True, slots=True)
class LintedCase:
    """The lint result of one case.

    Attributes:
        source: The file that positions refer to: as the user named it, or the generated program.
        flags: Options that fix findings.
        silenced: Number of findings that comments silence.
        notes: What was not checked, and why.
        picture: The program as a picture, where it was asked for.
    """

    case: Case
    source: str
    generated: bool
    findings: tuple[LintFinding, ...]
    devices: tuple[ProgramDevice, ...] = ()
    flags: tuple[str, ...] = ()
    silenced: int = 0
    notes: tuple[str, ...] = ()
    picture: ProgramPicture | None = None

    @property
    def has_errors(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def lint(
    runner: ProbeRunner,
    linter: Linter,
    case: Case,
    toolchain: Toolchain,
    *,
    measured: bool,
    shown: Path | None,
    drawn: bool = False,
) -> LintedCase:
    """Lint a case's program; see `_lint`."""
    task = runner.progress.task(f"lint  {case.name}")
    try:
        return _lint(runner, linter, case, toolchain, task, measured=measured, shown=shown, drawn=drawn)
    finally:
        task.finish()


def _lint(
    runner: ProbeRunner,
    linter: Linter,
    case: Case,
    toolchain: Toolchain,
    task: Task,
    *,
    measured: bool,
    shown: Path | None,
    drawn: bool,
) -> LintedCase:
    """Lint a case's program.

    `measured` adds a measurement of the solver's limit, which compiles. `shown` is the input as the user named it. `drawn`
    adds a picture.

    Raises:
        BadInput: The program does not parse, or there is none.
        EnvironmentFailure: The toolchain's tools do not run.
    """
    tools = runner.prober.mlir_tools(case, toolchain)
    if tools is None:
        raise BadInput(f"{case.name}: {toolchain.revision.name} has no tools that read MLIR")
    prepared = runner.prober.input_of(case, toolchain)
    if isinstance(prepared, Untestable):
        raise BadInput(f"{case.name}: {prepared.reason}")
    options = _options(runner, case, toolchain)
    backend, chip = linter.target_of(options)
    target = replace(case.target, backend=case.target.backend or backend or "", chip=case.target.chip or chip)
    generated = case.input.kind in (InputKind.GENERATOR, InputKind.ONNX)
    name = str(prepared.path if generated or shown is None else shown)
    module = _read(Reader(tools, runner.stop), prepared.path, name)
    report = linter.check(module, options, target.backend or None, target.chip)
    ignored = _ignored_rules(prepared.path)
    loud = [
        finding
        for finding in report.findings
        if finding.position is None
        or finding.position.file != str(prepared.path)
        or ignored.get(finding.position.line, set()).isdisjoint((finding.rule, _ALL))
    ]
    notes = () if target.backend else (_NO_BACKEND,)
    extra = SolverMeasurement()
    if measured:
        task.describe(f"lint  {case.name}: compile for the affinity solver")
        extra = _measured(runner, linter, replace(case, target=target), toolchain, report)
    picture = None
    if drawn:
        task.describe(f"lint  {case.name}: draw")
        picture = _drawn(runner, linter, replace(case, target=target), toolchain, module, extra if measured else None)
    return LintedCase(
        case=case,
        source=name,
        generated=generated,
        findings=tuple(
            replace(finding, position=_renamed(finding.position, prepared.path, name))
            for finding in sorted([*loud, *extra.findings], key=_severity_and_position)
        ),
        devices=tuple(replace(device, position=_renamed(device.position, prepared.path, name)) for device in report.devices),
        flags=(*report.flags, *extra.flags),
        silenced=len(report.findings) - len(loud),
        notes=(*notes, *extra.notes),
        picture=picture,
    )


def _drawn(
    runner: ProbeRunner, linter: Linter, case: Case, toolchain: Toolchain, module: Module, measured: SolverMeasurement | None
) -> ProgramPicture:
    """Draw a program, with the solver's choices where it was measured."""
    solver = linter.solver(toolchain)
    analysed = None
    if measured is not None and case.target.backend:
        limits = [
            flag.removeprefix(solver.option) for flag in measured.flags if solver.option and flag.startswith(solver.option)
        ]
        analysed = solver_choices(runner, solver, case, toolchain, int(limits[0]) if limits else None)
    picture = linter.picture(module, _options(runner, case, toolchain), analysed)
    findings = [finding.message for finding in (measured.findings if measured else ()) if finding.rule == solver.rule.name]
    return replace(picture, remarks=(*findings, *picture.remarks))


def _severity_and_position(finding: LintFinding) -> tuple[int, int, int]:
    position = finding.position
    return _SEVERITIES.index(finding.severity), position.line if position else 0, position.column if position else 0


def _options(runner: ProbeRunner, case: Case, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the compiler's options; only the case's own flags if no backend is known."""
    if not case.target.backend:
        return tuple(flag.text for flag in case.flags if flag_applies(flag, toolchain.version))
    invocation = runner.prober.compilers[case.compiler].invocation(case, toolchain)
    if isinstance(invocation, Untestable):
        raise BadInput(f"{case.name}: {invocation.reason}")
    return invocation.options


def _read(reader: Reader, path: Path, name: str) -> Module:
    text = reader.generic(path, elide=True)
    if text is None:
        raise BadInput(reader.parse_error(path).replace(str(path), name))
    try:
        return parse_module(text)
    except UnparsableError as error:
        raise BadInput(f"{name}: its generic form cannot be read: {error}") from error


def _measured(
    runner: ProbeRunner, linter: Linter, case: Case, toolchain: Toolchain, report: ProgramFindings
) -> SolverMeasurement:
    if not case.target.backend:
        return SolverMeasurement(notes=("solver iterations are not measured: the backend is unknown",))
    if any(device.declared is None for device in report.devices):  # the compile fails for this reason
        return SolverMeasurement(notes=("solver iterations are not measured: declare all devices first",))
    return measure_solver(runner, linter.solver(toolchain), case, toolchain)


def _renamed(position: SourcePosition | None, path: Path, name: str) -> SourcePosition | None:
    """Return a position with the file as the user knows it."""
    return replace(position, file=name) if position and position.file == str(path) else position


def _ignored_rules(source: Path) -> dict[int, set[str]]:
    """Map lines to the rules that `// triage: ignore` comments silence there.

    A comment after code concerns its line; a comment alone on a line concerns the next line.
    """
    rules: dict[int, set[str]] = {}
    if source.suffix == ".mlirbc":
        return rules
    with source.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if b"triage:" in line and (found := _IGNORE.search(line.rstrip())):
                names = [_ALL] if found[2] is None else found[2].decode().split(",")
                alone = not line[: found.start()].strip()
                rules.setdefault(number + alone, set()).update(name.strip() for name in names)
    return rules


MAX_ITERATIONS = 4096  # a program that needs more does not converge for another reason
_GUESS = 256
_RESOURCE_CLASSES = frozenset({"timeout", "out-of-memory"})  # they show nothing about the solver


@dataclass(frozen=True, slots=True)
class SolverMeasurement:
    """Findings, flags that fix them, and notes."""

    findings: tuple[LintFinding, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def measure_solver(runner: ProbeRunner, solver: SolverLimit, case: Case, toolchain: Toolchain) -> SolverMeasurement:
    """Measure the smallest sufficient limit if the solver exhausts the default one.

    A suggested limit was compiled with, and the next smaller one fails.
    """
    staged = _staged(case, toolchain, solver)
    if staged is None:
        return SolverMeasurement(notes=(f"solver iterations are not measured: the case ends before phase {solver.phase}",))
    outcome = runner.prober.probe(staged, toolchain).outcome
    if isinstance(outcome, Untestable):
        return SolverMeasurement(notes=(f"solver iterations are not measured: {outcome.reason}",))
    if isinstance(outcome, Compiled):
        return SolverMeasurement()
    name = toolchain.revision.name
    if outcome.failure.failure_class not in solver.failure_classes:
        rule, text = solver.other_rule, f"does not compile on {name}: {outcome.failure.headline}"
        return SolverMeasurement((LintFinding(rule.name, rule.severity, text, _position(outcome.failure.location)),))
    if solver.option is None:
        return _finding(solver, f"the affinity solver does not converge, and {name} has no option for more iterations")
    measurement = _Measurement(runner, case, staged, toolchain, solver, solver.option)
    headline = f"{outcome.failure.headline} on {name}"
    smallest = measurement.smallest()
    if smallest is None:
        return _finding(solver, f"{headline}; {MAX_ITERATIONS} iterations do not suffice, so the limit is not the cause")
    flag = f"{solver.option}{smallest}"
    complete = runner.prober.probe(measurement.limited(case, smallest), toolchain).outcome
    text = f"{headline}; it needs {smallest} iterations: pass `{flag}`"
    if not isinstance(complete, Compiled):
        text += f". It then fails differently: {complete.failure.headline if complete.failure else 'it cannot be tested'}"
    return _finding(solver, text, flag)


def _position(location: str | None) -> SourcePosition | None:
    """Read `file:line:column`; None for an unknown position, which compilers write as 0:0."""
    place = re.fullmatch(r"(.+):([1-9]\d{0,8}):(\d{1,9})", location or "")
    return SourcePosition(place[1], int(place[2]), int(place[3])) if place else None


def _finding(solver: SolverLimit, text: str, *flags: str) -> SolverMeasurement:
    return SolverMeasurement((LintFinding(solver.rule.name, solver.rule.severity, text),), flags)


def _staged(case: Case, toolchain: Toolchain, solver: SolverLimit) -> Case | None:
    """Return the case, ended as soon as the solver is done; None if it ends before."""
    phases = toolchain.capabilities.phases
    if solver.phase not in phases:
        return case if case.phase is None else None
    if case.phase in phases and phases.index(case.phase) < phases.index(solver.phase):
        return None
    return replace(case, phase=solver.phase)


class _Measurement:
    """The search for the smallest limit of one case."""

    def __init__(
        self, runner: ProbeRunner, case: Case, staged: Case, toolchain: Toolchain, solver: SolverLimit, option: str
    ) -> None:
        self._runner, self._case, self._staged = runner, case, staged
        self._toolchain, self._solver, self._option = toolchain, solver, option
        self._task = runner.progress.task(f"affinity solver iterations  {case.name}")

    def smallest(self) -> int | None:
        try:
            return smallest_sufficient(self._converges, self._estimate() or _GUESS, MAX_ITERATIONS)
        finally:
            self._task.finish()

    def limited(self, case: Case, iterations: int) -> Case:
        flags = [flag for flag in case.flags if not flag.text.startswith(self._option)]
        return replace(case, flags=(*flags, Flag(f"{self._option}{iterations}")))

    def _converges(self, iterations: int) -> bool:
        """Compile up to the solver's phase. A failure of another kind means that the solver converged."""
        self._task.describe(f"{iterations} iterations  {self._case.name}")
        limited = self.limited(self._staged, iterations)
        outcome = self._runner.prober.trial(limited, self._toolchain, Naming.AT_ONCE).outcome
        if isinstance(outcome, Untestable):
            raise EnvironmentFailure(f"{self._case.name} with {iterations} iterations: {outcome.reason}")
        if isinstance(outcome, Compiled):
            return True
        return outcome.failure.failure_class not in _RESOURCE_CLASSES | self._solver.failure_classes

    def _estimate(self) -> int | None:
        """Search with the optimizer alone, which takes a fraction of a compile; None if it cannot run."""
        tools = self._runner.prober.mlir_tools(self._case, self._toolchain)
        if tools is None:
            return None
        found: list[int | None] = []

        def analyse(program: Path) -> None:
            def converges(iterations: int) -> bool:
                self._task.describe(f"{iterations} iterations, the solver alone  {self._case.name}")
                argv = [str(tools.optimizer), *self._solver.analysis, f"{self._option}{iterations}", str(program)]
                argv += ["-o", "/dev/null"]
                env = {"LLVM_DISABLE_SYMBOLIZATION": "1"}
                return run(argv, self._case.limits, program.parent, env=env, stop=self._runner.stop).ok

            found.append(smallest_sufficient(converges, _GUESS, MAX_ITERATIONS))

        def with_prepared(invocation: Invocation) -> Invocation:
            return replace(invocation, options=(*invocation.options, *self._solver.prepared))

        prepared = replace(self._case, phase=self._solver.prepared_phase)
        self._runner.prober.observe(prepared, self._toolchain, with_prepared, on_output=analyse)
        return found[0] if found else None


def smallest_sufficient(sufficient: Callable[[int], bool], guess: int, most: int) -> int | None:
    """Find the smallest sufficient number from 1 to `most`, starting at a guess; None if `most` does not suffice.

    Numbers above a sufficient one must suffice. Each number is tested at most once.
    """
    low, high, step = 0, min(guess, most), 1
    if sufficient(high):
        while low < (below := high - step) and sufficient(below):
            high, step = below, 2 * step
        low = max(low, high - step)
    else:
        while True:
            low = high
            if low >= most:
                return None
            high, step = min(high + step, most), 2 * step
            if sufficient(high):
                break
    _, high = narrow(range(most + 1), low, high, 1, lambda values: [sufficient(value) for value in values])
    return high
