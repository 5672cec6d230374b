"""A reduction with what a folder tells beside it: the command, what the compiler said, and no path of this machine."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from triage.compilers.registry import family_of
from triage.compilers.standalone import PythonFunction
from triage.execution.inputs import Prepared
from triage.execution.runner import ProbeRunner
from triage.model.case import Case, Expectation
from triage.model.execution import Ending, Execution
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Revision
from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import PythonDocument, kernel_function, parameters
from triage.reduce.frontends.python.format import parsed
from triage.reduce.state import Reduced
from triage.toolchains.registry import ToolchainRef

LOCAL = "local build"  # how a compiler is called that only this machine has
RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LONGEST = 90  # letters of a slug; a recipe's name has ten more
_PLACE = re.compile(r"^/[^\n]*?(?=:\d+:\d+(?::|$))", re.MULTILINE)
_PATH = re.compile(r"(?<![\w./:-])/(?!dev/null\b)(?:[^\s/:\"'`(),<>]+/)+([^\s/:\"'`(),<>]+)")

Mend = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A reduction ready to be written down, every text of it free of paths.

    failure: of the small program on the bad toolchain; probes: of it on every version tried, in their order; file, content:
    the program; source, text: what the compiler is given for it, the same unless it is imported first; program, options:
    the compiler and its arguments on the bad version, input and output left out; ending: how that compile ended; said:
    what it printed; package: what pip installs for the bad version, None where it is no release; function: the kernel that
    `file` holds, None for what is no kernel or is IR; rules: the recipe's own failure rules.
    """

    reduced: Reduced
    failure: Failure
    bad: Probe
    probes: tuple[Probe, ...]
    file: str
    content: bytes
    source: str
    text: str
    program: str
    options: tuple[str, ...]
    ending: str
    said: str
    package: str | None
    function: PythonFunction | None = None
    rules: bytes | None = None

    @property
    def good(self) -> Revision | None:
        """The revision that had to go on compiling it, with what is known of it."""
        named = called(self.reduced.good) if self.reduced.good else None
        return next((one.revision for one in self.probes if named and one.revision.name == named.name), named)

    @property
    def slug(self) -> str:
        """The folder's name."""
        return slug(self.reduced.case)


def slug(case: Case) -> str:
    """A case's name as a folder's: `attention-dtype-f16` of `attention[dtype=f16]`."""
    return re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")[:_LONGEST].strip("-")


def reproducer_of(bench: ProbeRunner, reduced: Reduced, bad: ToolchainRef) -> Reproducer:
    """What a reduction leaves behind. `bad` is where the reduced program was found to fail."""
    toolchain = bench.shed.obtain(bad)
    probe = next(one for one in reduced.evidence if one.revision.name == reduced.bad.name)
    known = bench.prober.recorded(probe.case, toolchain)
    assert known  # it was probed
    invocation, execution = known
    prepared = bench.prober.input_of(probe.case)
    assert isinstance(prepared, Prepared)
    path = probe.case.input.path
    names = {prepared.path: f"input{prepared.path.suffix}", path: f"input{path.suffix}"}
    mend = _without_paths(names, names[prepared.path])
    probes = tuple(_mended(one, mend) for one in in_order(reduced.evidence))
    mended = next(one for one in probes if one.revision.name == called(reduced.bad).name)
    assert isinstance(mended.outcome, Failed)
    return Reproducer(
        reduced=reduced,
        failure=mended.outcome.failure,
        bad=mended,
        probes=probes,
        file=names[path],
        content=path.read_bytes(),
        source=names[prepared.path],
        text=prepared.path.read_text("utf-8", "replace"),
        program=family_of(probe.case).program_name(probe.case, toolchain),
        # The printing options with them: without these an error prints thousands of lines of IR.
        options=(*invocation.options, *invocation.printing),
        ending=_ending(execution, probe.case),
        said=mend(execution.stderr.text),
        package=_package(bad),
        function=_function(probe.case),
        rules=probe.case.rules.read_bytes() if probe.case.rules else None,
    )


def called(revision: Revision) -> Revision:
    """The revision by a name that means something on other machines."""
    return replace(revision, name=LOCAL) if revision.name.startswith("path:") else revision


def _without_paths(names: Mapping[Path, str], source: str) -> Mend:
    """Texts with names in the place of paths. Evidence may come from another file of the same content, or from another
    machine, so that any path gives way to the name of its file, and one that a diagnostic points into to `source`.
    """

    def mend(text: str) -> str:
        for path, name in names.items():
            text = text.replace(str(path), name).replace(str(path.resolve()), name)
        return _PATH.sub(r"\1", _PLACE.sub(source, text))

    return mend


def _mended(probe: Probe, mend: Mend) -> Probe:
    outcome = probe.outcome
    match outcome:
        case Compiled():
            pass
        case Failed(failure=failure):
            outcome = replace(outcome, failure=_mended_failure(failure, mend))
        case Untestable(reason=reason):
            outcome = replace(outcome, reason=mend(reason))
    return replace(probe, revision=called(probe.revision), outcome=outcome)


def _mended_failure(failure: Failure, mend: Mend) -> Failure:
    details = {name: mend(value) if isinstance(value, str) else value for name, value in failure.details.items()}
    location = mend(failure.location) if failure.location else None
    return replace(failure, headline=mend(failure.headline), location=location, details=details)


def _ending(execution: Execution, case: Case) -> str:
    match execution.ending:
        case Ending.TIMED_OUT:
            return f"still running after {case.limits.timeout:g} s"
        case Ending.OVER_MEMORY:
            return f"used more than {case.limits.memory >> 20} MiB"
        case Ending.SIGNALLED if execution.signal:
            return f"ended by {signal.Signals(execution.signal).name}"
    return f"exit status {execution.exit_code}"


def _function(case: Case) -> PythonFunction | None:
    is_kernel = family_of(case).kernel(case) is not None and case.input.path.suffix == ".py"
    tree = parsed(case.input.path.read_bytes()) if is_kernel else None
    found = kernel_function(Draft(PythonDocument(tree), case)) if tree is not None else None
    return (
        None
        if found is None
        else PythonFunction(found.name + ".fn" * (len(found.decorator_list) - 1), tuple(parameters(found)))
    )


def _package(place: ToolchainRef) -> str | None:
    if place.release is None:
        return None
    try:
        name, version, _, _ = parse_wheel_filename(place.release.wheel)
    except InvalidWheelFilename:
        return None
    return f"{name}=={version}"


@dataclass(frozen=True, slots=True)
class Span:
    """The versions around the bad one that fail as it does; untestable ones are passed over and are no part of it.

    before, after: the nearest tested versions on both sides, which compile or fail otherwise; None where none was tried.
    untested: versions between `before` and first_bad that could not be tested.
    """

    before: Probe | None
    first_bad: Probe
    last_bad: Probe
    after: Probe | None
    untested: tuple[Probe, ...] = ()

    @property
    def last_good(self) -> Probe | None:
        """The version before it, where that compiles."""
        return self.before if self.before and isinstance(self.before.outcome, Compiled) else None

    @property
    def first_good(self) -> Probe | None:
        """The version after it, where that compiles."""
        return self.after if self.after and isinstance(self.after.outcome, Compiled) else None


def in_order(probes: Iterable[Probe]) -> tuple[Probe, ...]:
    """Probes by version, those without one last."""
    return tuple(sorted(probes, key=lambda one: ((version := _version(one)) is None, version or Version("0"))))


def span_around(probes: Sequence[Probe], bad: Probe, signature: str) -> Span:
    """The span of a signature around one of the probes, which stand in the order of their versions and are on one line."""
    at = probes.index(bad)
    first_bad, before, untested = _as_far_as_it_goes(reversed(probes[:at]), bad, signature)
    last_bad, after, _ = _as_far_as_it_goes(probes[at + 1 :], bad, signature)
    return Span(before, first_bad, last_bad, after, tuple(reversed(untested)) if before else ())


def _as_far_as_it_goes(probes: Iterable[Probe], bad: Probe, signature: str) -> tuple[Probe, Probe | None, list[Probe]]:
    """The last of the same failures on the way, what is tested behind it, and the untestable between the two."""
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
    """The windows of versions over which the same class of failure was seen, from the first version that was seen to fail
    to the first that was seen to do otherwise. Untestable versions, and those without a version, say nothing.
    """
    windows: list[Expectation] = []
    for probe in in_order(probes):
        if _version(probe) is None or isinstance(probe.outcome, Untestable):
            continue
        seen = _class(probe.outcome)
        known = windows[-1] if windows and windows[-1].until is None else None
        if known and known.failure != seen:
            windows[-1] = replace(known, until=probe.version)
        if seen and (known is None or known.failure != seen):
            windows.append(Expectation(seen, since=probe.version))
    return tuple(windows)


def _class(outcome: Outcome) -> str | None:
    return outcome.failure.failure_class if isinstance(outcome, Failed) else None


def _version(probe: Probe) -> Version | None:
    try:
        return Version(probe.version) if probe.version else None
    except InvalidVersion:
        return None
