"""Compare a case with variants: neighbours in the recipe's matrix, and new values of
keys that no recipe varies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import Any

from triage.compilers.base import kernel_of
from triage.execution.engine import Prober
from triage.execution.judge import result_of
from triage.execution.match import Match, any_failure, same_class
from triage.execution.metric import Metric
from triage.execution.task import ProbeJob
from triage.model.case import Case, Target
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, Probe
from triage.model.probe_result import ProbeResult
from triage.toolchains.registry import ToolchainRef

MAX_CASES = 64
"""Cases in one grid; of a larger matrix only the direct neighbours are compared."""

Values = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Variant(ProbeResult):
    """The result of one variant."""

    values: Values
    same_failure: bool
    """It fails in the way that is compared."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The compared variants of a failure."""

    depends_on: tuple[str, ...]
    """The keys that decide whether a variant fails."""
    keys: tuple[str, ...]
    """All keys that vary."""
    sentence: str
    failure: Failure | None
    results: tuple[Variant, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The metrics that differ between variants that compile, apart from those that
        the machine decides.
        """
        seen: dict[str, set[float]] = {}
        for one in self.results:
            for name, value in one.metrics.items():
                if Metric(name).exact:
                    seen.setdefault(name, set()).add(value)
        return tuple(sorted(name for name, values in seen.items() if len(values) > 1))


def changed_values(case: Case, other: Case) -> tuple[tuple[str, str], ...]:
    """Return the keys in which two cases of a recipe differ, with the other's
    values.
    """
    own = dict(case.matrix)
    return tuple((key, value) for key, value in other.matrix if own.get(key) != value)


def neighbourhood(case: Case, siblings: Sequence[Case]) -> tuple[Case, ...]:
    """Return the recipe's cases to compare: all, or those that differ in one key if
    there are too many.
    """
    if len(siblings) <= MAX_CASES:
        return tuple(siblings)
    return tuple(
        sibling for sibling in siblings if len(changed_values(case, sibling)) <= 1
    )


def varied(case: Case, axes: Mapping[str, Sequence[str]]) -> tuple[Case, ...]:
    """Return the case with every combination of values, its own values first.

    A key is `args.NAME` of the generator, `target.backend`, `.chip` or `.devices`, and
    for a kernel `options.NAME` or `constexprs.NAME`. The part before the dot may be
    omitted if the name is unique.

    Raises:
        BadInput: A key is unknown or ambiguous, or there are more than `MAX_CASES`
            combinations.
    """
    kernel, own = kernel_of(case), _own_values(case)
    places = {key: _place(case, key, own) for key in axes}
    values = [
        [*([] if own[places[key]] is None else [str(own[places[key]])]), *texts]
        for key, texts in axes.items()
    ]
    different = [dict.fromkeys(texts) for texts in values]
    count = prod(map(len, different))
    if count > MAX_CASES:
        raise BadInput(
            f"{count} combinations exceed the limit of {MAX_CASES}; vary fewer values"
        )
    choices = [dict(zip(axes, chosen, strict=True)) for chosen in product(*different)]
    cases = []
    for choice in choices:
        new: dict[str, dict[str, Any]] = {
            "args": {},
            "target": {},
            "options": {},
            "constexprs": {},
        }
        for place, value in (
            own
            | {places[key]: _value(places[key], text) for key, text in choice.items()}
        ).items():
            section, _, name = place.partition(".")
            new[section][name] = value
        matrix = {**dict(case.matrix), **choice}
        label = ",".join(f"{key}={value}" for key, value in matrix.items())
        variant = replace(
            case,
            name=f"{case.recipe}[{label}]",
            matrix=tuple(matrix.items()),
            input=replace(case.input, args=tuple(new["args"].items())),
            target=Target(**new["target"]),
            spec=replace(kernel, options=new["options"], constexprs=new["constexprs"])
            if kernel
            else case.spec,
        )
        cases.append(variant)
    return tuple(cases)


def _own_values(case: Case) -> dict[str, Any]:
    """Return what of a case can be varied, by section and name."""
    own: dict[str, Any] = {f"args.{name}": value for name, value in case.input.args}
    for name in ("backend", "chip", "devices"):
        own[f"target.{name}"] = getattr(case.target, name)
    kernel = kernel_of(case)
    for section in ("options", "constexprs") if kernel else ():
        for name, value in getattr(kernel, section).items():
            own[f"{section}.{name}"] = value
    return own


def _place(case: Case, key: str, known: Collection[str]) -> str:
    matching = [place for place in known if key in (place, place.partition(".")[2])]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise BadInput(
            f"{key!r} is ambiguous in {case.name}: write {' or '.join(matching)}"
        )
    raise BadInput(
        f"{case.name} has no key {key!r} to vary; it has: {', '.join(known)}"
    )


def _value(place: str, text: str) -> Any:
    if place.startswith(("args.", "target.")) and place != "target.devices":
        return text
    value = {"true": True, "false": False}.get(
        text, int(text) if text.lstrip("-").isdecimal() else text
    )
    if place == "target.devices" and (type(value) is not int or value < 1):
        raise BadInput(f"devices={text}: the number of devices must be at least 1")
    return value


def compare_variants(
    prober: Prober, cases: Sequence[Case], ref: ToolchainRef, about: Case | None = None
) -> Variants:
    """Find what the failure of `about`, or of the first failing case, depends on.
    Failures are compared by class.
    """
    order = {case.name: index for index, case in enumerate(cases)}
    unordered = prober.probe_all([ProbeJob(case, ref) for case in cases], "variants")
    probes = sorted(unordered, key=lambda probe: order[probe.case.name])
    candidates = [
        probe for probe in probes if about is None or probe.case.name == about.name
    ]
    failure = next(
        (
            probe.outcome.failure
            for probe in candidates
            if isinstance(probe.outcome, Failed)
        ),
        None,
    )
    results = tuple(
        _variant(probe, same_class(failure) if failure else any_failure)
        for probe in probes
    )
    deciding, sentence = depends_on(results)
    keys = tuple(dict.fromkeys(key for case in cases for key, _ in case.matrix))
    if failure is None:
        deciding = ()
        sentence = (
            f"{about.name if about else 'No case'} "
            f"{'does not fail' if about else 'fails'}."
        )
    return Variants(deciding, keys, sentence, failure, results)


def _variant(probe: Probe, match: Match) -> Variant:
    outcome, is_same = probe.outcome, False
    if isinstance(outcome, Failed):
        is_same = any(map(match, (outcome.failure, *outcome.others)))
    values = dict(probe.case.matrix)
    return Variant(**vars(result_of(probe)), values=values, same_failure=is_same)


def _dependence(deciding: Mapping[str, Sequence[str]], rest: Sequence[str]) -> str:
    """Say for which values a case fails. rest: the keys that do not matter."""
    others = " and ".join(filter(None, (", ".join(rest[:-1]), *rest[-1:])))
    if deciding:
        values = (f"{key}={' or '.join(texts)}" for key, texts in deciding.items())
        text = f"It fails exactly for {' and '.join(values)}"
        if rest:
            text += f"; {others} {'does' if len(rest) == 1 else 'do'} not matter"
        return text
    if rest:
        return f"It fails for all values ({others})"
    return "It fails for all values"


def depends_on(variants: Sequence[Variant]) -> tuple[tuple[str, ...], str]:
    """Find the smallest set of keys whose values separate variants with the failure
    from the others; untestable ones are ignored.

    Returns:
        The deciding keys, and a sentence that is exact for these variants.
    """
    testable = [one for one in variants if not one.untestable]
    failing = [one.values for one in testable if one.same_failure]
    if not failing:
        return (), "No case has this failure."
    known = dict.fromkeys(key for one in testable for key in one.values)
    keys = tuple(
        key for key in known if len({one.values.get(key) for one in testable}) > 1
    )
    bad = {key: list(dict.fromkeys(values[key] for values in failing)) for key in keys}

    def separate(chosen: Sequence[str]) -> bool:
        return all(
            one.same_failure
            for one in testable
            if all(one.values[key] in bad[key] for key in chosen)
        )

    subsets = (
        chosen for size in range(len(keys) + 1) for chosen in combinations(keys, size)
    )
    deciding = next(filter(separate, subsets), None)
    if deciding is None:
        text = (
            f"It fails in {len(failing)} of {len(testable)} cases, which no single "
            "combination of values describes"
        )
    else:
        rest = [key for key in keys if key not in deciding]
        text = _dependence({key: bad[key] for key in deciding}, rest)
    counts = {
        "fail in another way": sum(
            one.failed and not one.same_failure for one in variants
        ),
        "cannot be tested": sum(one.untestable for one in variants),
    }
    notes = " and ".join(
        f"{count} of {len(variants)} {label}"
        for label, count in counts.items()
        if count
    )
    return (
        keys if deciding is None else deciding,
        f"{text}. {notes}." if notes else f"{text}.",
    )
