"""What is known of a failure, in words: what fails, since when, what brought it, what
works around it, what to do. Screens, reports, issues and pages word it here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.result import Answer, Bisection, Transition
from triage.model.revision import Revision
from triage.recipes.values import share_text
from triage.report.document import Fact, Inline, Phrase, Span
from triage.report.elements import (
    compare_url,
    compiler_title,
    failure_details,
    failure_text,
    headline_text,
    plural,
    revision_text,
)

if TYPE_CHECKING:  # they are slow to import
    from triage.investigate.result import CaseResult, FailureCluster
    from triage.nightly.lives import FailureLife
    from triage.nightly.result import ToDo

CONFIRMED = "confirmed by probing both again"
_NAMES_SHOWN = 12  # suspects
_SYNC = "triage issues sync --repo OWNER/NAME --apply"
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


def verdict_text(bisection: Bisection, title: str) -> str:
    """Return which revision brought the failure and which fixed it. title: the name of
    the compiler.
    """
    is_regression = bisection.brought_failure
    broke = bisection.broke
    changed = bisection.changed
    fixed = bisection.fixed
    if changed:
        verb = "fails as today since" if is_regression else "this failure went with"
        headline = headline_text(changed.failure, 70)
        text = f"{verb} {_change_text(changed)}: {headline}"
        if broke:
            verb = "broke with" if is_regression else "first passes with"
            other = headline_text(broke.failure, 70)
            if other == headline:
                other = "the same message, in another place"
            text = f"{verb} {_change_text(broke)}: {other}; {text}"
        else:
            text += "; it failed otherwise before"
    elif broke:
        verb = "introduced" if is_regression else "fixed"
        text = f"{verb} by {_change_text(broke, title)}"
    else:
        return "inconclusive"
    if fixed and is_regression:
        text += f"; fixed by {_change_text(fixed)}"
    return text


def _change_text(change: Transition, title: str = "") -> str:
    """Return the culprit or the suspects, or the range if these are many. title: the
    name of the compiler.
    """
    if change.status is Answer.CULPRIT:
        return f"{title} {revision_text(change.after)}".lstrip()
    names = [suspect.name for suspect in change.suspects]
    if len(names) == 1:
        return f"{title} {names[0]} (not confirmed)".lstrip()
    text = f"one of {plural(len(names), f'{title} revision'.lstrip())}"
    if len(names) <= _NAMES_SHOWN:
        return f"{text}: {', '.join(names)}"
    return f"{text} between {change.before.name} and {change.after.name}"


def since_facts(bisection: Bisection, compiler: str | None) -> Iterator[Fact]:
    """Yield which revision brought or fixed a failure, the one before it, and the
    commits between them.
    """
    name = "since" if bisection.brought_failure else "fixed"
    if bisection.status is Answer.INCONCLUSIVE:
        # options of `triage bisect`
        reason = (bisection.reason or "").partition("; pass --")[0]
        yield name, f"not known: {reason}"
        return
    verdict = verdict_text(bisection, compiler_title(compiler))
    if bisection.confirmed:
        verdict += f"; {CONFIRMED}"
    yield name, verdict.removeprefix(f"{name} ")
    if bisection.brought_failure:
        yield from facts_before_change(bisection, compiler)


def facts_before_change(bisection: Bisection, compiler: str | None) -> Iterator[Fact]:
    """Yield the last revision before a change, and the commits up to it."""
    pair = bisection.broke or bisection.changed
    name = "last good"
    if not bisection.brought_failure:
        name = "last bad"
    elif not bisection.broke:
        name = "last other"
    if pair:
        yield name, revision_text(pair.before)
        url = compare_url(compiler, pair.before, pair.after)
        yield "commits", Span(url, url=url) if url else None


def known_facts(cluster: FailureCluster) -> Iterator[Fact]:
    """Yield all that was found out about a failure, and which steps found nothing."""
    if cluster.failure:
        yield from failure_details(cluster.failure)
    culprit = cluster.culprit
    if culprit and culprit.after:
        yield from since_facts(culprit, cluster.compiler)
    releases = cluster.release_culprit
    if releases and releases.before and releases.after:
        yield "releases", f"between {releases.before.name} and {releases.after.name}"
    for suspect in culprit.suspects[:3] if culprit else ():
        if suspect.url:
            link = Span(suspect.subject or suspect.name, url=suspect.url)
            yield "suspect", [link, f" {share_text(suspect.probability, 0)}"]
    if cluster.attribution and cluster.attribution.suspects:
        yield "pass", attribution_text(cluster.attribution)
    yield "workaround", ", or ".join(remedy.text for remedy in cluster.remedies[:3])
    for step in cluster.steps:
        if step.status in ("failed", "left"):
            yield step.step, f"{step.status}: {step.reason}"
    yield "owner", cluster.owner


def attribution_text(attribution: Attribution, *, with_phase: bool = True) -> str:
    """Return where two compilers diverge, in one sentence."""
    both = f"{attribution.good.name} and {attribution.bad.name}"
    same = f"{both} produce the same IR"
    passes = attribution.suspect_passes
    phase = ""
    if attribution.phase and with_phase:
        phase = f" (phase {attribution.phase})"
    match attribution.status:
        case ComparisonResult.DIVERGES:
            sure = "" if attribution.is_sure else "not sure: "
            return f"{sure}{both} diverge after {' or after '.join(passes[:2])}{phase}"
        case ComparisonResult.FAILING:
            failing = passes[0] if passes else "the failing step, which is not a pass"
            return f"{same} up to {failing}; the change is in there{phase}"
        case ComparisonResult.SAME:
            return f"{same} after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot compare: {attribution.reason}"


def baseline_text(case: CaseResult) -> str:
    """Return what the baseline says of a new failure, unless it passes there."""
    baseline = case.baseline
    if baseline.untestable:
        return f"{baseline.toolchain.name} could not test it: {baseline.reason}"
    if baseline.failed:
        text = failure_text(baseline.failure)
        return f"{baseline.toolchain.name} fails in another way: {text}"
    return ""


def life_facts(life: FailureLife) -> Iterator[Fact]:
    """Yield when a failure came and was last seen, and what to do."""
    last = life.gone or life.last
    name = "gone" if life.gone else "last seen"
    yield "came", [came_span(life), f", {life.came.day}"]
    yield name, f"{last.day} with {revision_text(last.toolchain)}"
    how: Inline = "nothing: it is gone"
    if life.to_do:
        how = to_do_spans(life.to_do, is_compared=life.before is not None)
    elif life.state == "known":
        how = "nothing: its recipe expects it"
    yield "to do", how


def came_span(life: FailureLife) -> Span:
    """Return the range in which a failure came, with a link to its commits."""
    if life.is_edited:
        return Span(f"the input changed, {life.came.toolchain.name}")
    return range_span(life.track.compiler, life.before, life.came.toolchain)


def range_span(compiler: str, old: Revision | None, new: Revision) -> Span:
    """Return the range between two toolchains with a link to its commits."""
    if old is None:
        return Span(f"{new.name} or before")
    return Span(f"{old.name} .. {new.name}", url=compare_url(compiler, old, new))


def to_do_spans(to_do: ToDo, *, is_compared: bool = True) -> Phrase:
    """Return what to do about one failure, the action first. is_compared: whether a
    toolchain without it is known.
    """
    from triage.nightly.result import Action

    how: Phrase
    match to_do.action:
        case Action.FILE:
            how = [": copy the draft of the issue, or run ", Span(_SYNC, "code")]
        case Action.UPGRADE:
            how = [f": it is fixed in {to_do.since}"]
        case Action.WAIT:
            how = [" for ", issue_span(to_do.issue or "")]
        case _ if is_compared:
            how = [": repeat the nightly with --investigate"]
        case _:
            how = [": run triage why"]
    return [Span(to_do.action.value, "strong"), *how]


def issue_span(issue: str) -> Span:
    """Return a link to an issue that is named `owner/repository#number` or by its
    address.
    """
    match = _ISSUE.fullmatch(issue)
    if match:
        return Span(issue, url=f"https://github.com/{match[1]}/issues/{match[2]}")
    return Span(issue, url=issue if "://" in issue else None)


def command_line(
    command: str, source: str, case: str, revisions: Mapping[str, str], *more: str
) -> str | None:
    """Return a command on a case for people to copy. None if the recipe is not known,
    or a value, which another job may have written, would be read as an option.

    revisions: by their options.
    """
    if not source or any(
        value.startswith("-") for value in (source, case, *revisions.values())
    ):
        return None
    options = [word for pair in revisions.items() for word in pair]
    words = ["triage", command, source, "--case", case, *options, *more]
    return shlex.join(words)


def command_to_run(source: str, case: str, version: str) -> str | None:
    """Return the command that runs a case, if there is one."""
    return command_line("run", source, case, {"-t": version})
