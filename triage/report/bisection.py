"""Reports of `triage bisect` (one repository or two): terminal, JSON, Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from triage.bisect.history import plain_status
from triage.bisect.result import Answer, Bisection, BisectKind, CommitNote, Transition
from triage.bisect.shape import BisectShape, bisect_shape, hint_of
from triage.model.revision import Revision
from triage.report.branches import branch_facts
from triage.report.elements import facts_table, failure_text, headline_text, numbers_text, outcome_text, plural, revision_text
from triage.report.markdown import Markdown, render_markdown
from triage.report.registry import MarkdownReport
from triage.report.shapes import FailureShape, Shape, failure_in, reason_in

if TYPE_CHECKING:  # they import numerics, which the reports do not need
    from triage.bisect.two_repositories import Combination, TwoRepositories

_UNTESTABLE_SHOWN = 8
_SUSPECTS_SHOWN = 10
_NAMES_SHOWN = 12
_FILES_SHOWN = 20


def _end_names(bisection: Bisection) -> tuple[str, str]:
    return ("last good", "first bad") if bisection.kind is BisectKind.REGRESSION else ("last bad", "first good")


@dataclass(frozen=True, slots=True)
class BisectReport(MarkdownReport):
    """A bisect's answer with what it rests on."""

    bisection: Bisection

    def shape(self) -> BisectShape:
        return bisect_shape(self.bisection)

    def blocks(self) -> Iterable[RenderableType]:
        """Show the answer, both revisions, the failure, other failures, certainty, and what to do next."""
        yield _headline(self.bisection)
        yield facts_table(_facts(self.bisection))
        yield from (Text(f"  {hint}", style="dim") for hint in _next_steps(self.bisection))

    def markdown(self) -> Markdown:
        bisection = self.bisection
        noted = [(revision, share, bisection.notes.get(revision.commit or "")) for revision, share in bisection.suspects]
        notes = list(bisection.notes.values())
        return render_markdown(
            "bisect.md.j2",
            bisection=bisection,
            verdict=_verdict(bisection),
            ends=list(_ends(bisection)),
            subjects={revision_text(end): end.subject or "" for end in (bisection.before, bisection.after) if end},
            suspects=[(revision.name, share, note) for revision, share, note in noted if note],
            pinned=[note.pinned for note in notes if note.pinned][:1],
            files=notes[0].files[:_FILES_SHOWN] if notes and len(bisection.suspects) == 1 else (),
            certainty=_certainty(bisection).capitalize(),
            cost=_cost(bisection),
            numbers=numbers_text(bisection.failure) if bisection.failure else "",
            hint=hint_of(bisection),
            branches=[text.split("\n") for _, text in branch_facts(bisection.branches)],
            others=list(_other_failures(bisection)),
            shown=_UNTESTABLE_SHOWN,
        )


def _verdict(bisection: Bisection) -> str:
    path, verb = bisection.path, "introduced by" if bisection.kind is BisectKind.REGRESSION else "fixed by"
    if bisection.answer is Answer.INCONCLUSIVE:
        return "inconclusive"
    if bisection.undone:
        verb = f"the new revision lacks the {bisection.kind}:"
    if path.broke and path.changed and not bisection.undone:
        since = "failed in its last form since" if path.fixed else "fails as today since"
        verdict = f"{_came('broke with', path.broke)}; {_came(since, path.changed)}"
    elif bisection.answer is Answer.CULPRIT:
        verdict = f"{verb} {revision_text(bisection.after)}"
    else:
        verdict = f"{verb} {_one_of([revision for revision, _ in bisection.suspects])}"
    if path.fixed and bisection.kind is BisectKind.REGRESSION:
        verdict += f"; fixed by {_shown(path.fixed)}"
    return verdict


def _came(verb: str, step: Transition) -> str:
    return f"{verb} {_shown(step, full=False)} ({headline_text(step.failure, 70)})"


def _shown(step: Transition, *, full: bool = True) -> str:
    if step.answer is Answer.CULPRIT:
        return revision_text(step.after) if full else step.after.name
    return _one_of([revision for revision, _ in step.suspects])


def _one_of(revisions: Sequence[Revision]) -> str:
    if len(revisions) == 1:
        return f"{revisions[0].name} (not confirmed)"
    listed = ", ".join(revision.name for revision in revisions[:_NAMES_SHOWN])
    more = f" and {len(revisions) - _NAMES_SHOWN} more" if len(revisions) > _NAMES_SHOWN else ""
    return f"one of {plural(len(revisions), 'revision')}: {listed}{more}"


def _headline(bisection: Bisection) -> Text:
    style = "yellow" if bisection.answer is Answer.INCONCLUSIVE else "bold"
    return Text.assemble((bisection.case.name, "bold"), ": ", (_verdict(bisection), style))


def _certainty(bisection: Bisection) -> str:
    confirmation = "confirmed by probing both again" if bisection.confirmed else "not confirmed"
    effort = f"{plural(bisection.probes, 'probe')} in {plural(bisection.rounds, 'round')}"
    cached = f", {plural(bisection.cached, 'cache hit')}" if bisection.cached else ""
    return f"{confirmation}; {effort}{cached}"


def _cost(bisection: Bisection) -> str:
    """What the compilers of a search over commits cost beside plain halving; empty where none was needed."""
    if not bisection.obtained:
        return ""
    counts = ", ".join(f"{count} from {source}" for source, count in sorted(bisection.obtained.items()))
    took = f"{bisection.seconds / 60:.0f} min" if bisection.seconds >= 100 else f"{bisection.seconds:.0f} s"
    return f"{counts}, in {took}; plain halving tests up to {plural(bisection.halvings, 'commit')}"


def _facts(bisection: Bisection) -> Iterable[tuple[str, str | Text]]:
    if bisection.reason:
        yield "why", bisection.reason
    yield from _ends(bisection)
    if bisection.failure:
        yield "failure", failure_text(bisection.failure, 400)
        if numbers := numbers_text(bisection.failure):
            yield "numbers", numbers
        yield "signature", bisection.failure.signature
    for revision, probability in bisection.suspects[:_SUSPECTS_SHOWN]:
        if note := bisection.notes.get(revision.commit or ""):
            yield "commit", _commit_text(note, probability)
    yield from branch_facts(bisection.branches)
    if bisection.evidence:
        yield "evidence", bisection.evidence
    yield from (("another", text) for text in _other_failures(bisection))
    for revision, reason in bisection.untestable[:_UNTESTABLE_SHOWN]:
        yield "untestable", f"{revision.name}: {reason}"
    if (hidden := len(bisection.untestable) - _UNTESTABLE_SHOWN) > 0:
        yield "", f"and {hidden} more"
    yield "certainty", _certainty(bisection)
    if cost := _cost(bisection):
        yield "compilers", cost


def _other_failures(bisection: Bisection) -> Iterable[str]:
    """Yield a sentence for each other failure with all revisions that have it."""
    for text, group in groupby(bisection.other_failures, key=lambda pair: failure_text(pair[1])):
        names = [revision.name for revision, _ in group]
        yield f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} another failure: {text}"


def _ends(bisection: Bisection) -> Iterable[tuple[str, str]]:
    """Yield the revisions around each change, with the failures of other forms."""
    broke, changed, fixed = bisection.path.broke, bisection.path.changed, bisection.path.fixed
    if broke and changed:
        yield "last good", revision_text(broke.before)
        yield "broke", f"{revision_text(broke.after)}: {failure_text(broke.failure)}"
        yield "last other", revision_text(changed.before)
        yield "changed", revision_text(changed.after)
    elif bisection.before and bisection.after:
        yield from zip(_end_names(bisection), map(revision_text, (bisection.before, bisection.after)), strict=True)
    if fixed and bisection.kind is BisectKind.REGRESSION:
        yield "last bad", revision_text(fixed.before)
        yield "first good", revision_text(fixed.after)


def _commit_text(note: CommitNote, probability: float) -> Text:
    text = Text(f"{probability:.0%} " if probability < 1 else "").append(note.sha[:10], style="bold")
    text.append(f" {note.subject}")
    if note.url:
        text.append(f"\n{note.url}", style="dim")
    if note.pinned:
        path, before, after = note.pinned
        text.append(f"\nmoves {path} from {before} to {after}")
    if note.branch:
        text.append(f"\n{note.branch}")
    if note.reasons:
        text.append(f"\nsuspicious: {'; '.join(note.reasons)}", style="dim")
    return text


def _next_steps(bisection: Bisection) -> Iterable[str]:
    """Return what to do when the answer is not one revision, or is about a failure that the recipe does not expect."""
    if hint := hint_of(bisection):
        yield hint
    if bisection.command:
        yield f"Run: {bisection.command}"
    suspects = {revision.name for revision, _ in bisection.suspects}
    hiding = [(revision, failure) for revision, failure in bisection.other_failures if revision.name in suspects]
    if bisection.answer is Answer.SUSPECTS and bisection.failure and hiding:
        if bisection.failure.family in {failure.family for _, failure in hiding}:
            yield "The other failure has the same family; pass --match family to follow it through its change of class."
        else:
            name = hiding[0][0].name
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


@dataclass(frozen=True)
class CombinationShape(Shape):
    """A compiler with a commit of the model repository, and what happened."""

    compiler: Revision
    model: Revision
    status: str
    failure: FailureShape | None
    reason: str | None


@dataclass(frozen=True)
class TwoRepositoriesShape(BisectShape):
    """JSON of `triage bisect --model`: the bisect of the compiler, or of the model where only the model changed.

    `status` is a culprit only when each bisect has one.
    """

    moved: str | None
    corners: list[CombinationShape]
    compiler: BisectShape | None
    model: BisectShape | None


@dataclass(frozen=True, slots=True)
class TwoRepositoriesReport(MarkdownReport):
    """The answer of a bisect over the compiler's and the model's repository."""

    answer: TwoRepositories

    def shape(self) -> TwoRepositoriesShape:
        answer = self.answer
        statuses = {part.answer for part in answer.bisections}
        weakest = next(status for status in (Answer.INCONCLUSIVE, Answer.SUSPECTS, Answer.CULPRIT) if status in statuses)
        first = bisect_shape(answer.bisections[0])
        whole = replace(first, status=weakest.value, confirmed=all(part.confirmed for part in answer.bisections))
        return TwoRepositoriesShape(
            **vars(whole),
            moved=answer.changed.value if answer.changed else None,
            corners=list(map(_combination, answer.combinations)),
            compiler=bisect_shape(answer.compiler) if answer.compiler else None,
            model=bisect_shape(answer.model) if answer.model else None,
        )

    def blocks(self) -> Iterable[RenderableType]:
        """Show which repository changed, the combinations that show it, and the answer of each bisect."""
        if self.answer.changed:
            yield Text(_SENTENCES[self.answer.changed.value], style="bold")
        yield from (Text(f"  {_combination_text(corner)}", style="dim") for corner in self.answer.combinations)
        for part in self.answer.bisections:
            yield Group(*BisectReport(part).blocks())

    def markdown(self) -> Markdown:
        return render_markdown(
            "two_repositories.md.j2",
            sentence=_SENTENCES[self.answer.changed.value].capitalize() if self.answer.changed else None,
            combinations=list(map(_combination_text, self.answer.combinations)),
            bisections=[BisectReport(part).markdown() for part in self.answer.bisections],
        )


def _combination(corner: Combination) -> CombinationShape:
    outcome = corner.outcome
    return CombinationShape(corner.compiler, corner.model, plain_status(outcome), failure_in(outcome), reason_in(outcome))


def _combination_text(corner: Combination) -> str:
    return f"{revision_text(corner.compiler)}, model {corner.model.name}: {outcome_text(corner.outcome)}"
