"""Find the phase and pass where two compilers diverge without triage/attribute.

The bad compiler's output after each phase is passed to the good one, which compiles it to the end. The first phase whose output
changes the result makes the first persistent difference. The first phase with whose output the good compiler fails, or in
which the bad one fails, decides the failure. A result is the count of operations in it. A phase is compared if the good
compiler can read the other's output, respelled if necessary.

Within a phase the state after each pass is a count of operation names in plain text: the first word of a line with a dot in it,
without its dialect. Lines about constants, `affine` and sizes of tensors do not count, nor do those that end in an integer or
index type. A program's state is the sum over its functions.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triage.compilers.iree import Iree
from triage.model.case import Case
from triage.model.outcome import Untestable
from triage.model.revision import Toolchain

_HEADER = re.compile(r"// -----// IR Dump After (?:(?:\(anonymous namespace\)|\w+)::)*(\w+)(?:<.*?>)?( Failed)?(?=:| \(| //)")
_OPERATION = re.compile(r'\s*(?:%[^=]*= )?"?([a-z_]\w*(?:\.[\w$]+)+)"?(?=[\s({<%@\[]|$)')
_FUNCTION = re.compile(r'(\s*)(?:func\.func|util\.func|util\.initializer|llvm\.func|spirv\.func)\b[^@{]*@?("[^"]+"|[\w$.-]*)')
_BOOKKEEPING = re.compile(r"affine\.|.*(?:constant\b|\.dim\b|\.assume)")
_SIZE = re.compile(r": (?:index|i1|i32|i64)\s*$|to (?:index|i32|i64)\s*$")
_CHOICE = re.compile(
    r"(\w+) = (\[[\d, \[\]]*\d[\d, \[\]]*\])|workgroup_size = (\[[^\]]*\])|(?:pipeline = |translation_info<)(\w+)"
)
_CHOOSES = ("lowering_config", "translation_info")

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class DumpedPass:
    """A pass that printed IR. functions: counts of each function; choices: tile sizes and pipelines of each function; whole:
    whether it printed a module.
    """

    by: str
    failed: bool
    functions: dict[str, Counts] = field(default_factory=dict)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    whole: bool = False


def dumps(text: str) -> list[DumpedPass]:
    """Return all dumps of a run, in order."""
    found: list[DumpedPass] = []
    lines: list[str] = []
    header: re.Match[str] | None = None
    for line in [*text.splitlines(), "// -----// IR Dump After end //"]:
        if (begun := _HEADER.match(line)) is not None:
            if header is not None:
                found.append(_dumped(header, lines))
            header, lines = begun, []
        else:
            lines.append(line)
    return found


def _dumped(header: re.Match[str], lines: Sequence[str]) -> DumpedPass:
    functions, choices = {}, {}
    for name, body in _functions(lines):
        functions[name] = counted(body)
        choices[name] = tuple(sorted({"".join(filter(None, one)) for line in body for one in _chosen(line)}))
    whole = any(line.startswith(("module", "builtin.module")) for line in lines[:3])
    return DumpedPass(header[1].removesuffix("Pass"), bool(header[2]), functions, choices, whole)


def _functions(lines: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    name, indent, body = "", "", list[str]()
    for line in lines:
        if not name and (begun := _FUNCTION.match(line)) and line.rstrip().endswith("{"):
            name, indent, body = begun[2] or "initializer", begun[1], [line]
        elif name:
            body.append(line)
            if line.startswith(indent + "}"):
                yield name, body
                name = ""


def counted(lines: Iterable[str]) -> Counts:
    """Count operation names without their dialect."""
    names: Counter[str] = Counter()
    for line in lines:
        if (found := _OPERATION.match(line)) and not _BOOKKEEPING.match(found[1]) and not _SIZE.search(line):
            names[found[1].partition(".")[2]] += 1
    return tuple(sorted(names.items()))


def _chosen(line: str) -> list[tuple[str, ...]]:
    return _CHOICE.findall(line) if any(word in line for word in _CHOOSES) else []


State = tuple[str, object, bool]
"""The pass, the state after it, and whether the pass failed."""


def of_function(run: Sequence[DumpedPass], name: str, *, choosing: bool = False) -> list[State]:
    """Return the states of a function; with `choosing`, its choices instead of its operations."""
    known = [(one, (one.choices if choosing else one.functions)[name]) for one in run if name in one.functions]
    return [(one.by, state, one.failed) for one, state in known]


def of_program(run: Sequence[DumpedPass]) -> list[State]:
    """Return the states of all functions together."""
    now: dict[str, Counts] = {}
    states: list[State] = []
    for one in run:
        now = one.functions if one.whole else {**now, **one.functions}
        total: Counter[str] = Counter()
        for counts in now.values():
            total.update(dict(counts))
        states.append((one.by, tuple(sorted(total.items())), one.failed))
    return states


def diverging_passes(good: Sequence[State], bad: Sequence[State]) -> set[str] | None:
    """Return the passes after the last state that both runs had, on either side; None if they end equal. States after a
    failed pass do not count.
    """
    here, there = ([(by, state) for by, state, failed in run if not failed] for run in (good, bad))
    failing = {by for by, _, failed in bad if failed}
    last = max(
        ((i, j) for j, (_, b) in enumerate(there) for i, (_, g) in enumerate(here) if g == b), key=_later, default=(-1, -1)
    )
    i, j = last
    if j + 1 == len(there) and failing:
        return failing
    if j + 1 == len(there) and i + 1 == len(here):
        return None
    return {by for by, _ in (*_next(here, i), *_next(there, j))}


def _later(at: tuple[int, int]) -> tuple[int, int]:
    return at[1], at[0]


def _next(run: Sequence[tuple[str, object]], at: int) -> Sequence[tuple[str, object]]:
    """Return the first pass after `at` that changes the state."""
    then = at + 1
    while at >= 0 and then < len(run) and run[then][1] == run[at][1]:
        then += 1
    return run[then : then + 1]


_TARGET = re.compile(r'"[\w-]+", "[\w-]+", (?=\{)')
_MOVED = r"(?:flow|iree_tensor_ext)(?=\.dispatch\.(?:tensor|workload\.ordinal|workgroup_count_from_\w+)\b)"
_COUNTED = r"(workgroup_count_from_slice)(?:\(\))?(?= *$)"


def respelled(text: str, own: str) -> str:
    """Respell one release's output for another as in the reader's own output of that phase.

    The target description is the reader's own, and operations that moved to another dialect have the reader's name.
    """
    description = next((own[found.end() : _end(own, found.end())] for found in _TARGET.finditer(own)), None)
    if description:
        text = _described(text, description)
    if "iree_tensor_ext.dispatch." in own:
        text = re.sub(_MOVED, "iree_tensor_ext", text)
    elif "flow.dispatch.tensor" in own:
        text = re.sub(_MOVED, "flow", text)
    brackets = "()" if "workgroup_count_from_slice()" in own else ""
    if "workgroup_count_from_slice" in own:
        text = re.sub(_COUNTED, rf"\1{brackets}", text, flags=re.MULTILINE)
    return text


def _described(text: str, description: str) -> str:
    pieces, at = [], 0
    for found in _TARGET.finditer(text):
        if found.end() >= at:
            pieces += [text[at : found.end()], description]
            at = _end(text, found.end())
    return "".join([*pieces, text[at:]])


def _end(text: str, start: int) -> int:
    """Return the index after the bracket that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "{") - (text[at] in "}")
        if depth == 0:
            return at + 1
    return len(text)


PHASES = (
    "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow", "stream", "executable-sources",
    "executable-configurations", "executable-targets",
)  # fmt: skip
IN_FUNCTIONS = PHASES[-2:]
"""Phases that are compared function by function."""
PATIENCE = 60.0  # seconds for a compile
PRINTING = (
    "--mlir-print-ir-after-all", "--mlir-print-ir-after-change", "--mlir-disable-threading", "--mlir-print-local-scope",
    "--mlir-elide-elementsattrs-if-larger=16",
)  # fmt: skip


@dataclass(frozen=True)
class OracleAnswer:
    """persistent: the phase of the first persistent difference; deciding: the phase of the failure, None if neither fails. For
    each, the possible passes of either side, by function. unread, undecided: phases whose output the good compiler cannot
    read, which are possible too.
    """

    persistent: str | None = None
    deciding: str | None = None
    persistent_passes: tuple[frozenset[str], ...] = ()
    deciding_passes: tuple[frozenset[str], ...] = ()
    unread: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


class OracleSide:
    """One compiler and the flags of a case."""

    def __init__(self, case: Case, toolchain: Toolchain, folder: Path) -> None:
        invocation = Iree().invocation(case, toolchain)
        assert not isinstance(invocation, Untestable)
        self.options = [one for one in invocation.options if not one.startswith("--compile-to")]
        self.source = case.input.path
        self.program, self.name, self.folder = toolchain.program, toolchain.revision.name, folder
        self.phases = [phase for phase in PHASES if phase in toolchain.capabilities.phases]
        self._compiled: dict[tuple[Path, str | None, str, tuple[str, ...]], tuple[Path | None, str]] = {}

    def compile(self, source: Path, since: str | None, until: str, *words: str) -> tuple[Path | None, str]:
        """Compile from one phase to another, once; return the output's path (None if it fails) and stderr."""
        key = (source, since, until, words)
        if key not in self._compiled:
            self._compiled[key] = self._compile(*key)
        return self._compiled[key]

    def _compile(self, source: Path, since: str | None, until: str, words: tuple[str, ...]) -> tuple[Path | None, str]:
        output = self.folder / f"{source.stem}-{self.name}-{until}-{len(self._compiled)}.mlir"
        start = [f"--compile-from={since}"] if since else []
        argv = [str(self.program), *self.options, *start, f"--compile-to={until}", *words, str(source), "-o", str(output)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired as error:
            return None, (error.stderr or b"").decode("utf-8", "replace")
        return (output if done.returncode == 0 else None), done.stderr

    def readable(self, other: OracleSide, phase: str) -> Path | None:
        """Return the other side's output of a phase in a form that this side parses: respelled, generic, or as it is; None if
        there is none.
        """
        for words in ((), ("--mlir-print-op-generic",)):
            theirs, own = (side.compile(self.source, None, phase, *words)[0] for side in (other, self))
            if theirs is None or own is None:
                return None
            text = theirs.read_text(errors="replace")
            for number, form in enumerate((respelled(text, own.read_text(errors="replace")), text)):
                handed = theirs.with_name(f"{phase}-of-{other.name}-for-{self.name}-{bool(words)}-{number}.mlir")
                handed.write_text(form)
                if self._reads(handed):
                    return handed
        return None

    def _reads(self, source: Path) -> bool:
        argv = [str(self.program.with_name("iree-opt")), str(source), "-o", "/dev/null"]
        return subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False).returncode == 0


@dataclass
class _Search:
    """The state of the search over phases. unread, undecided: possible phases whose output cannot be read."""

    persistent: str | None = None
    deciding: str | None = None
    unread: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def differs(self, phase: str, *, differs: bool) -> None:
        """Record whether the output of a phase changes the result."""
        if self.persistent is None and differs:
            self.persistent = phase
        elif self.persistent is None:
            self.unread = []

    def cannot_tell(self, phase: str) -> None:
        self.undecided.append(phase)
        if self.persistent is None:
            self.unread.append(phase)


def oracle_answer(case: Case, toolchains: tuple[Toolchain, Toolchain], folder: Path, *, fails: bool) -> OracleAnswer:
    good, bad = (OracleSide(case, one, folder) for one in toolchains)
    phases = [phase for phase in good.phases if phase in bad.phases]
    known = _Search()
    for phase in phases:
        if _settles(known, good, bad, phase, phases[-1]) or (known.persistent and not fails):
            break
    before = dict(zip(phases, [None, *phases], strict=False))
    persistent, deciding = known.persistent, known.deciding if fails else None
    return OracleAnswer(
        persistent,
        deciding,
        tuple(_passes((good, bad), before[persistent], persistent, fails=fails)) if persistent else (),
        tuple(_passes((good, bad), before[deciding], deciding, fails=fails)) if deciding else (),
        tuple(known.unread),
        tuple(known.undecided),
    )


def _settles(known: _Search, good: OracleSide, bad: OracleSide, phase: str, last: str) -> bool:
    """Compare one phase; return whether later phases add nothing."""
    own, theirs = (side.compile(good.source, None, phase)[0] for side in (good, bad))
    if own is None or theirs is None:  # the bad one fails in this phase; earlier ones made no failure
        known.deciding = phase
        known.differs(phase, differs=True)
        return True
    if phase == last:
        known.differs(phase, differs=_result(own) != _result(theirs))
        return True
    handed = good.readable(bad, phase)
    if handed is None:
        known.cannot_tell(phase)
        return False
    if handed.read_text(errors="replace") == own.read_text(errors="replace"):
        known.differs(phase, differs=False)
        return False
    wanted, got = (good.compile(source, phase, last)[0] for source in (own, handed))
    if wanted is None:  # it cannot continue from its own output
        known.cannot_tell(phase)
        return False
    known.differs(phase, differs=got is None or _result(wanted) != _result(got))
    if got is None:
        known.deciding = phase
    known.undecided = []
    return got is None


def _result(path: Path) -> Counts:
    return counted(path.read_text(errors="replace").splitlines())


def _passes(sides: tuple[OracleSide, OracleSide], since: str | None, phase: str, *, fails: bool) -> Iterator[frozenset[str]]:
    """Yield the passes after which both sides diverge within a phase that starts from the good side's output."""
    good, bad = sides
    handed = bad.readable(good, since) if since else good.source
    source = good.compile(good.source, None, since)[0] if since else good.source
    if source is None or handed is None:
        return
    runs = [dumps(side.compile(one, since, phase, *PRINTING)[1]) for side, one in zip(sides, (source, handed), strict=True)]
    if phase not in IN_FUNCTIONS:
        yield frozenset(diverging_passes(of_program(runs[0]), of_program(runs[1])) or ())
        return
    last = _last(runs[1])
    for name in dict.fromkeys(name for run in runs for one in run for name in one.functions):
        if fails and last and name not in last:
            continue
        found = diverging_passes(of_function(runs[0], name), of_function(runs[1], name))
        choices = (of_function(run, name, choosing=True) for run in runs)
        found = found or diverging_passes(*choices)
        if found:
            yield frozenset(found)


def _last(run: list[DumpedPass]) -> set[str]:
    """Return the functions of the failed pass, otherwise those of the last dump."""
    for one in run:
        if one.failed and one.functions:
            return set(one.functions)
    return set(next((one.functions for one in reversed(run) if one.functions), ()))
