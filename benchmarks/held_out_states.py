"""What a compiler prints after each pass, as counts of operation names in plain text: nothing of triage/attribute is used.

Rules: an operation is the first word of a line with a dot in it; it counts without its dialect, as releases move operations
between dialects; lines about constants, `affine` and the sizes of tensors do not count, nor do those that end in an integer
or index type. A function's state is those counts; a program's is the sum over its functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_HEADER = re.compile(r"// -----// IR Dump After (?:\S*::)?(\S+?)(?: \(([^)]*)\))?( Failed)?(?: \(([^)]*)\))? //")
_OPERATION = re.compile(r'\s*(?:%[^=]*= )?"?([a-z_]\w*(?:\.[\w$]+)+)"?(?=[\s({<%@\[]|$)')
_FUNCTION = re.compile(r'(\s*)(?:func\.func|util\.func|util\.initializer|llvm\.func|spirv\.func)\b[^@{]*@?("[^"]+"|[\w$.-]*)')
_BOOKKEEPING = re.compile(r"\baffine\.|constant\b|\.dim\b|\bassume|: (?:index|i1|i32|i64)\s*$|to (?:index|i32|i64)\s*$")
_CHOICE = re.compile(
    r"(\w+) = (\[[\d, \[\]]*\d[\d, \[\]]*\])|workgroup_size = (\[[^\]]*\])|(?:pipeline = |translation_info<)(\w+)"
)
_CHOOSES = ("lowering_config", "translation_info")

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Dumped:
    """A pass that printed IR. functions: the counts of each function in it; choices: of each, what attributes that hold tile
    sizes and pipelines say; whole: it printed a module.
    """

    by: str
    failed: bool
    functions: dict[str, Counts] = field(default_factory=dict)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    whole: bool = False


def dumps(text: str) -> list[Dumped]:
    """Everything a run printed, in order."""
    found: list[Dumped] = []
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


def _dumped(header: re.Match[str], lines: Sequence[str]) -> Dumped:
    functions, choices = {}, {}
    for name, body in _functions(lines):
        functions[name] = counted(body)
        choices[name] = tuple(sorted({"".join(filter(None, one)) for line in body for one in _chosen(line)}))
    whole = any(line.startswith(("module", "builtin.module")) for line in lines[:3])
    return Dumped(header[1].removesuffix("Pass"), bool(header[3]), functions, choices, whole)


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
    """Operation names without their dialect, with how often each stands there."""
    names: Counter[str] = Counter()
    for line in lines:
        if (found := _OPERATION.match(line)) and not _BOOKKEEPING.search(line):
            names[found[1].partition(".")[2]] += 1
    return tuple(sorted(names.items()))


def _chosen(line: str) -> list[tuple[str, ...]]:
    return _CHOICE.findall(line) if any(word in line for word in _CHOOSES) else []


State = tuple[str, object, bool]
"""The pass that left it, what it is, and whether that pass failed."""


def of_function(run: Sequence[Dumped], name: str, *, choosing: bool = False) -> list[State]:
    """What became of one function. choosing: look at its choices instead of its operations."""
    known = [(one, (one.choices if choosing else one.functions)[name]) for one in run if name in one.functions]
    return [(one.by, state, one.failed) for one, state in known]


def of_program(run: Sequence[Dumped]) -> list[State]:
    """What became of all functions together."""
    now: dict[str, Counts] = {}
    states: list[State] = []
    for one in run:
        now = one.functions if one.whole else {**now, **one.functions}
        total: Counter[str] = Counter()
        for counts in now.values():
            total.update(dict(counts))
        states.append((one.by, tuple(sorted(total.items())), one.failed))
    return states


def parted(good: Sequence[State], bad: Sequence[State]) -> set[str] | None:
    """The passes that follow the last state both runs had, on either side; None where they end in the same one. What a pass
    that failed left behind is no state.
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
    """The first pass after `at` that leaves another state than `at`'s."""
    then = at + 1
    while at >= 0 and then < len(run) and run[then][1] == run[at][1]:
        then += 1
    return run[then : then + 1]
