"""A reduction with what a folder tells beside it: the command, what the compiler said, and no path of this machine."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from triage.model.case import Case, CommandLine, Kernel
from triage.model.execution import Ending, Execution
from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed, Untestable
from triage.model.probe import Probe
from triage.model.revision import Revision, Toolchain
from triage.probe.inputs import Prepared
from triage.probe.workbench import Workbench
from triage.reduce.draft import Draft
from triage.reduce.python.document import PythonDocument, kernel_function, parameters
from triage.reduce.python.format import parsed
from triage.reduce.result import Reduced
from triage.reduce.span import in_order
from triage.toolchains.shed import Place

LOCAL = "local build"  # how a compiler is called that only this machine has
RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LONGEST = 90  # letters of a slug; a recipe's name has ten more
_PLACE = re.compile(r"^/[^\n]*?(?=:\d+:\d+(?::|$))", re.MULTILINE)
_PATH = re.compile(r"(?<![\w./:-])/(?!dev/null\b)(?:[^\s/:\"'`(),<>]+/)+([^\s/:\"'`(),<>]+)")

Mend = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel as its file names it, `softmax` or, below what tunes it, `softmax.fn`; parameters: in their order."""

    name: str
    parameters: tuple[str, ...]


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
    function: Function | None = None
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


def reproducer_of(bench: Workbench, reduced: Reduced, bad: Place) -> Reproducer:
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
        program=_program(probe.case, toolchain),
        # The printing options with them: without these an error prints thousands of lines of IR.
        options=(*invocation.options, *invocation.printing),
        ending=_ending(execution, probe.case),
        said=mend(execution.stderr.text),
        package=_package(bad),
        function=_function(probe.case),
        rules=_rules(probe.case),
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


def _program(case: Case, toolchain: Toolchain) -> str:
    """What people call the compiler: one that an interpreter runs goes by its package's name."""
    match case.how:
        case Kernel():
            return case.compiler
        case CommandLine(packages=[package, *_]):
            return package
    return toolchain.program.name


def _function(case: Case) -> Function | None:
    tree = parsed(case.input.path.read_bytes()) if isinstance(case.how, Kernel) and case.input.path.suffix == ".py" else None
    found = kernel_function(Draft(PythonDocument(tree), case)) if tree is not None else None
    return None if found is None else Function(found.name + ".fn" * (len(found.decorator_list) - 1), tuple(parameters(found)))


def _rules(case: Case) -> bytes | None:
    path = case.how.rules if isinstance(case.how, CommandLine) else None
    return path.read_bytes() if path else None


def _package(place: Place) -> str | None:
    if place.release is None:
        return None
    try:
        name, version, _, _ = parse_wheel_filename(place.release.wheel)
    except InvalidWheelFilename:
        return None
    return f"{name}=={version}"
