"""The changes of a case to try: known remedies of the failure class, its flags and
matrix, the compiler's own options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.classify.rules import RemedyCandidate
from triage.compilers.base import Constant, kernel_of
from triage.compilers.invocation import flag_name
from triage.compilers.parts import OptionCatalog, RemedyHints
from triage.execution.judge import rules_of
from triage.model.case import Case, Flag, Input, InputKind
from triage.model.outcome import Failure
from triage.model.revision import Toolchain
from triage.recipes.expectations import flag_applies
from triage.remedy.variants import changed_values


def is_for_tests(name: str) -> bool:
    """Return whether an option, by its name, is one for the compiler's own tests."""
    return "test" in name.split("-")


@dataclass(frozen=True, slots=True)
class CaseChange:
    """What is changed of a case at once."""

    flags: tuple[str, ...] = ()
    """Flags to pass instead of all others with their names."""
    dropped: tuple[str, ...] = ()
    """The names of the recipe's flags to drop, with their dashes."""
    options: Mapping[str, Constant] = field(default_factory=dict)
    """Options to launch the kernel with."""
    neighbour: Case | None = None
    """Another case of the recipe's matrix."""
    program: Path | None = None
    """A rewritten input."""
    rewrite: str = ""
    """The change of the program, as text."""
    caveat: str = ""
    """How the meaning of the rewritten program differs."""
    why: str = ""
    """The effect, if it is known."""
    limit: RemedyCandidate | None = None
    """How to narrow the value of the flag."""
    checks_less: bool = False
    """Whether a flag only disables a check."""
    recomputes: bool = False
    """Whether a flag changes the types of computations."""

    @property
    def input_change(self) -> str | None:
        """The change of the program or its launch, if there is one."""
        parts = [f"{name}={value}" for name, value in self.options.items()]
        return ", ".join([*parts, *([self.rewrite] if self.rewrite else [])]) or None

    @property
    def same_program(self) -> bool:
        """Whether the meaning of the program stays the same."""
        return self.neighbour is None and not self.caveat

    @property
    def for_tests(self) -> bool:
        """Whether a flag is meant for the compiler's own tests: it may vanish in any
        release.
        """
        return any(is_for_tests(flag_name(text)) for text in self.flags)

    @property
    def is_clean(self) -> bool:
        """Whether the program stays the same, with all checks, in its own types and
        with flags that are meant for users.
        """
        return (
            self.same_program
            and not self.checks_less
            and not self.recomputes
            and not self.for_tests
        )

    @property
    def text(self) -> str:
        """The change in readable form; it identifies the change."""
        return change_text(self.flags, self.dropped, self.input_change)

    def applied(self, case: Case) -> Case:
        """Return the changed case. It has another name, so that its results are not
        mistaken for the case's.
        """
        name = f"{case.name} (remedy)"
        case = self.neighbour or case
        if self.program:
            case = replace(case, input=Input(self.program, InputKind.MLIR))
        if self.options:
            kernel = kernel_of(case)
            if kernel:
                case = replace(
                    case,
                    spec=replace(kernel, options={**kernel.options, **self.options}),
                )
        gone = {flag_name(text) for text in (*self.flags, *self.dropped)}
        kept = [flag for flag in case.flags if flag_name(flag.text) not in gone]
        return replace(
            case, name=name, flags=(*kept, *map(Flag, self.flags)), expect=()
        )

    def with_value(self, value: int) -> CaseChange:
        """Return the change with another value of the flag to narrow."""
        assert self.limit is not None
        return replace(self, flags=(f"{self.limit.least}={value}",))


def change_text(
    flags: Sequence[str], dropped: Sequence[str], input_change: str | None
) -> str:
    """Return a change in readable form."""
    return " ".join(
        [
            *flags,
            *(f"without {name}" for name in dropped),
            *([input_change] if input_change else []),
        ]
    )


@dataclass(frozen=True, slots=True)
class Situation:
    """What candidates depend on."""

    case: Case
    failures: Sequence[Failure]
    toolchain: Toolchain
    hints: RemedyHints | None = None
    devices: frozenset[str] = frozenset()
    """The devices that the program refers to."""
    siblings: Sequence[Case] = ()
    """The cases of the same recipe."""
    rewritten: Mapping[str, CaseChange] = field(default_factory=dict)
    """Name of a rewrite -> the rewritten input."""
    good: Toolchain | None = None
    """A compiler that does not fail; options that it lacks are tried first."""

    def flags(self) -> tuple[str, ...]:
        """Return the recipe's own flags for this version."""
        return tuple(
            flag.text
            for flag in self.case.flags
            if flag_applies(flag, self.toolchain.version)
        )

    def accepts(self, name: str) -> bool:
        """Return whether the compiler knows an option and it fits the backend.

        The recipe's own rules are trusted for a compiler that lists no options.
        """
        known = self.toolchain.capabilities.flags
        trusted = not known and self.case.rules is not None
        foreign = self.hints is not None and self.hints.options.is_foreign(
            name, self.case.target.backend
        )
        return (name in known or trusted) and not foreign


def first_tier(situation: Situation) -> tuple[CaseChange, ...]:
    """Return the known remedies of the failures' classes, each own flag dropped, then
    the neighbours in the matrix.

    Flags that are meant for the compiler's own tests come last.
    """
    found: list[CaseChange] = []
    for failure in situation.failures:
        for candidate in candidates_of_class(situation.case, failure):
            found += _changes(candidate, situation, failure)
    own = dict.fromkeys(text.partition("=")[0] for text in situation.flags())
    found += [CaseChange(dropped=(name,)) for name in own if "target" not in name]
    for sibling in situation.siblings:
        differs = changed_values(situation.case, sibling)
        if len(differs) == 1:
            found.append(
                CaseChange(
                    neighbour=sibling, rewrite=f"{differs[0][0]}={differs[0][1]}"
                )
            )
    return _distinct(sorted(found, key=lambda change: change.for_tests))


def second_tier(situation: Situation) -> tuple[CaseChange, ...]:
    """Return the compiler's own options, those nearest to the failure first, with all
    values: defaults are unknown.
    """
    if situation.hints is None:
        return ()
    catalog = situation.hints.options
    known = situation.toolchain.capabilities.flags
    own = set(situation.flags())
    first = [
        _option(text, catalog) for text in catalog.first if flag_name(text) in known
    ]
    return _distinct(
        change
        for change in (*first, *_switches(situation, catalog))
        if not own & set(change.flags)
    )


def candidates_of_class(case: Case, failure: Failure) -> tuple[RemedyCandidate, ...]:
    """Return the candidates of the rule for a failure's class."""
    rule = rules_of(case).by_name.get(failure.failure_class)
    if rule:
        return rule.candidates_for(case.compiler)
    return ()


def _changes(
    candidate: RemedyCandidate, situation: Situation, failure: Failure
) -> Iterator[CaseChange]:
    why = candidate.why
    text = candidate.give
    if text and situation.accepts(flag_name(text)) and text not in situation.flags():
        yield CaseChange(
            (text,),
            why=why,
            checks_less=candidate.checks_less,
            recomputes=candidate.recomputes,
        )
    if candidate.drop and flag_name(candidate.drop) in map(
        flag_name, situation.flags()
    ):
        yield CaseChange(dropped=(candidate.drop,), why=why)
    if candidate.least and situation.accepts(flag_name(candidate.least)):
        yield CaseChange(
            (f"{candidate.least}={candidate.upto}",), why=why, limit=candidate
        )
    if candidate.declare and situation.hints:
        named = [
            device
            for device in (failure.details.get("device"),)
            if isinstance(device, str)
        ]
        options = situation.hints.declaring_options(
            situation.case, {*situation.devices, *named}
        )
        if options is not None:
            yield CaseChange(options, why=why)
    if candidate.option:
        kernel = kernel_of(situation.case)
        if kernel:
            other = [
                value
                for value in candidate.values
                if kernel.options.get(candidate.option) != value
            ]
            yield from (
                CaseChange(options={candidate.option: value}, why=why)
                for value in other
            )
    if candidate.rewrite and candidate.rewrite in situation.rewritten:
        yield replace(situation.rewritten[candidate.rewrite], why=why)


def _switches(situation: Situation, catalog: OptionCatalog) -> Iterator[CaseChange]:
    known = situation.toolchain.capabilities
    good = situation.good
    backend = situation.case.target.backend
    if good:
        new = known.flags - good.capabilities.flags
    else:
        new = frozenset()
    phase = situation.failures[0].phase or situation.case.phase or catalog.code_phase
    prefixes = catalog.prefixes(phase, backend)

    def rank(name: str) -> tuple[bool, bool, int, str]:
        nearest = next(
            index for index, prefix in enumerate(prefixes) if name.startswith(prefix)
        )
        return is_for_tests(name), name not in new, nearest, name

    eligible = [
        name
        for name in (*known.switches, *known.choices)
        if name.startswith(prefixes)
        and not catalog.is_foreign(name, backend)
        and not _contains(name, catalog.never)
    ]
    for name in sorted(eligible, key=rank):
        if good and name in new:
            why = f"an option that {good.revision.name} does not have"
        else:
            why = ""
        values = known.choices.get(name) or (
            ("true",) if _contains(name, catalog.only_true) else ("false", "true")
        )
        yield from (_option(f"--{name}={value}", catalog, why) for value in values)


def _option(text: str, catalog: OptionCatalog, why: str = "") -> CaseChange:
    recomputes = _contains(text, catalog.recomputes)
    return CaseChange(
        (text,),
        why=why or ("changes the types of computations" if recomputes else ""),
        recomputes=recomputes,
    )


def _contains(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _distinct(changes: Iterable[CaseChange]) -> tuple[CaseChange, ...]:
    found: dict[str, CaseChange] = {}
    for change in changes:
        found.setdefault(change.text, change)
    return tuple(found.values())
