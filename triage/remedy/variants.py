"""Compare variants of a case, to find the values that a failure depends on: the cases
of the recipe's matrix, or the case with other values of its keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from math import prod
from typing import Any

from triage.compilers.base import kernel_of, read_constant
from triage.execution.engine import Prober
from triage.execution.judge import result_of
from triage.execution.match import Match, any_failure, same_class
from triage.execution.metric import Metric
from triage.execution.task import ProbeJob
from triage.model.case import Case, Target
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, Probe
from triage.model.probe_result import ProbeResult
from triage.recipes.values import yaml_text
from triage.toolchains.registry import ToolchainRef

MAX_CASES = 64
"""Of a matrix with more cases, only those that differ in one key are compared."""

Values = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Variant(ProbeResult):
    """The result of one variant."""

    values: Values
    same_failure: bool
    """Whether it fails with the failure that is compared."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The results of all variants, and what the failure depends on."""

    depends_on: tuple[str, ...]
    """The keys that decide whether a variant fails."""
    keys: tuple[str, ...]
    """All keys that vary."""
    sentence: str
    failure: Failure | None
    results: tuple[Variant, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The metrics that differ between variants, without those that depend on the
        machine.
        """
        seen: dict[str, set[float]] = {}
        for one in self.results:
            for name, value in one.metrics.items():
                if Metric(name).exact:
                    seen.setdefault(name, set()).add(value)
        return tuple(sorted(name for name, values in seen.items() if len(values) > 1))


def changed_values(case: Case, other: Case) -> tuple[tuple[str, str], ...]:
    """Return the keys in which two cases differ, with the values of `other`."""
    own = dict(case.matrix)
    return tuple((key, value) for key, value in other.matrix if own.get(key) != value)


def neighbourhood(case: Case, siblings: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases of the recipe to compare: all, or if there are too many, those
    that differ from the case in one key.
    """
    if len(siblings) <= MAX_CASES:
        return tuple(siblings)
    return tuple(
        sibling for sibling in siblings if len(changed_values(case, sibling)) <= 1
    )


def varied(case: Case, axes: Mapping[str, Sequence[str]]) -> tuple[Case, ...]:
    """Return the case with every combination of the values of `axes`. The case's own
    value of a key is the first.

    A key is `args.NAME` of the generator, `target.backend`, `.chip` or `.devices`, and
    for a kernel `options.NAME` or `constexprs.NAME`. The part before the dot may be
    omitted if the name is unique.

    Raises:
        BadInput: A key is unknown or ambiguous, or there are more than `MAX_CASES`
            combinations.
    """
    own = _own_values(case)
    full_keys = {key: _full_key(case, key, own) for key in axes}
    choices = {
        key: _choices(full_keys[key], own[full_keys[key]], texts)
        for key, texts in axes.items()
    }
    count = prod(map(len, choices.values()))
    if count > MAX_CASES:
        raise BadInput(
            f"{count} combinations exceed the limit of {MAX_CASES}; vary fewer values"
        )
    cases = []
    for combination in product(*choices.values()):
        chosen = dict(zip(axes, combination, strict=True))
        values = dict(own)
        for key, text in chosen.items():
            values[full_keys[key]] = choices[key][text]
        cases.append(_with_values(case, values, chosen))
    return tuple(cases)


def _with_values(case: Case, values: Mapping[str, Any], chosen: Values) -> Case:
    """Return the case with other values, see `_own_values`. The chosen ones are part of
    its name.
    """
    sections: dict[str, dict[str, Any]] = {
        "args": {},
        "target": {},
        "options": {},
        "constexprs": {},
    }
    for full_key, value in values.items():
        section, _, name = full_key.partition(".")
        sections[section][name] = value
    matrix = {**dict(case.matrix), **chosen}
    label = ",".join(f"{key}={value}" for key, value in matrix.items())
    spec, kernel = case.spec, kernel_of(case)
    if kernel:
        options, constexprs = sections["options"], sections["constexprs"]
        spec = replace(kernel, options=options, constexprs=constexprs)
    return replace(
        case,
        name=f"{case.recipe}[{label}]",
        matrix=tuple(matrix.items()),
        input=replace(case.input, args=tuple(sections["args"].items())),
        target=Target(**sections["target"]),
        spec=spec,
    )


def _own_values(case: Case) -> dict[str, Any]:
    """Return all values of a case that can be varied, by `SECTION.NAME`."""
    own: dict[str, Any] = {f"args.{name}": value for name, value in case.input.args}
    for name in ("backend", "chip", "devices"):
        own[f"target.{name}"] = getattr(case.target, name)
    kernel = kernel_of(case)
    for section in ("options", "constexprs") if kernel else ():
        for name, value in getattr(kernel, section).items():
            own[f"{section}.{name}"] = value
    return own


def _full_key(case: Case, key: str, known: Collection[str]) -> str:
    """Return the `SECTION.NAME` of a key whose section may be omitted."""
    matching = [full for full in known if key in (full, full.partition(".")[2])]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise BadInput(
            f"{key!r} is ambiguous in {case.name}: write {' or '.join(matching)}"
        )
    raise BadInput(
        f"{case.name} has no key {key!r} to vary; it has: {', '.join(known)}"
    )


def _choices(full_key: str, own: Any, texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of a key by their texts, first the case's own."""
    values: dict[str, Any] = {}
    if own is not None or not full_key.startswith("target."):
        values[yaml_text(own).strip('"')] = own
    for text in texts:
        value = _value(full_key, text)
        if not any(
            value == other and type(value) is type(other) for other in values.values()
        ):
            values[text] = value
    return values


def _value(full_key: str, text: str) -> Any:
    """Return the value that a text stands for. Values of kernels may be numbers."""
    if full_key == "target.devices":
        if not text.isdecimal() or int(text) < 1:
            raise BadInput(f"devices={text}: the number of devices must be at least 1")
        return int(text)
    if full_key.startswith(("args.", "target.")):
        return text
    try:
        return read_constant(text)
    except ValueError as error:
        raise BadInput(f"--vary {full_key}={text}: {error}") from error


def compare_variants(
    prober: Prober, cases: Sequence[Case], ref: ToolchainRef, about: Case | None = None
) -> Variants:
    """Find the keys that the failure of the case `about` depends on. Without it, this
    is the failure of the first case that fails. Failures are compared by class.
    """
    order = {case.name: index for index, case in enumerate(cases)}
    unordered = prober.probe_all([ProbeJob(case, ref) for case in cases], "variants")
    probes = sorted(unordered, key=lambda probe: order[probe.case.name])
    failure = None
    for probe in probes:
        is_candidate = about is None or probe.case.name == about.name
        if is_candidate and isinstance(probe.outcome, Failed):
            failure = probe.outcome.failure
            break
    match = same_class(failure) if failure else any_failure
    results = tuple(_variant(probe, match) for probe in probes)
    keys = tuple(dict.fromkeys(key for case in cases for key, _ in case.matrix))
    if failure is None:
        sentence = f"{about.name} does not fail." if about else "No case fails."
        return Variants((), keys, sentence, failure, results)
    deciding, sentence = depends_on(results)
    return Variants(deciding, keys, sentence, failure, results)


def _variant(probe: Probe, match: Match) -> Variant:
    """Return the result of a variant. `match` decides whether its failure is the one
    that is compared.
    """
    outcome, is_same = probe.outcome, False
    if isinstance(outcome, Failed):
        is_same = any(map(match, (outcome.failure, *outcome.others)))
    values = dict(probe.case.matrix)
    return Variant(**vars(result_of(probe)), values=values, same_failure=is_same)


def _dependence(deciding: Mapping[str, Sequence[str]], rest: Sequence[str]) -> str:
    """Say for which values of the deciding keys a case fails. The keys of `rest` do not
    matter.
    """
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
    """Find the smallest set of keys whose values separate the variants with the failure
    from the others. Untestable variants are ignored.

    Returns:
        These keys, or all keys that vary if no set separates the variants; and a
            sentence.
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
        """Return whether each variant with bad values of these keys fails."""
        return all(
            one.same_failure
            for one in testable
            if all(one.values[key] in bad[key] for key in chosen)
        )

    sizes = range(len(keys) + 1)
    subsets = chain.from_iterable(combinations(keys, size) for size in sizes)
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
