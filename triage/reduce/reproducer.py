"""A reduction with what a folder tells beside it: the command, what the compiler said, and no path of this machine."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from triage.model.case import Case
from triage.model.execution import Ending, Execution
from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed, Untestable
from triage.model.probe import Probe
from triage.model.revision import Revision, Toolchain
from triage.probe.workbench import Workbench
from triage.reduce.result import Reduced
from triage.reduce.span import in_order
from triage.toolchains.shed import Place

LOCAL = "local build"  # how a compiler is called that only this machine has
RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LONGEST = 90  # letters of a slug; a recipe's name has ten more

Mend = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A reduction ready to be written down, every text of it free of paths.

    failure: of the small program on the bad toolchain; probes: of it on every version tried, in their order; file: what
    the program is called; program, options: the compiler and its arguments on the bad version, input and output left out;
    ending: how that compile ended; said: what it printed; package: what pip installs for the bad version, None where it
    is no release.
    """

    reduced: Reduced
    failure: Failure
    bad: Probe
    probes: tuple[Probe, ...]
    file: str
    program: str
    options: tuple[str, ...]
    ending: str
    said: str
    package: str | None

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


def reproducer_of(bench: Workbench, reduced: Reduced, bad: Place) -> Reproducer:
    """What a reduction leaves behind. `bad` is where the reduced program was found to fail."""
    toolchain = bench.shed.obtain(bad)
    probe = next(one for one in reduced.evidence if one.revision.name == reduced.bad.name)
    known = bench.prober.recorded(probe.case, toolchain)
    assert known  # it was probed
    invocation, execution = known
    path = probe.case.input.path
    file = f"input{path.suffix}"
    mend = _without_paths(toolchain, bench.shed.home, path, file)
    probes = tuple(_mended(one, mend) for one in in_order(reduced.evidence))
    mended = next(one for one in probes if one.revision.name == called(reduced.bad).name)
    assert isinstance(mended.outcome, Failed)
    return Reproducer(
        reduced=reduced,
        failure=mended.outcome.failure,
        bad=mended,
        probes=probes,
        file=file,
        program=toolchain.program.name,
        # The printing options with them: without these an error prints thousands of lines of IR.
        options=(*invocation.options, *invocation.printing),
        ending=_ending(execution, probe.case),
        said=mend(execution.stderr.text),
        package=_package(bad),
    )


def called(revision: Revision) -> Revision:
    """The revision by a name that means something on other machines."""
    return replace(revision, name=LOCAL) if revision.name.startswith("path:") else revision


def _without_paths(toolchain: Toolchain, home: Path, source: Path, file: str) -> Mend:
    folders = {str(path): "" for one in (toolchain.root, home, Path.home()) for path in (one, one.resolve())}

    def mend(text: str) -> str:
        for path in {str(source), str(source.resolve())}:
            text = text.replace(path, file)
        for folder in sorted(folders, key=len, reverse=True):
            text = text.replace(f"{folder}/", "")
        return text

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


def _package(place: Place) -> str | None:
    if place.release is None:
        return None
    try:
        name, version, _, _ = parse_wheel_filename(place.release.wheel)
    except InvalidWheelFilename:
        return None
    return f"{name}=={version}"
