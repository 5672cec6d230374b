"""The contents of a reproducer without local paths, and reproducers read from their folders and compiled again."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import MinLen
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ValidationError

from triage.compilers.base import MODULE_PLACE, PythonFunction
from triage.compilers.registry import family_of, recipe_families
from triage.execution.inputs import Prepared
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case, Expectation, RunSpec
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.recipes.loader import load_recipes
from triage.reduce.frontends.syntax_tree import PythonDocument, kernel_function, parameters, parse_program
from triage.reduce.program import Candidate
from triage.reduce.result import Reduction
from triage.toolchains.registry import ToolchainRef, parse_rev

LOCAL = "local build"  # the name of a compiler that only this machine has
RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LONGEST = 90  # characters of a slug; the recipe's name gets ten more
_DIAGNOSTIC = re.compile(r"^/[^\n]*?(?=:\d+:\d+(?::|$))", re.MULTILINE)
_PATH = re.compile(r"(?<![\w./:-])/(?!dev/null\b)(?:[^\s/:\"'`(),<>]+/)+([^\s/:\"'`(),<>]+)")

Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A reduction ready to be written. No text contains a local path."""

    reduction: Reduction
    failure: Failure
    bad: Probe
    """The failing version; one of the reduction's probes, which are in the order of the versions."""
    file: str
    content: bytes
    source: str
    """What the compiler reads: `file`, or the program that it is imported to."""
    text: str
    program: str
    options: tuple[str, ...]
    """The compiler's arguments without input and output."""
    ending: str
    output: str
    package: str | None
    """What pip installs for the bad version, if it is a release."""
    function: PythonFunction | None = None
    """The kernel in `file`, if there is one."""
    rules: bytes | None = None
    values: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the inputs and results of a program that is run."""
    run: tuple[str, ...] = ()
    runtime: str | None = None
    """What pip installs to run it."""

    @property
    def case(self) -> Case:
        return self.reduction.small

    @property
    def slug(self) -> str:
        """The folder's name."""
        return slug(self.case)


def slug(case: Case) -> str:
    """Return the case's name as a folder name: `attention-dtype-f16` for `attention[dtype=f16]`."""
    return re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")[:_LONGEST].strip("-")


def reproducer_of(runner: ProbeRunner, reduction: Reduction, bad: ToolchainRef) -> Reproducer:
    """Collect the contents of a reproducer. bad: the toolchain that the reduced program fails on."""
    assert reduction.bad
    toolchain = runner.registry.obtain(bad)
    probe = next(probe for probe in reduction.probes if probe.revision.name == bad.revision.name)
    recorded = runner.prober.recorded(probe.case, toolchain)
    assert recorded  # it was probed
    invocation, execution = recorded
    prepared = runner.prober.input_of(probe.case, toolchain)
    assert isinstance(prepared, Prepared)
    path = probe.case.input.path
    names = {prepared.path: f"input{prepared.path.suffix}", path: f"input{path.suffix}"}
    values, run = _portable_values(runner, probe.case)
    command = runner.prober.run_command(probe.case, toolchain, run, MODULE_PLACE) if run else ()
    clean = without_paths(names, names[prepared.path])
    ordered = in_order(reduction.probes)
    probes = tuple(_clean_probe(other, clean) for other in ordered)
    failing = probes[ordered.index(probe)]
    assert isinstance(failing.outcome, Failed)
    text = prepared.path.read_text("utf-8", "replace")
    good = portable(reduction.good) if reduction.good else None
    others = (other.revision for other in probes if other is not failing)  # which may have the same name
    return Reproducer(
        reduction=replace(
            reduction,
            small=replace(reduction.small, run=run) if run else reduction.small,
            probes=probes,
            failure=failing.outcome.failure,
            bad=failing.revision,
            good=next((revision for revision in others if good and revision.name == good.name), good),
            program=text,
        ),
        failure=failing.outcome.failure,
        bad=failing,
        file=names[path],
        content=path.read_bytes(),
        source=names[prepared.path],
        text=text,
        program=family_of(probe.case).program_name(probe.case, toolchain),
        # With the printing options: without them an error prints thousands of lines of IR.
        options=(*invocation.options, *invocation.printing),
        ending=_ending(execution, probe.case),
        output=clean("\n".join(filter(None, (execution.stdout.text if command else "", execution.stderr.text)))),
        package=_package(bad),
        function=_function(probe.case),
        rules=probe.case.rules.read_bytes() if probe.case.rules else None,
        values=values,
        run=command,
        runtime=_runtime(runner, probe) if command and bad.release else None,
    )


def _portable_values(runner: ProbeRunner, case: Case) -> tuple[Mapping[str, bytes], RunSpec | None]:
    """Return the files of the values by the names that they get, and how the case is run with these files."""
    programs = runner.prober.compilers[case.compiler].runner()
    if case.run is None or programs is None:
        return {}, None
    files: dict[str, bytes] = {}

    def renamed(texts: Sequence[str], role: str) -> tuple[str, ...]:
        named = []
        for index, text in enumerate(texts):
            if (path := programs.file_of(text)) is not None:
                files[f"{role}_{index}{path.suffix}"] = path.read_bytes()
            named.append(text if path is None else programs.with_file(text, f"{role}_{index}{path.suffix}"))
        return tuple(named)

    run = replace(case.run, inputs=renamed(case.run.inputs, "input"), expected=renamed(case.run.expected, "expected"))
    return files, run


def _runtime(runner: ProbeRunner, probe: Probe) -> str | None:
    programs = runner.prober.compilers[probe.case.compiler].runner()
    return f"{programs.distribution}=={probe.version}" if programs and probe.version else None


def portable(revision: Revision) -> Revision:
    """Return the revision with a name that means something on other machines."""
    return replace(revision, name=LOCAL) if revision.name.startswith("path:") else revision


def without_paths(names: Mapping[Path, str], source: str) -> Clean:
    """Return a function that replaces paths by file names, and the path in front of a diagnostic's position by `source`.

    Any path is replaced, because evidence may come from another file of the same content or from another machine.
    """

    def clean(text: str) -> str:
        for path, name in names.items():
            text = text.replace(str(path), name).replace(str(path.resolve()), name)
        return _PATH.sub(r"\1", _DIAGNOSTIC.sub(source, text))

    return clean


def _clean_probe(probe: Probe, clean: Clean) -> Probe:
    outcome = probe.outcome
    match outcome:
        case Failed(failure=failure):
            details = {name: clean(value) if isinstance(value, str) else value for name, value in failure.details.items()}
            location = clean(failure.location) if failure.location else None
            headline = clean(failure.headline)
            outcome = replace(outcome, failure=replace(failure, headline=headline, location=location, details=details))
        case Untestable(reason=reason):
            outcome = replace(outcome, reason=clean(reason))
    return replace(probe, revision=portable(probe.revision), outcome=outcome)


def _ending(execution: Execution, case: Case) -> str:
    match execution.ending:
        case Ending.TIMED_OUT:
            return f"still running after {case.limits.timeout:g} s"
        case Ending.OVER_MEMORY:
            return f"used more than {case.limits.memory >> 20} MiB"
        case Ending.OVER_OUTPUT:
            return f"wrote more than {case.limits.output >> 20} MiB"
        case Ending.SIGNALLED if execution.signal:
            return f"ended by {signal.Signals(execution.signal).name}"
    return f"exit status {execution.exit_code}"


def _function(case: Case) -> PythonFunction | None:
    is_kernel = family_of(case).kernel(case) is not None and case.input.path.suffix == ".py"
    tree = parse_program(case.input.path.read_bytes()) if is_kernel else None
    node = kernel_function(Candidate(PythonDocument(tree), case)) if tree is not None else None
    if node is None:
        return None
    return PythonFunction(node.name + ".fn" * (len(node.decorator_list) - 1), tuple(parameters(node)))


def _package(ref: ToolchainRef) -> str | None:
    if ref.release is None:
        return None
    try:
        name, version, _, _ = parse_wheel_filename(ref.release.wheel)
    except InvalidWheelFilename:
        return None
    return f"{name}=={version}"


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """The versions around the bad one that fail in the same way.

    before, after: the nearest tested versions on both sides, which compile or fail in another way; None when none was
    tried. untested: versions between `before` and `first_bad` that could not be tested.
    """

    before: Probe | None
    first_bad: Probe
    last_bad: Probe
    after: Probe | None
    untested: tuple[Probe, ...] = ()

    @property
    def last_good(self) -> Probe | None:
        """The version before the span, if it compiles."""
        return self.before if self.before and isinstance(self.before.outcome, Compiled) else None

    @property
    def first_good(self) -> Probe | None:
        """The version after the span, if it compiles."""
        return self.after if self.after and isinstance(self.after.outcome, Compiled) else None


def in_order(probes: Iterable[Probe]) -> tuple[Probe, ...]:
    """Sort probes by version, those without a version last. Of local builds with one version, that which compiles is first."""

    def key(probe: Probe) -> tuple[bool, Version, bool]:
        version = _version(probe)
        return version is None, version or Version("0"), not isinstance(probe.outcome, Compiled)

    return tuple(sorted(probes, key=key))


def span_around(probes: Sequence[Probe], bad: Probe, signature: str) -> VersionSpan:
    """Return the span of a signature around one of the probes, which are sorted by version. Skips untestable versions."""
    index = probes.index(bad)
    first_bad, before, untested = _end_of_span(reversed(probes[:index]), bad, signature)
    last_bad, after, _ = _end_of_span(probes[index + 1 :], bad, signature)
    return VersionSpan(before, first_bad, last_bad, after, tuple(reversed(untested)) if before else ())


def _end_of_span(probes: Iterable[Probe], bad: Probe, signature: str) -> tuple[Probe, Probe | None, list[Probe]]:
    """The last probe with the signature, the first tested one behind it, and the untestable ones between them."""
    untested: list[Probe] = []
    for probe in probes:
        match probe.outcome:
            case Untestable():
                untested.append(probe)
            case Failed(failure=failure) if failure.signature == signature:
                bad, untested = probe, []
            case Compiled() | Failed():
                return bad, probe, untested
    return bad, None, untested


def expectations(probes: Iterable[Probe]) -> tuple[Expectation, ...]:
    """Return the windows of versions that fail with the same class, from the first failing version to the first that does
    not. Skips untestable probes and those without a version.
    """
    windows: list[Expectation] = []
    for probe in in_order(probes):
        if _version(probe) is None or isinstance(probe.outcome, Untestable):
            continue
        failure_class = probe.outcome.failure.failure_class if isinstance(probe.outcome, Failed) else None
        open_window = windows[-1] if windows and windows[-1].until is None else None
        if open_window and open_window.failure != failure_class:
            windows[-1] = replace(open_window, until=probe.version)
        if failure_class and (open_window is None or open_window.failure != failure_class):
            windows.append(Expectation(failure_class, since=probe.version))
    return tuple(windows)


def _version(probe: Probe) -> Version | None:
    try:
        return Version(probe.version) if probe.version else None
    except InvalidVersion:
        return None


@dataclass(frozen=True, slots=True)
class RecordedReproducer:
    """A reproducer as its folder records it."""

    folder: Path
    case: Case
    """The reduced program."""
    original: str
    """The name of the case that it was reduced from."""
    signature: str
    bad: str | None
    """The revision that it fails on; None for a compiler that only the recording machine had."""

    @property
    def measured(self) -> bool:
        """Whether it records a number that grew. That number says nothing about another machine."""
        return self.signature.startswith("metric:")


Name = Annotated[str, MinLen(1)]


class _BadVersion(BaseModel):
    name: Name


class _Record(BaseModel):
    """What is read of `reproducer.json`."""

    case: Name
    signature: Name
    bad: _BadVersion


def open_reproducers(paths: Sequence[Path], failure_names: Collection[str] | None = None) -> tuple[RecordedReproducer, ...]:
    """Read the reproducers in `paths`: folders of one reproducer, or folders of such folders (hidden ones are skipped).

    failure_names: the failures that a recipe may expect. Raises BadFiles with all mistakes in all folders.
    """
    problems: list[Problem] = []
    reproducers: dict[Path, RecordedReproducer] = {}
    for path in paths:
        for folder in _folders(path, problems):
            record = _read_record(folder / RECORD, problems)
            case = _read_case(folder / RECIPE, failure_names, problems)
            if record and case:
                bad = None if record.bad.name == LOCAL else record.bad.name
                reproducers[folder] = RecordedReproducer(folder, case, record.case, record.signature, bad)
    if problems:
        raise BadFiles(list(dict.fromkeys(problems)))
    return tuple(reproducers.values())


def _folders(path: Path, problems: list[Problem]) -> Sequence[Path]:
    if not path.is_dir():
        problems.append(_problem(path, "is not a folder; name a reproducer's folder, or a folder of them."))
        return ()
    if (path / RECORD).exists() or (path / RECIPE).exists():
        return (path,)
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    if not folders:
        problems.append(_problem(path, f"contains no reproducer: a folder with {RECORD}, {RECIPE} and the program."))
    return folders


def _read_record(path: Path, problems: list[Problem]) -> _Record | None:
    try:
        record = _Record.model_validate_json(path.read_bytes(), strict=True)
        if record.bad.name != LOCAL:
            parse_rev(record.bad.name, ())
    except FileNotFoundError:
        problems.append(_problem(path, "is missing; `triage reduce` writes it."))
    except OSError as error:
        problems.append(_problem(path, f"cannot be read: {(error.strerror or str(error)).lower()}."))
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            place = ".".join(map(str, mistake["loc"]))
            problems.append(_problem(path, f"{place}: {mistake['msg']}." if place else f"{mistake['msg']}."))
    except BadInput as error:
        problems.append(_problem(path, f'"bad": {error}.'))
    else:
        return record
    return None


def _read_case(path: Path, failure_names: Collection[str] | None, problems: list[Problem]) -> Case | None:
    if not path.exists():
        problems.append(_problem(path, "is missing; `triage reduce` writes it."))
        return None
    try:
        cases = load_recipes([path], recipe_families(), failure_names)
    except BadFiles as error:
        problems += error.problems
        return None
    if len(cases) != 1:
        problems.append(_problem(path, f"has {len(cases)} cases; a reproducer is one program, without a matrix."))
        return None
    return cases[0]


def _problem(path: Path, message: str) -> Problem:
    return Problem(str(path), None, None, message)


class ReplayState(StrEnum):
    """The result of a reproducer on a version."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it compiles
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class ReplayedVersion:
    """The result of a reproducer on one version."""

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {"cause": None}

    toolchain: Revision
    status: ReplayState
    failure: Failure | None
    reason: str | None
    """Why it is untestable."""
    seconds: float
    cached: bool
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A reproducer with its results, in the order in which the versions were named."""

    JSON_PROPERTIES: ClassVar = ("status", "holds")

    reproducer: str
    """The folder."""
    case: str
    """The name of the original case."""
    signature: str
    bad: str | None
    """The recorded version."""
    versions: tuple[ReplayedVersion, ...]

    @property
    def status(self) -> ReplayState:
        """The result on the last version."""
        return self.versions[-1].status

    @property
    def holds(self) -> bool | None:
        """Whether the recorded version still fails in the same way; None when it was not asked or is untestable."""
        states = [version.status for version in self.versions if version.toolchain.name == self.bad]
        return None if states in ([], [ReplayState.UNTESTABLE]) else states == [ReplayState.REPRODUCES]

    @property
    def tested(self) -> bool:
        """Whether the recorded version was testable or, when it was not asked, any version."""
        asked = [version for version in self.versions if version.toolchain.name == self.bad] or self.versions
        return any(version.status is not ReplayState.UNTESTABLE for version in asked)


def _replayed(recorded: RecordedReproducer, probe: Probe) -> ReplayedVersion:
    outcome = probe.outcome
    failure = None if isinstance(outcome, Compiled) else outcome.failure
    state, reason, cause = ReplayState.FIXED, None, None
    if isinstance(outcome, Untestable):
        state, reason, cause = ReplayState.UNTESTABLE, outcome.reason, outcome.cause
    elif recorded.measured:
        state, reason = ReplayState.UNTESTABLE, "it records a number that grew, and that is not measured again"
    elif failure:
        state = ReplayState.REPRODUCES if failure.signature == recorded.signature else ReplayState.CHANGED
    return ReplayedVersion(probe.revision, state, failure, reason, probe.measured.seconds, probe.cached, cause)


def replay(
    runner: ProbeRunner,
    reproducers: Sequence[RecordedReproducer],
    revs_of: Mapping[str, Sequence[str]] | None = None,
    *,
    after: int = 0,
) -> tuple[Replay, ...]:
    """Compile each reproducer on its family's revisions in order; a family that `revs_of` lacks is left out.

    Without `revs_of`: on the recorded revision and the newest release. after: number of the last cached result
    to ignore.
    """
    jobs: list[ProbeJob] = []
    if revs_of is not None:
        reproducers = [reproducer for reproducer in reproducers if reproducer.case.compiler in revs_of]
    for reproducer in reproducers:
        recorded = [reproducer.bad] if reproducer.bad else []
        texts = revs_of[reproducer.case.compiler] if revs_of is not None else [*recorded, "latest"]
        refs = {ref.revision.name: ref for ref in (runner.registry.resolve(text, reproducer.case.compiler) for text in texts)}
        jobs += [ProbeJob(reproducer.case, ref, after=after) for ref in refs.values()]
    # Two folders may hold recipes of the same name, so the recipe's file identifies a probe.
    probes = {(probe.case.source, probe.revision.name): probe for probe in runner.probe_all(jobs, "replay")}
    replays = []
    for one in reproducers:
        own = [probes[one.case.source, job.ref.revision.name] for job in jobs if job.case.source == one.case.source]
        versions = tuple(_replayed(one, probe) for probe in own)
        replays.append(Replay(str(one.folder), one.original, one.signature, one.bad, versions))
    return tuple(replays)
