"""Reports of `triage bisect`, over one repository or two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from triage.bisect.result import Answer, Bisection, BisectKind, Combination, ReleaseBranch, Suspect, Transition
from triage.git_history.branches import MatchedBy, origin_text
from triage.report.document import Block, Bullets, Document, Facts, Inline, Paragraph, Span
from triage.report.elements import failure_text, headline_text, numbers_text, plural, revision_text

if TYPE_CHECKING:  # it imports numerics, which the reports do not need
    from triage.bisect.two_repositories import TwoRepositories

_UNTESTABLE_SHOWN = 8
_SUSPECTS_SHOWN = 10
_NAMES_SHOWN = 12


def bisect_document(result: Bisection) -> Document:
    """Show a bisect's answer with what it rests on."""
    verdict = Span(_verdict(result), "warning" if result.status is Answer.INCONCLUSIVE else "strong")
    blocks: list[Block] = [Paragraph([Span(result.case, "strong"), ": ", verdict]), Facts(list(_facts(result)))]
    blocks += [Paragraph(step) for step in _next_steps(result)]
    return Document(f"Bisect of {result.case}", blocks)


def branch_facts(branches: Iterable[ReleaseBranch]) -> list[tuple[str, str]]:
    """Return the branches of releases, each with its commits and what they are cherry-picks of."""
    facts = []
    for branch in branches:
        picks = sum(own.matched_by is not None for own in branch.commits)
        lines = [
            f"{branch.name} left the main line at {branch.start.name} ({branch.start.date}): "
            f"{plural(len(branch.commits), 'commit')} of its own, {plural(picks, 'cherry-pick')}"
        ]
        for own in branch.commits[:_NAMES_SHOWN]:
            way = MatchedBy[own.matched_by.upper()] if own.matched_by else None
            lines.append(f"{own.name} {own.subject}: {origin_text([one.name for one in own.picked_from], way)}")
        if (hidden := len(branch.commits) - _NAMES_SHOWN) > 0:
            lines.append(f"and {hidden} more")
        facts.append(("branch", "\n".join(lines)))
    return facts


def _verdict(bisection: Bisection) -> str:
    verb = "introduced by" if bisection.kind is BisectKind.REGRESSION else "fixed by"
    if bisection.status is Answer.INCONCLUSIVE:
        return "inconclusive"
    if bisection.undone:
        verb = f"the new revision lacks the {bisection.kind}:"
    broke, changed, fixed = bisection.broke, bisection.changed, bisection.fixed
    if broke and changed and not bisection.undone:
        since = "failed in its last form since" if fixed else "fails as today since"
        verdict = f"{_came('broke with', broke)}; {_came(since, changed)}"
    elif bisection.status is Answer.CULPRIT:
        verdict = f"{verb} {revision_text(bisection.after)}"
    else:
        verdict = f"{verb} {_one_of(bisection.suspects)}"
    if fixed and bisection.kind is BisectKind.REGRESSION:
        verdict += f"; fixed by {_shown(fixed)}"
    return verdict


def _came(verb: str, step: Transition) -> str:
    return f"{verb} {_shown(step, full=False)} ({headline_text(step.failure, 70)})"


def _shown(step: Transition, *, full: bool = True) -> str:
    if step.answer is Answer.CULPRIT:
        return revision_text(step.after) if full else step.after.name
    return _one_of(step.suspects)


def _one_of(suspects: Sequence[Suspect]) -> str:
    if len(suspects) == 1:
        return f"{suspects[0].name} (not confirmed)"
    listed = ", ".join(suspect.name for suspect in suspects[:_NAMES_SHOWN])
    more = f" and {len(suspects) - _NAMES_SHOWN} more" if len(suspects) > _NAMES_SHOWN else ""
    return f"one of {plural(len(suspects), 'revision')}: {listed}{more}"


def _facts(bisection: Bisection) -> Iterable[tuple[str, Inline]]:
    if bisection.reason:
        yield "why", bisection.reason
    yield from _ends(bisection)
    if bisection.failure:
        yield "failure", failure_text(bisection.failure, 400)
        if numbers := numbers_text(bisection.failure):
            yield "numbers", numbers
        yield "signature", bisection.failure.signature
    for suspect in bisection.suspects[:_SUSPECTS_SHOWN]:
        if suspect.url or suspect.files:
            yield "commit", _commit_text(suspect)
    yield from branch_facts(bisection.branches)
    if bisection.evidence:
        yield "evidence", bisection.evidence
    for text, group in groupby(bisection.other_failures, key=lambda other: failure_text(other.failure)):
        names = [other.revision.name for other in group]
        yield "another", f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} another failure: {text}"
    for number, untestable in enumerate(bisection.untestable[:_UNTESTABLE_SHOWN]):
        yield "untestable" if number == 0 else "", f"{untestable.revision.name}: {untestable.reason}"
    if (hidden := len(bisection.untestable) - _UNTESTABLE_SHOWN) > 0:
        yield "", f"and {hidden} more"
    confirmation = "confirmed by probing both again" if bisection.confirmed else "not confirmed"
    effort = f"{plural(bisection.probes, 'probe')} in {plural(bisection.rounds, 'round')}"
    cached = f", {plural(bisection.cached, 'cache hit')}" if bisection.cached else ""
    yield "certainty", f"{confirmation}; {effort}{cached}"
    if bisection.obtained:
        counts = ", ".join(f"{count} from {source}" for source, count in sorted(bisection.obtained.items()))
        took = f"{bisection.seconds / 60:.0f} min" if bisection.seconds >= 100 else f"{bisection.seconds:.0f} s"
        yield "compilers", f"{counts}, in {took}; plain halving tests up to {plural(bisection.halving_probes, 'commit')}"


def _ends(bisection: Bisection) -> Iterable[tuple[str, str]]:
    """Yield the revisions around each change, with the failures of other forms."""
    broke, changed, fixed = bisection.broke, bisection.changed, bisection.fixed
    if broke and changed:
        yield "last good", revision_text(broke.before)
        yield "broke", f"{revision_text(broke.after)}: {failure_text(broke.failure)}"
        yield "last other", revision_text(changed.before)
        yield "changed", revision_text(changed.after)
    elif bisection.before and bisection.after:
        is_fix = bisection.kind is BisectKind.FIX
        yield "last bad" if is_fix else "last good", revision_text(bisection.before)
        yield "first good" if is_fix else "first bad", revision_text(bisection.after)
    if fixed and bisection.kind is BisectKind.REGRESSION:
        yield "last bad", revision_text(fixed.before)
        yield "first good", revision_text(fixed.after)


def _commit_text(suspect: Suspect) -> Inline:
    share = f"{suspect.probability:.0%} " if suspect.probability < 1 else ""
    text: list[str | Span] = [share, Span(suspect.name, "strong"), f" {suspect.subject}"]
    if suspect.url:
        text.append(Span(f"\n{suspect.url}", "dim"))
    if pin := suspect.pin_moved:
        text.append(f"\nmoves {pin.path} from {pin.before} to {pin.after}; bisect between these two next")
    if suspect.branch:
        text.append(f"\n{suspect.branch}")
    if suspect.reasons:
        text.append(Span(f"\nsuspicious: {'; '.join(suspect.reasons)}", "dim"))
    return text


def _next_steps(bisection: Bisection) -> Iterable[str]:
    """Yield what to do when the answer is not one revision, or is about a failure that the recipe does not expect."""
    if bisection.hint:
        yield bisection.hint
    if bisection.command:
        yield f"Run: {bisection.command}"
    suspects = {suspect.name for suspect in bisection.suspects}
    hiding = [other for other in bisection.other_failures if other.revision.name in suspects]
    if bisection.status is Answer.SUSPECTS and bisection.failure and hiding:
        if bisection.failure.family in {other.failure.family for other in hiding}:
            yield "The other failure has the same family; pass --match family to follow it through its change of class."
        else:
            name = hiding[0].revision.name
            yield (
                f"Another failure hides the change; leave out --good or --bad to follow it, pass --bad {name} to bisect it, or "
                "--match any to accept any failure."
            )


_SENTENCES = {
    "compiler": "the compiler changed it: its change alone is enough, the model's alone is not",
    "model": "the model changed it: its change alone is enough, the compiler's alone is not",
    "either": "both changed it, and each change alone is enough",
    "both": "both changed it, and only the two changes together are enough",
}


def two_repositories_document(result: TwoRepositories) -> Document:
    """Show the answer of a bisect over the compiler's and the model's repository."""
    blocks: list[Block] = [Paragraph(Span(_SENTENCES[result.changed.value], "strong"))] if result.changed else []
    blocks.append(Bullets([_combination_text(one) for one in result.combinations]))
    for part in result.bisections:
        blocks += bisect_document(part).blocks
    return Document("Bisect of a compiler and a model", blocks)


def _combination_text(one: Combination) -> str:
    what = f"untestable: {one.reason}" if one.reason else f"fails: {failure_text(one.failure)}" if one.failure else "compiles"
    return f"{revision_text(one.compiler)}, model {one.model.name}: {what}"
