"""Reports of `triage bisect`, over one repository or two, `triage suspects` and `triage
history`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from triage.bisect.result import (
    Answer,
    Bisection,
    BisectKind,
    LoggedProbe,
    RankedChange,
    RankedChanges,
    Suspect,
    Transition,
)
from triage.model.probe_result import ProbeResult
from triage.recipes.values import share_text
from triage.report.document import (
    Block,
    Details,
    Document,
    Fact,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Phrase,
    Span,
    Style,
    Table,
    styled,
)
from triage.report.elements import (
    cases_text,
    compare_url,
    compiler_title,
    failure_facts,
    failure_text,
    headline_text,
    names_text,
    outcome_spans,
    plural,
    revision_text,
    why_text,
)

if TYPE_CHECKING:  # they import numerics, which the reports do not need
    from triage.bisect.history import Histories, History
    from triage.bisect.two_repositories import TwoRepositories

_SUSPECTS_SHOWN = 3
_NAMES_SHOWN = 12
_CHANGES_SHOWN = 20


def bisect_document(result: Bisection, compiler: str | None) -> Document:
    """Show a bisect's answer with what it rests on. compiler: the family, for links to
    its commits.
    """
    style: Style = "warning" if result.status is Answer.INCONCLUSIVE else "strong"
    verdict = Span(verdict_text(result, compiler_title(compiler)), style)
    blocks: list[Block] = [
        Paragraph([Span(result.case, "strong"), ": ", verdict]),
        Facts(list(_facts(result, compiler))),
    ]
    if result.command:
        blocks.append(Paragraph(f"Run: {result.command}"))
    blocks += _log_details(result.log)
    return Document(f"Bisect of {result.case}", blocks)


def _log_details(log: Sequence[LoggedProbe]) -> list[Block]:
    """Return every probe in order."""
    if not log:
        return []
    rows = [
        (
            one.revision,
            one.verdict.value,
            one.failure or one.reason or "",
            "cached" if one.cached else f"{one.seconds:.1f} s",
        )
        for one in log
    ]
    columns = ("revision", "verdict", "failure", "time")
    return [Details(plural(len(log), "probe"), [Table(columns, rows)])]


def verdict_text(bisection: Bisection, title: str) -> str:
    """Return which revision brought the failure and which fixed it. title: the name of
    the compiler.
    """
    if bisection.status is Answer.INCONCLUSIVE:
        return "inconclusive"
    is_regression = bisection.kind is BisectKind.REGRESSION
    changed, fixed = bisection.changed, bisection.fixed
    if changed:
        verdict = _two_changes_text(bisection, changed)
    else:
        verb = "introduced" if is_regression else "fixed"
        verdict = f"{verb} by {_found_text(bisection, title)}"
    if fixed and is_regression:
        verdict += f"; fixed by {_found_text(fixed)}"
    return verdict


def _two_changes_text(bisection: Bisection, changed: Transition) -> str:
    """Return where the case broke or was fixed, and where this failure came or went."""
    change = _found_text(changed, full=False)
    this = headline_text(changed.failure, 70)
    if bisection.broke is None:
        return f"fails as today since {change} ({this}); it failed otherwise before"
    broke = _found_text(bisection.broke, full=False)
    if bisection.kind is BisectKind.FIX:
        return f"first passes with {broke}; this failure ({this}) went with {change}"
    other = headline_text(bisection.broke.failure, 70)
    since = "fails as today since"
    if bisection.fixed:
        since = "failed in its last form since"
    return f"broke with {broke} ({other}); {since} {change} ({this})"


def _found_text(
    found: Bisection | Transition, title: str = "", *, full: bool = True
) -> str:
    """Return the culprit or the suspects, or the range if there are too many to name.

    title: the name of the compiler; full: name also commit and date of a culprit.
    """
    names = [suspect.name for suspect in found.suspects]
    if found.status is Answer.CULPRIT:
        return f"{title} {revision_text(found.after) if full else names[0]}".lstrip()
    if len(names) == 1:
        return f"{title} {names[0]} (not confirmed)".lstrip()
    text = f"one of {plural(len(names), f'{title} revision'.lstrip())}"
    if len(names) <= _NAMES_SHOWN or not found.before or not found.after:
        return f"{text}: {', '.join(names)}"
    return f"{text} between {found.before.name} and {found.after.name}"


def _facts(bisection: Bisection, compiler: str | None) -> Iterator[Fact]:
    if bisection.reason:
        yield "why", bisection.reason
    yield from _changes(bisection)
    if bisection.before and bisection.after:
        url = compare_url(compiler, bisection.before, bisection.after)
        if url:
            yield "commits", Span(url, url=url)
    yield from failure_facts(bisection.failure)
    suspects = {one.name: one for one in bisection.suspects}
    if bisection.broke:
        suspects = {one.name: one for one in bisection.broke.suspects} | suspects
    commits = [one for one in suspects.values() if one.url or one.files]
    for suspect in commits[:_SUSPECTS_SHOWN]:
        yield "commit", _commit_text(suspect)
    if len(commits) > _SUSPECTS_SHOWN:
        more = f"and {len(commits) - _SUSPECTS_SHOWN} more, less likely ones"
        yield "", f"{more}; --format json lists them"
    for text, group in groupby(bisection.other_failures, key=why_text):
        names = [other.toolchain.name for other in group]
        verb = "has" if len(names) == 1 else "have"
        yield "another", f"{', '.join(names)} {verb} another failure: {text}"
    for reason, untestable in groupby(bisection.untestable, key=lambda one: one.reason):
        names = [one.toolchain.name for one in untestable]
        yield "untestable", f"{names_text(names, _NAMES_SHOWN)}: {reason}"
    yield "certainty", _certainty(bisection)


def _certainty(bisection: Bisection) -> str:
    certainty = certainty_text(bisection)
    probes, rounds = (
        plural(bisection.probes, "probe"),
        plural(bisection.rounds, "round"),
    )
    text = f"{certainty}; {probes} in {rounds}"
    if bisection.cached:
        text += f", {plural(bisection.cached, 'cache hit')}"
    return text


def certainty_text(bisection: Bisection) -> str:
    """Return whether the answer is confirmed; of two changes, which of them is."""
    broke, changed = bisection.broke, bisection.changed
    if broke and changed and broke.confirmed is not changed.confirmed:
        which = "of this failure" if changed.confirmed else "to or from passing"
        return f"only the change {which} is confirmed"
    return "confirmed by probing both again" if bisection.confirmed else "not confirmed"


def _changes(bisection: Bisection) -> Iterator[tuple[str, str]]:
    """Yield the revisions around each change."""
    broke, changed, fixed = bisection.broke, bisection.changed, bisection.fixed
    is_fix = bisection.kind is BisectKind.FIX
    if broke and changed and is_fix:
        yield "last bad", revision_text(changed.before)
        if changed.after != broke.after:
            yield "changed", revision_text(changed.after)
        failure = failure_text(broke.failure)
        yield "last other", f"{revision_text(broke.before)}: {failure}"
        yield "first good", revision_text(broke.after)
    elif changed:
        if broke:
            failure = failure_text(broke.failure)
            yield "last good", revision_text(broke.before)
            yield "broke", f"{revision_text(broke.after)}: {failure}"
        if broke is None or changed.before != broke.before:
            yield "last other", revision_text(changed.before)
        yield "changed", revision_text(changed.after)
    else:
        pair = bisection if bisection.before else broke
        if pair and pair.before and pair.after:
            yield "last bad" if is_fix else "last good", revision_text(pair.before)
            yield "first good" if is_fix else "first bad", revision_text(pair.after)
    if fixed and bisection.kind is BisectKind.REGRESSION:
        after = revision_text(fixed.after)
        yield "fixed", f"{fixed.before.name} fails, {after} compiles"


def _commit_text(suspect: Suspect) -> Inline:
    share = f"{share_text(suspect.probability, 0)} " if suspect.probability < 1 else ""
    name = Span(suspect.name, "strong")
    text: Phrase = [share, name, f" {suspect.subject}"]
    if suspect.reasons:
        text.append(f"\nsuspicious: {'; '.join(suspect.reasons)}")
    pin = suspect.pin_moved
    if pin:
        text.append(
            f"\nmoves {pin.path} from {pin.before} to {pin.after}; bisect between "
            "these two next"
        )
    if suspect.url:
        text += ["\n", Span(suspect.url, "dim", suspect.url)]
    return text


def two_repositories_document(
    result: TwoRepositories, compiler: str | None
) -> Document:
    """Show which of two repositories brought a change, and its bisect. compiler: the
    family.
    """
    if result.changed is None:
        return bisect_document(result.bisection, compiler)
    verdict = f"the {result.changed} changed it: its change alone is enough"
    family = compiler if result.changed == "compiler" else None
    bisection = bisect_document(result.bisection, family)
    blocks = [styled(verdict, "strong"), *bisection.blocks]
    return Document("Bisect of a compiler and a model", blocks)


def suspects_document(result: RankedChanges) -> Document:
    """Show changes ranked by how suspicious the failure makes them."""
    blocks: list[Block] = []
    if result.failure:
        blocks.append(styled(failure_text(result.failure, 400), "strong"))
    rows = [_suspect_row(change) for change in result.suspects]
    columns = ("", "commit", "date", "change")
    blocks.append(Table(columns, rows[:_CHANGES_SHOWN]))
    rest = rows[_CHANGES_SHOWN:]
    if rest:
        blocks.append(Details("The less suspicious changes", [Table(columns, rest)]))
    shown, total = len(rows) - len(rest), plural(len(rows), "change")
    text = f"{shown} of {total}, ranked by what they change; "
    if rest:
        text += "--verbose shows all; "
    blocks.append(Paragraph(f"{text}nothing was built"))
    return Document("Suspects", blocks)


def _suspect_row(change: RankedChange) -> list[Inline]:
    words: Phrase = [change.subject or ""]
    if change.reasons:
        words.append(Span(f"\n{'; '.join(change.reasons)}", "dim"))
    if change.with_commits:
        others = ", ".join(sha[:10] for sha in change.with_commits)
        words.append(Span(f"\nthe same change: {others}", "dim"))
    return [
        share_text(change.probability),
        Span(change.name, "strong", change.url),
        change.date or "",
        words,
    ]


def history_document(result: Histories) -> Document:
    """Show the states of each case, those of cases that have the same once, and how
    many compiles were needed.
    """
    blocks: list[Block] = []
    families: dict[str, list[History]] = {}
    for history in result.cases:
        families.setdefault(history.about.compiler, []).append(history)
    for compiler, family in families.items():
        alike: dict[str, list[History]] = {}
        for history in family:
            key = [(_releases(group), group[-1].state) for group in history.states]
            alike.setdefault(repr(key), []).append(history)
        for histories in sorted(alike.values(), key=lambda group: not group[0].changes):
            names = cases_text([history.case for history in histories])
            states = [
                (_releases(group), outcome_spans(group[-1], plain=True))
                for group in histories[0].states
            ]
            blocks += [Heading(names), Facts(states)]
        probes = sum(len(history.results) for history in family)
        pairs = plural(len(family) * len(family[0].places), "pair")
        compiles = plural(sum(history.compiles for history in family), "compile")
        what = f"case and {compiler_title(compiler)} release"
        cost = f"probed {probes} of {pairs} of {what} with {compiles}"
        blocks.append(styled(cost, "dim"))
    return Document("History", blocks)


def _releases(group: Sequence[ProbeResult]) -> str:
    first, last = group[0].toolchain.name, group[-1].toolchain.name
    return first if first == last else f"{first} .. {last}"
