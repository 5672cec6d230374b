"""The JSON of a bisect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from triage.bisect.candidates import commit_revision
from triage.bisect.result import Bisection, Transition, unexpected
from triage.git_history import Branch, BranchCommit
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.model.shapes import Shape


@dataclass(frozen=True)
class BranchCommitShape(Revision):
    """A commit of a branch. `picked_from` are the commits that it picks; `matched_by` says how they were
    recognised: line, subject or pull_request; or the merge that brought it to the main line (merge).
    """

    picked_from: Sequence[Revision] = ()
    matched_by: str | None = None


@dataclass(frozen=True)
class BranchShape(Shape):
    """A branch that a release lies on, with the commit of the main line that it starts from."""

    name: str
    start: Revision
    commits: list[BranchCommitShape]


def branch_shape(branch: Branch) -> BranchShape:
    """Convert a branch."""
    return BranchShape(branch.name, commit_revision(branch.start), list(map(_commit, branch.commits)))


def _commit(own: BranchCommit) -> BranchCommitShape:
    how = own.matched_by.name.lower() if own.matched_by else None
    originals = list(map(commit_revision, own.originals))
    return BranchCommitShape(**asdict(commit_revision(own.commit)), picked_from=originals, matched_by=how)


@dataclass(frozen=True)
class BisectSuspectShape(Revision):
    """A revision that may be the culprit."""

    probability: float = 0.0


@dataclass(frozen=True)
class PinShape(Shape):
    """A submodule that a commit moved, with the commits before and after."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class CommitSuspectShape(BisectSuspectShape):
    """A suspect that is a commit, with what is known about it."""

    pull_request: int | None = None
    url: str | None = None
    files: Sequence[str] = ()
    pin_moved: PinShape | None = None
    reasons: Sequence[str] = ()
    branch: str | None = None


@dataclass(frozen=True)
class OtherFailure(Shape):
    """A revision with another failure than the one that the bisect searches for."""

    revision: Revision
    failure: Failure


@dataclass(frozen=True)
class UntestableShape(Shape):
    """A revision that could not be tested."""

    revision: Revision
    reason: str


@dataclass(frozen=True)
class TransitionShape(Shape):
    """Two revisions between which a case broke, its failure changed, or was fixed. `failure`: the one that came or went."""

    before: Revision
    after: Revision
    failure: Failure
    confirmed: bool
    suspects: list[BisectSuspectShape]


@dataclass(frozen=True)
class BisectShape(Shape):
    """JSON of `triage bisect`."""

    case: str
    kind: str
    status: str
    before: Revision | None
    after: Revision | None
    suspects: list[BisectSuspectShape | CommitSuspectShape]
    confirmed: bool
    failure: Failure | None
    probes: int
    rounds: int
    cached: int
    other_failures: list[OtherFailure]
    untestable: list[UntestableShape]
    reason: str | None
    evidence: str | None
    hint: str | None
    broke: TransitionShape | None
    changed: TransitionShape | None
    fixed: TransitionShape | None
    command: str | None
    halving_probes: int = field(default=0, kw_only=True)
    obtained: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)
    branches: Sequence[BranchShape] = field(default=(), kw_only=True)
    undone: bool = field(default=False, kw_only=True)


def bisect_shape(bisection: Bisection) -> BisectShape:
    """Convert a bisect's answer."""
    return BisectShape(
        case=bisection.case.name,
        kind=bisection.kind.value,
        status=bisection.answer.value,
        before=bisection.before,
        after=bisection.after,
        suspects=[_suspect(bisection, revision, probability) for revision, probability in bisection.suspects],
        confirmed=bisection.confirmed,
        failure=bisection.failure,
        probes=bisection.probes,
        rounds=bisection.rounds,
        cached=bisection.cached,
        halving_probes=bisection.halvings,
        obtained=bisection.obtained,
        seconds=round(bisection.seconds, 1),
        branches=list(map(branch_shape, bisection.branches)),
        undone=bisection.undone,
        other_failures=[OtherFailure(revision, failure) for revision, failure in bisection.other_failures],
        untestable=[UntestableShape(revision, reason) for revision, reason in bisection.untestable],
        reason=bisection.reason,
        evidence=bisection.evidence,
        hint=hint_of(bisection),
        broke=_transition(bisection.path.broke),
        changed=_transition(bisection.path.changed),
        fixed=_transition(bisection.path.fixed),
        command=bisection.command,
    )


def _transition(step: Transition | None) -> TransitionShape | None:
    if step is None:
        return None
    suspects = [
        BisectSuspectShape(revision.name, revision.commit, revision.date, revision.subject, probability)
        for revision, probability in step.suspects
    ]
    return TransitionShape(step.before, step.after, step.failure, step.confirmed, suspects)


def _suspect(bisection: Bisection, revision: Revision, probability: float) -> BisectSuspectShape:
    names = revision.name, revision.commit, revision.date, revision.subject
    note = bisection.notes.get(revision.commit or "")
    if note is None:
        return BisectSuspectShape(*names, probability)
    pin = PinShape(*note.pinned) if note.pinned else None
    return CommitSuspectShape(*names, probability, note.pull_request, note.url, note.files, pin, note.reasons, note.branch)


def hint_of(bisection: Bisection) -> str | None:
    """Return a hint where the recipe expects other failures than the one that was bisected."""
    return unexpected(bisection.case, bisection.failure) if bisection.failure else None
