"""List the changes of a case to try: known remedies of its failure, its flags, and the
compiler's own options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.classify.rules import RemedyCandidate
from triage.compilers.base import kernel_of
from triage.compilers.invocation import flag_name
from triage.compilers.parts import OptionCatalog, RemedyHints
from triage.execution.judge import rules_of
from triage.model.case import Case, Flag, Input, InputKind
from triage.model.outcome import Failure
from triage.model.revision import Toolchain
from triage.recipes.expectations import applied_flags
from triage.remedy.result import Change, Weakness


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """A change to try."""

    change: Change
    case: Case
    """The changed case. Its name differs, so that its results are not taken for the
    original's.
    """


@dataclass(frozen=True, slots=True)
class Situation:
    """The failing case, and all that decides which candidates there are for it."""

    case: Case
    failure: Failure
    toolchain: Toolchain
    hints: RemedyHints | None = None
    devices: frozenset[str] = frozenset()
    """The devices that the program refers to."""
    siblings: Sequence[Case] = ()
    """The cases of the same recipe."""
    static: tuple[Path, str] | None = None
    """The program with static shapes, and its sizes."""
    good: Toolchain | None = None
    """A compiler that does not fail; options that it lacks are tried first."""

    def rules(self) -> Sequence[RemedyCandidate]:
        """Return the candidates of the rule for the failure's class."""
        rule = rules_of(self.case).by_name.get(self.failure.failure_class)
        return rule.candidates_for(self.case.compiler) if rule else ()

    def flags(self) -> tuple[str, ...]:
        """Return the recipe's own flags for this version."""
        return tuple(applied_flags(self.case, self.toolchain.version))

    def accepts(self, name: str) -> bool:
        """Return whether the compiler knows an option that fits the backend. A compiler
        that lists no options accepts any.
        """
        flags = self.toolchain.capabilities.flags
        if flags and name not in flags:
            return False
        backend = self.case.target.backend
        return not (self.hints and self.hints.options.is_foreign(name, backend))

    def with_change(self, change: Change, other: Case | None = None) -> ChangedCase:
        """Return the candidate for a change of flags or, with `other`, of the input."""
        case = other or self.case
        replaced = {flag_name(text) for text in (*change.flags, *change.dropped_flags)}
        flags = [flag for flag in case.flags if flag_name(flag.text) not in replaced]
        name = f"{self.case.name} (remedy)"
        flags += map(Flag, change.flags)
        return ChangedCase(
            change, replace(case, name=name, flags=tuple(flags), expect=())
        )

    def with_flag(self, text: str, effect: str, weakness: Weakness) -> ChangedCase:
        if not weakness and "test" in flag_name(text).split("-"):
            weakness = Weakness.FOR_TESTS
        return self.with_change(Change(flags=(text,), effect=effect, weakness=weakness))


def known_remedies(situation: Situation) -> list[ChangedCase]:
    """List the candidates that are always tried: those of the failure's class, then
    each flag of the recipe left out, then the neighbours in the matrix.
    """
    candidates: list[ChangedCase] = []
    for rule in situation.rules():
        candidates += _changes_of_rule(rule, situation)
    names = dict.fromkeys(text.partition("=")[0] for text in situation.flags())
    for name in names:
        if "target" not in name:
            candidates.append(situation.with_change(Change(dropped_flags=(name,))))
    for sibling in situation.siblings:
        changed = set(sibling.matrix) - set(situation.case.matrix)
        if len(changed) == 1:
            text = "=".join(*changed)
            change = Change(input_change=text, weakness=Weakness.OTHER_PROGRAM)
            candidates.append(situation.with_change(change, sibling))
    return candidates


def own_options(situation: Situation) -> list[ChangedCase]:
    """List the compiler's own options, those nearest to the failure first. Each has all
    its values, because its default is not known.
    """
    if situation.hints is None:
        return []
    catalog = situation.hints.options
    flags = situation.toolchain.capabilities.flags
    texts = [text for text in catalog.first if flag_name(text) in flags]
    candidates = []
    for text in (*texts, *_switches(situation, catalog)):
        effect, weakness = "", Weakness.NONE
        if _contains(text, catalog.recomputes):
            effect = "changes the types of computations"
            weakness = Weakness.OTHER_TYPES
        if text not in situation.flags():
            candidates.append(situation.with_flag(text, effect, weakness))
    return candidates


def _changes_of_rule(
    rule: RemedyCandidate, situation: Situation
) -> Iterator[ChangedCase]:
    """Yield the changes that a rule's candidate stands for, if they fit the case."""
    case, effect = situation.case, rule.why
    if rule.give and situation.accepts(flag_name(rule.give)):
        weakness = Weakness.NONE
        if rule.recomputes:
            weakness = Weakness.OTHER_TYPES
        if rule.checks_less:
            weakness = Weakness.CHECKS_LESS
        for flag in [f"{rule.give}={value}" for value in rule.values] or [rule.give]:
            if flag not in situation.flags():
                yield situation.with_flag(flag, effect, weakness)
    if rule.declare and situation.hints:
        named = situation.failure.details.get("device")
        devices = situation.devices | ({named} if isinstance(named, str) else set())
        options = situation.hints.declaring_options(case, devices)
        if options is not None:
            yield situation.with_change(Change(flags=options, effect=effect))
    kernel = kernel_of(case)
    if rule.option and kernel:
        for value in rule.values:
            if kernel.options.get(rule.option) != value:
                spec = replace(kernel, options={**kernel.options, rule.option: value})
                change = Change(input_change=f"{rule.option}={value}", effect=effect)
                yield situation.with_change(change, replace(case, spec=spec))
    if rule.rewrite and situation.static:
        program, sizes = situation.static
        weakness, path = Weakness.OTHER_PROGRAM, str(program)
        change = Change(
            input_change=sizes, input=path, effect=effect, weakness=weakness
        )
        rewritten = replace(case, input=Input(program, InputKind.MLIR))
        yield situation.with_change(change, rewritten)


def _switches(situation: Situation, catalog: OptionCatalog) -> Iterator[str]:
    """Yield the compiler's options for the failing phase: those that the good compiler
    lacks come first, then those nearest to the phase.
    """
    capabilities = situation.toolchain.capabilities
    backend = situation.case.target.backend
    old = situation.good.capabilities.flags if situation.good else capabilities.flags
    phase = situation.failure.phase or situation.case.phase or catalog.code_phase
    prefixes = catalog.prefixes(phase, backend)

    def rank(name: str) -> tuple[bool, int, str]:
        fits = [name.startswith(prefix) for prefix in prefixes]
        return name in old, fits.index(True), name

    eligible = [
        name
        for name in (*capabilities.switches, *capabilities.choices)
        if name.startswith(prefixes)
        and not catalog.is_foreign(name, backend)
        and not _contains(name, catalog.never)
    ]
    for name in sorted(eligible, key=rank):
        values = capabilities.choices.get(name) or ("false", "true")
        if name in capabilities.switches and _contains(name, catalog.only_true):
            values = ("true",)
        yield from (f"--{name}={value}" for value in values)


def _contains(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)
