"""The contents of a reproducer, without local paths, and the versions that it fails
on; and reproducers that are read from their folders and compiled again.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice, zip_longest
from pathlib import Path

from packaging.version import Version

from triage.compilers.base import Environment, Packaging
from triage.compilers.invocation import readable_output
from triage.compilers.registry import family_of, load_cases
from triage.compilers.repro_script import (
    MODULE_PLACE,
    RULES_FILE,
    PythonFunction,
    StandaloneCompile,
    result_files,
)
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.plan import last_execution
from triage.execution.task import ProbeJob, RunTask, Task
from triage.model.case import Case, Expectation, RunSpec
from triage.model.content import read_bytes
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, NoAnswer, Passed, Probe
from triage.model.revision import Revision
from triage.recipes.run_values import split_value
from triage.recipes.values import parse_version, why_unreadable
from triage.reduce.problem import UnreadableError
from triage.reduce.python import PythonProgram, parameter_names, parse_program
from triage.reduce.result import IssueDraft, Reduction, Replay
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry, recorded_rev

RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LARGEST_RECORD = 64 << 20  # bytes
LOCAL = "local build"
"""The name of a compiler that only this machine has."""

# characters that an issue shows; GitHub accepts issues of 65536
_LONGEST_PROGRAM = 40_000
_OUTPUT_LINES = 40
_OUTPUT_WIDTH = 300
_LONGEST = 90  # characters of a slug; the recipe's name gets ten more
_DIAGNOSTIC = re.compile(r"^/[^\n]*?(?=:\d+:\d+(?::|$))", re.MULTILINE)
_PATH = re.compile(
    r"(?<![\w./:-])/(?!dev/null\b)(?:[^\s/:\"'`(),<>]+/)+([^\s/:\"'`(),<>]+)"
)

Clean = Callable[[str], str]


@dataclass(frozen=True)
class Reproducer:
    """A reduction ready to be written. No text contains a local path."""

    reduction: Reduction
    """Its probes are in the order of the versions; its `program` is what the compiler
    reads.
    """
    compile: StandaloneCompile
    file: str
    """The input's file name: that of the compiler's input, or of the program that it is
    imported from.
    """
    ending: str
    """How the compile or the run ended."""
    output: str
    files: Mapping[str, bytes]
    """The input, the rules, and the inputs and results of a program that is run, by
    name.
    """

    @property
    def case(self) -> Case:
        return self.reduction.small

    @property
    def failure(self) -> Failure:
        assert self.reduction.failure
        return self.reduction.failure

    @property
    def bad(self) -> Revision:
        """The version that fails."""
        assert self.reduction.bad
        return self.reduction.bad


def folder_name(case: Case) -> str:
    """Return the case's name as a folder name: `attention-dtype-f16` for
    `attention[dtype=f16]`.
    """
    words = re.sub(r"[^a-z0-9]+", "-", case.name.lower())
    return words.strip("-")[:_LONGEST].strip("-")


def reproducer_of(
    engine: Engine, reduction: Reduction, bad: ToolchainRef
) -> Reproducer:
    """Collect the contents of a reproducer. bad: the toolchain that the reduced program
    fails on.
    """
    case = reduction.probes[0].case
    small = reduction.small
    good = reduction.good
    recorded = last_execution(engine, case, engine.registry.obtain(bad))
    assert recorded  # it was probed
    task, execution = recorded
    compiled = task.prepared.path
    path = case.input.path
    names = {compiled: f"input{compiled.suffix}", path: f"input{path.suffix}"}
    clean = without_paths(names, names[compiled])
    probes = {
        probe.revision.name: _clean_probe(probe, clean) for probe in reduction.probes
    }
    failing = probes[bad.revision.name]
    failure = failing.outcome.failure

    files = {names[path]: path.read_bytes()}
    if case.rules:
        files[RULES_FILE] = case.rules.read_bytes()
    output = [execution.stderr.text]
    if case.run and task.compiler.run:
        small = replace(small, run=portable_run(task, case.run, files))
        if failure and failure.failure_class == "wrong-result":
            output = [failure.headline]
        else:
            output.insert(0, readable_output(execution.stdout.text))
    program = None
    with suppress(UnicodeDecodeError):  # of a binary file
        program = compiled.read_text("utf-8")
    return Reproducer(
        reduction=replace(
            reduction,
            small=small,
            probes=tuple(probes.values()),
            failure=failure,
            bad=failing.revision,
            good=probes[good.name].revision if good else None,
            program=program,
        ),
        compile=_standalone(task, small, failing, bad, names[compiled]),
        file=names[path],
        ending=execution.ending_text(case.limits),
        output=clean("\n".join(filter(None, output))),
        files=files,
    )


def _standalone(
    task: Task, small: Case, failing: Probe, bad: ToolchainRef, source: str
) -> StandaloneCompile:
    """Return how to compile, and if need be run, the reduced case without triage."""
    family = task.compiler
    command: Sequence[str] = ()
    packages = _packages(bad, family.packaging)
    invocation = task.invocation
    if small.run and family.run:
        if isinstance(task.run, RunTask):
            command = task.run.runner.argv(
                Path(task.run.tool.name),
                Path(MODULE_PLACE),
                task.run.runner.options(task.case, task.run.spec),
                small.run.inputs,
                result_files(small.run),
                task.run.libraries,
            )
        if packages and family.run.distribution:
            packages += (f"{family.run.distribution}=={failing.version}",)
    assert failing.outcome.failure
    program = task.toolchain.program.name
    if family.distribution and (invocation.launcher or invocation.placeholders):
        program = family.distribution  # users start no program of this name
    return StandaloneCompile(
        case=small,
        source=source,
        program=program,
        # With the printing options: without them an error prints thousands of lines
        # of IR.
        options=(*invocation.options, *invocation.printing),
        version=failing.version,
        packages=packages,
        failure_class=failing.outcome.failure.failure_class,
        function=_kernel_function(task.case),
        run=tuple(command),
    )


def original_draft(engine: Engine, case: Case, bad: ToolchainRef) -> IssueDraft | None:
    """Return what an issue shows of a case that is not reduced; None if it fails before
    its program is compiled.
    """
    probe = engine.cached_probe(ProbeJob(case, bad))
    if (
        probe is None
        or not isinstance(probe.outcome, Failed)
        or last_execution(engine, case, engine.registry.obtain(bad)) is None
    ):
        return None
    return draft_of(reproducer_of(engine, Reduction(case, probes=(probe,)), bad))


def draft_of(reproducer: Reproducer) -> IssueDraft:
    """Return what an issue shows of a reproducer."""
    case = reproducer.case
    reduction = reproducer.reduction
    compiled = reproducer.compile
    headline = reproducer.failure.headline
    family = family_of(case)
    call = family.standalone(compiled)
    files = {compiled.source: reduction.program, **call.files}
    lines = reproducer.output.rstrip().splitlines()
    error = next((line for line in lines if headline in line), headline)
    shown = [line[:_OUTPUT_WIDTH] for line in lines[:_OUTPUT_LINES]]
    if len(lines) > _OUTPUT_LINES:
        shown.append(f"... {len(lines) - _OUTPUT_LINES} more lines")
    command = call.text
    version = f"{compiled.program}, version {reproducer.bad.name}"
    if call.packages:
        version = " ".join(call.packages)
        command = f"pip install {version}\n{command}"
    return IssueDraft(
        files={
            name: text if text and len(text) <= _LONGEST_PROGRAM else None
            for name, text in files.items()
        },
        command=command,
        error=error[:_OUTPUT_WIDTH],
        output="\n".join(shown),
        headline=headline,
        compiler_command=compiled.program,
        how_to_install=version,
        input_noun=family.noun,
        ending=reproducer.ending,
        explanation=reproducer.failure.explanation,
        target=case.target,
        sizes=reduction.sizes,
        unit=reduction.unit,
    )


def portable_run(task: Task, run: RunSpec, files: dict[str, bytes]) -> RunSpec:
    """Return how the case is run with values that the runtime's program reads, and with
    copies of their files, which are added to `files` by name.
    """
    if isinstance(task.run, RunTask):
        run = replace(run, inputs=task.run.spec.inputs)
        run = replace(run, expected=task.run.spec.expected)

    def copy_files(texts: Sequence[str], role: str) -> tuple[str, ...]:
        named = []
        for index, text in enumerate(texts):
            value = split_value(text)
            if value.file is not None:
                path = Path(value.file)
                name = f"{role}_{index}{path.suffix}"
                files[name] = path.read_bytes()
                text = str(replace(value, file=name))
            named.append(text)
        return tuple(named)

    return replace(
        run,
        inputs=copy_files(run.inputs, "input"),
        expected=copy_files(run.expected, "expected"),
    )


def without_paths(names: Mapping[Path, str], source: str) -> Clean:
    """Return a function that replaces paths by file names, and the path in front of a
    diagnostic's position by `source`.

    Any path is replaced, because a cached result may come from another file of the same
    content or from another machine.
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
            details = {
                name: clean(value) if isinstance(value, str) else value
                for name, value in failure.details.items()
            }
            cleaned = replace(
                failure,
                headline=clean(failure.headline),
                location=failure.location and clean(failure.location),
                details=details,
            )
            outcome = replace(outcome, failure=cleaned)
        case NoAnswer(reason=reason):
            outcome = replace(outcome, reason=clean(reason))
    revision = probe.revision
    if revision.name.startswith("path:"):  # it means nothing on other machines
        revision = replace(revision, name=LOCAL)
    return replace(probe, revision=revision, outcome=outcome)


def _kernel_function(case: Case) -> PythonFunction | None:
    """Return the kernel of a case in Python, with its parameters; None if it has
    none.
    """
    if case.input.path.suffix != ".py":
        return None
    try:
        tree = parse_program(case.input.path.read_bytes())
    except UnreadableError:
        return None
    node = PythonProgram(case, tree).kernel
    if node is None:
        return None
    # each decorator but the innermost wraps the kernel, which is its attribute `fn`
    name = node.name + ".fn" * (len(node.decorator_list) - 1)
    return PythonFunction(name, tuple(parameter_names(node)))


def _packages(ref: ToolchainRef, packaging: Packaging) -> tuple[str, ...]:
    """Return what pip installs for a release; nothing for another toolchain."""
    release = ref.release
    if release is None or not ref.is_release:
        return ()
    requirements = [f"{release.distribution}=={release.version}"]
    if isinstance(packaging, Environment):
        requirements += packaging.companions_of(release.version)
    return tuple(map(shlex.quote, requirements))


def sorted_by_version(probes: Iterable[Probe]) -> tuple[Probe, ...]:
    """Sort probes by version, those without a version last. Of builds with the same
    version, one that passes comes first.
    """

    def key(probe: Probe) -> tuple[bool, Version, bool]:
        version = parse_version(probe.version)
        is_good = isinstance(probe.outcome, Passed)
        return version is None, version or Version("0"), not is_good

    return tuple(sorted(probes, key=key))


def expected_windows(probes: Iterable[Probe]) -> list[Expectation]:
    """Return the windows of versions that fail alike, from the first failing version to
    the first that does not. Skips untestable probes, those without a version, and bad
    numbers: a recipe does not say which number is compared.

    probes: in the order of their versions.
    """
    tested = [
        probe
        for probe in probes
        if parse_version(probe.version) and not isinstance(probe.outcome, NoAnswer)
    ]
    alike = groupby(tested, lambda probe: result_of(probe).state)
    groups = [list(group) for _, group in alike]
    expected = []
    for group, after in zip_longest(groups, groups[1:]):
        failure = group[0].outcome.failure
        if failure and not failure.is_of_metric:
            since = group[0].version
            until = after[0].version if after else None
            expected.append(Expectation(failure.failure_class, since, until))
    return expected


def open_reproducers(paths: Sequence[Path]) -> tuple[Replay, ...]:
    """Read the reproducers in `paths`: folders of one reproducer, or folders of such
    folders (hidden ones are skipped).

    Raises BadFiles, and BadInput for an unknown compiler.
    """
    reproducers: dict[Path, Replay] = {}
    for path in paths:
        folders = [path]
        if not (path / RECORD).exists():
            folders = sorted(file.parent for file in path.glob(f"[!.]*/{RECORD}"))
        if not folders:
            folder = f"a folder with {RECORD} and {RECIPE}"
            raise BadInput(f"{path} contains no reproducer: {folder}")
        reproducers |= {folder: _open_reproducer(folder) for folder in folders}
    return tuple(reproducers.values())


def _open_reproducer(folder: Path) -> Replay:
    path = folder / RECORD
    try:
        record = json.loads(read_bytes(path, _LARGEST_RECORD))
    except OSError as error:
        raise BadInput(f"{path}: {why_unreadable(path, error)}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    match record:
        case {
            "case": str(name),
            "signature": str(signature),
            "bad": {"name": str(bad)},
        }:
            pass
        case _:
            raise BadInput(f"{path}: `case`, `signature` or `bad.name` is missing")
    small, *others = load_cases([folder / RECIPE])
    if others:
        raise BadInput(f"{folder / RECIPE} has a matrix; a reproducer is one program")
    kind, _, metric = signature.partition(":")
    if kind == "metric":
        # between the numbers on the bad and on the good revision
        with suppress(LookupError, TypeError, ValueError):
            details = record["failure"]["details"]
            limit = math.sqrt(float(details["value"]) * float(details["good"]))
            small = replace(small, thresholds=((metric, limit),))
    recorded = None if bad == LOCAL else bad
    return Replay(str(folder), small, name, signature, recorded)


def replay(
    engine: Engine,
    reproducers: Sequence[Replay],
    revs_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Replay, ...]:
    """Compile each reproducer on the revisions that `revs_of` names for its compiler,
    in order. Leave out reproducers of other compilers.

    Without `revs_of`: on the recorded revision and the newest release.
    """
    counts = list[int]()
    jobs = list[ProbeJob]()
    for reproducer in reproducers:
        refs = _refs_of(engine.registry, reproducer, revs_of)
        counts.append(len(refs))
        jobs += [ProbeJob(reproducer.small, ref) for ref in refs]
    results = map(result_of, engine.probe_in_order(jobs, "replay"))
    return tuple(
        replace(reproducer, versions=tuple(islice(results, count)))
        for reproducer, count in zip(reproducers, counts, strict=True)
        if count
    )


def _refs_of(
    registry: ToolchainRegistry,
    reproducer: Replay,
    revs_of: Mapping[str, Sequence[str]] | None,
) -> Collection[ToolchainRef]:
    family = reproducer.small.compiler
    revs = ["latest"]
    try:
        if revs_of is not None:
            revs = list(revs_of.get(family, ()))
        elif reproducer.bad:
            revs.insert(0, recorded_rev(reproducer.bad))
        refs = [registry.resolve(rev, family) for rev in revs]
    except BadInput as error:
        if revs_of:
            raise
        raise BadInput(
            f"{reproducer.reproducer}/{RECORD}: {error}; replay it with -t REV"
        ) from error
    return {ref.revision.name: ref for ref in refs}.values()
