"""List the changes of a case to try: known remedies of its failure, its flags and its
matrix, and the compiler's own options.
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
from triage.recipes.expectations import applied_flags
from triage.remedy.variants import changed_values


def is_for_tests(name: str) -> bool:
    """Return whether an option's name says that it is for the compiler's own tests."""
    return "test" in name.split("-")


@dataclass(frozen=True, slots=True)
class CaseChange:
    """One candidate for a remedy: all that it changes in a case."""

    flags: tuple[str, ...] = ()
    """Flags to pass. They replace the case's flags with the same names."""
    dropped: tuple[str, ...] = ()
    """The names of the recipe's flags to drop, with their dashes."""
    options: Mapping[str, Constant] = field(default_factory=dict)
    """Options to launch the kernel with."""
    neighbour: Case | None = None
    """Another case of the recipe's matrix."""
    program: Path | None = None
    """A rewritten input."""
    rewrite: str = ""
    """A text that describes how the program is changed."""
    caveat: str = ""
    """A sentence about how the meaning of the program changes, if it does."""
    why: str = ""
    """The effect, if it is known."""
    limit: RemedyCandidate | None = None
    """The rule with all values of the flag, to search for the smallest."""
    checks_less: bool = False
    """Whether a flag only disables a check."""
    recomputes: bool = False
    """Whether a flag changes the types of computations."""

    @property
    def input_change(self) -> str | None:
        """The change of the program or its launch, if there is one."""
        parts = [f"{name}={value}" for name, value in self.options.items()]
        if self.rewrite:
            parts.append(self.rewrite)
        return ", ".join(parts) or None

    @property
    def same_program(self) -> bool:
        """Whether the meaning of the program stays the same."""
        return self.neighbour is None and not self.caveat

    @property
    def for_tests(self) -> bool:
        """Whether a flag is meant for the compiler's own tests. Any release may lack
        it.
        """
        return any(is_for_tests(flag_name(text)) for text in self.flags)

    @property
    def is_clean(self) -> bool:
        """Whether the change keeps the meaning, the types and all checks of the
        program, and uses only flags that are meant for users.
        """
        return (
            self.same_program
            and not self.checks_less
            and not self.recomputes
            and not self.for_tests
        )

    @property
    def text(self) -> str:
        """The change in readable form. Equal changes have equal texts."""
        return change_text(self.flags, self.dropped, self.input_change)

    def applied(self, case: Case) -> Case:
        """Return the changed case. Its name differs, so that its results are not taken
        for the case's.
        """
        name = f"{case.name} (remedy)"
        case = self.neighbour or case
        if self.program:
            case = replace(case, input=Input(self.program, InputKind.MLIR))
        kernel = kernel_of(case)
        if self.options and kernel:
            options = {**kernel.options, **self.options}
            case = replace(case, spec=replace(kernel, options=options))
        replaced = {flag_name(text) for text in (*self.flags, *self.dropped)}
        kept = [flag for flag in case.flags if flag_name(flag.text) not in replaced]
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
    parts = [*flags, *(f"without {name}" for name in dropped)]
    if input_change:
        parts.append(input_change)
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Situation:
    """The failing case, and all that decides which candidates there are for it."""

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
        return tuple(applied_flags(self.case, self.toolchain.version))

    def accepts(self, name: str) -> bool:
        """Return whether the compiler knows an option that fits the backend. A compiler
        that lists no options accepts those of the recipe's own rules.
        """
        known = self.toolchain.capabilities.flags
        has_own_rules = self.case.rules is not None
        if name not in known and (known or not has_own_rules):
            return False
        backend = self.case.target.backend
        return not (self.hints and self.hints.options.is_foreign(name, backend))


def first_tier(situation: Situation) -> tuple[CaseChange, ...]:
    """Return the candidates that are always tried: those of the failures' classes, then
    each flag of the recipe left out, then the neighbours in the matrix.

    Flags that are meant for the compiler's own tests come last.
    """
    found: list[CaseChange] = []
    for failure in situation.failures:
        for candidate in candidates_of_class(situation.case, failure):
            found += _changes(candidate, situation, failure)
    own = dict.fromkeys(text.partition("=")[0] for text in situation.flags())
    found += [CaseChange(dropped=(name,)) for name in own if "target" not in name]
    for sibling in situation.siblings:
        changed = changed_values(situation.case, sibling)
        if len(changed) == 1:
            key, value = changed[0]
            found.append(CaseChange(neighbour=sibling, rewrite=f"{key}={value}"))
    return _each_once(sorted(found, key=lambda change: change.for_tests))


def second_tier(situation: Situation) -> tuple[CaseChange, ...]:
    """Return the compiler's own options, those nearest to the failure first. Each has
    all its values, because its default is not known.
    """
    if situation.hints is None:
        return ()
    catalog = situation.hints.options
    known = situation.toolchain.capabilities.flags
    own = set(situation.flags())
    first = [
        _option(text, catalog) for text in catalog.first if flag_name(text) in known
    ]
    changes = (*first, *_switches(situation, catalog))
    return _each_once(change for change in changes if own.isdisjoint(change.flags))


def candidates_of_class(case: Case, failure: Failure) -> tuple[RemedyCandidate, ...]:
    """Return the candidates of the rule for a failure's class."""
    rule = rules_of(case).by_name.get(failure.failure_class)
    return rule.candidates_for(case.compiler) if rule else ()


def _changes(
    candidate: RemedyCandidate, situation: Situation, failure: Failure
) -> Iterator[CaseChange]:
    """Yield the changes that a rule's candidate stands for, if they fit the case."""
    why = candidate.why
    own_flags = situation.flags()
    given = candidate.give
    if given and situation.accepts(flag_name(given)) and given not in own_flags:
        yield CaseChange(
            (given,),
            why=why,
            checks_less=candidate.checks_less,
            recomputes=candidate.recomputes,
        )
    dropped = candidate.drop
    if dropped and flag_name(dropped) in map(flag_name, own_flags):
        yield CaseChange(dropped=(dropped,), why=why)
    if candidate.least and situation.accepts(flag_name(candidate.least)):
        largest = f"{candidate.least}={candidate.upto}"
        yield CaseChange((largest,), why=why, limit=candidate)
    if candidate.declare and situation.hints:
        devices = set(situation.devices)
        named = failure.details.get("device")
        if isinstance(named, str):
            devices.add(named)
        options = situation.hints.declaring_options(situation.case, devices)
        if options is not None:
            yield CaseChange(options, why=why)
    kernel = kernel_of(situation.case)
    if candidate.option and kernel:
        for value in candidate.values:
            if kernel.options.get(candidate.option) != value:
                yield CaseChange(options={candidate.option: value}, why=why)
    if candidate.rewrite and candidate.rewrite in situation.rewritten:
        yield replace(situation.rewritten[candidate.rewrite], why=why)


def _switches(situation: Situation, catalog: OptionCatalog) -> Iterator[CaseChange]:
    """Yield the compiler's options for the failing phase: those that the good compiler
    lacks come first, then those nearest to the phase.
    """
    known = situation.toolchain.capabilities
    good = situation.good
    backend = situation.case.target.backend
    new = known.flags - good.capabilities.flags if good else frozenset()
    phase = situation.failures[0].phase or situation.case.phase or catalog.code_phase
    prefixes = catalog.prefixes(phase, backend)

    def rank(name: str) -> tuple[bool, bool, int, str]:
        fits = [name.startswith(prefix) for prefix in prefixes]
        return is_for_tests(name), name not in new, fits.index(True), name

    eligible = [
        name
        for name in (*known.switches, *known.choices)
        if name.startswith(prefixes)
        and not catalog.is_foreign(name, backend)
        and not _contains(name, catalog.never)
    ]
    for name in sorted(eligible, key=rank):
        why = ""
        if good and name in new:
            why = f"an option that {good.revision.name} does not have"
        values = known.choices.get(name) or ("false", "true")
        if name not in known.choices and _contains(name, catalog.only_true):
            values = ("true",)
        for value in values:
            yield _option(f"--{name}={value}", catalog, why)


def _option(text: str, catalog: OptionCatalog, why: str = "") -> CaseChange:
    recomputes = _contains(text, catalog.recomputes)
    if recomputes and not why:
        why = "changes the types of computations"
    return CaseChange((text,), why=why, recomputes=recomputes)


def _contains(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _each_once(changes: Iterable[CaseChange]) -> tuple[CaseChange, ...]:
    found: dict[str, CaseChange] = {}
    for change in changes:
        found.setdefault(change.text, change)
    return tuple(found.values())
