"""The sentences about nights in reports and on pages: verdicts, what is known of a
failure and what to do about it, how times changed, the state of a case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triage.attribute.result import Attribution
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.in_turn import Pace
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.outcome import FAILING, PASSING, Status
from triage.nightly.result import Night, TimeChange
from triage.nightly.verdict import Action, BackendVerdict, ToDo
from triage.recipes.values import duration_text, share_text, time_text
from triage.report.document import Fact, Inline, Phrase, Span, Table, TableRows
from triage.report.elements import (
    compare_spans,
    compiler_title,
    joined,
    plural,
    revision_text,
)

if TYPE_CHECKING:
    from triage.nightly.known_case import CaseState
    from triage.nightly.stored_night import StoredNight

_SYNC = "triage issues sync --repo OWNER/NAME --apply"
_VERBS = {
    Action.FILE: ("file", "issue", "issues"),
    Action.UPGRADE: ("upgrade for", "failure", "failures"),
    Action.WAIT: ("wait for", "known issue", "known issues"),
    Action.INVESTIGATE: ("run --investigate for", "failure", "failures"),
    Action.CLOSE: (
        "remove",
        "expected failure that passes",
        "expected failures that pass",
    ),
    Action.LOOK: ("look at", "flaky case", "flaky cases"),
}
_TITLES = ("night", "began", "suites", "toolchain", "against")
_COUNTS = ("passed", "failed", "untestable", "", "what it said")
_STATES = {Status.XFAIL: "fails as expected", Status.XPASS: "passes unexpectedly"}


def draft_path(cluster: FailureCluster) -> str:
    """Return the path of a draft, relative to the reports."""
    return f"issues/{cluster.id}.md"


def night_title(night: Night) -> str:
    """Return `IREE 3.3.0 against 3.2.0`."""
    return (
        f"{compiler_title(night.compiler)} {night.toolchain.name} against "
        f"{night.baseline.name}"
    ).strip()


def partial_text(night: Night) -> str:
    """Return why a nightly is partial and how many cases it did not compare; empty when
    it is complete.
    """
    if night.stopped is None:
        return ""
    why = f"{night.stopped[:1].upper()}{night.stopped[1:]}"
    missing = len(night.not_compared)
    if not missing:
        return f"{why}."
    total = plural(len(night.cases) + missing, "case")
    return f"{why}; {missing} of {total} not compared."


def night_verdict(night: Night) -> str:
    """Return the counts of a night, its pass rate and what it took."""
    counts = [f"{count} {change}" for change, count in night.changes.items() if count]
    passed, failed = (
        sum(row[state] for row in night.suites.values())
        for state in ("passed", "failed")
    )
    rate = ""
    if passed + failed:
        rate = f"; {rate_text(passed, failed)} pass ({passed} of {passed + failed})"
    seconds = duration_text(night.seconds)
    if night.seconds < 100:
        seconds = f"{night.seconds:.1f} s"
    effort = (
        f"{plural(night.compiles, 'compile')}, "
        f"{plural(night.cached, 'cache hit')}, {seconds}"
    )
    return f"{', '.join(counts) or 'no case'}{rate}; {effort}"


def rate_text(passed: int, failed: int) -> str:
    """Return the share of the cases that pass."""
    if passed + failed:
        return share_text(passed / (passed + failed))
    return "-"


def path_text(night: Night, path: str) -> str:
    """Return a path of a night as a user can open it: with the folder of the
    reports.
    """
    if "json" in night.reports:
        return str(Path(night.reports["json"]).parent / path)
    return path


def reason_text(case: CaseResult, night: Night) -> str:
    """Return on which of the two toolchains a case could not be tested, and why."""
    for result, revision in ((case, night.toolchain), (case.baseline, night.baseline)):
        if result.status == Status.UNTESTABLE or result.reason:
            return f"{revision.name}: {result.reason}"
    return ""


def untested_text(case: CaseResult) -> str:
    """Return why the baseline says nothing about a new failure; empty if it does."""
    if case.change is not CaseChangeKind.NEW_UNTESTED:
        return ""
    return f"{case.baseline.toolchain.name} could not test it: {case.baseline.reason}"


def origin_text(bisection: Bisection) -> str:
    """Return a bisect's answer in one line."""
    return " ".join(_origin_parts(bisection))


def _origin_parts(bisection: Bisection) -> tuple[str, str]:
    """Return what a change did, and where it lies."""
    verb = "introduced" if bisection.kind == BisectKind.REGRESSION else "fixed"
    before, after = bisection.before, bisection.after
    if before is None or after is None:
        return f"{verb}:", f"not found: {bisection.reason}"
    certainty = "confirmed"
    if bisection.status != Answer.CULPRIT:
        names = ", ".join(revision.name for revision in bisection.suspects)
        unsure = "" if bisection.confirmed else ", not confirmed"
        certainty = f"one of {names}{unsure}"
    where = f"between {revision_text(before)} and {revision_text(after)} ({certainty})"
    return verb, where


def origin_facts(
    bisections: Iterable[Bisection | None], compiler: str | None
) -> Iterator[Fact]:
    """Yield what introduced and what fixed a failure. compiler: the family, to link the
    commits of the range.
    """
    for bisection in filter(None, bisections):
        name, where = _origin_parts(bisection)
        link: Phrase = []
        if bisection.before and bisection.after:
            link = compare_spans(compiler, bisection.before, bisection.after)
        yield name, [where, *link]


def found_facts(cluster: FailureCluster) -> Iterator[Fact]:
    """Yield the owner, and what an investigation found out besides the origin: commits,
    the pass, workarounds, what was tried.
    """
    if cluster.owner:
        yield "owner", cluster.owner
    if cluster.culprit and cluster.culprit.status is not Answer.INCONCLUSIVE:
        for suspect in cluster.culprit.suspects[:3]:
            if suspect.url:
                link = Span(suspect.subject or suspect.name, url=suspect.url)
                yield (
                    "suspected commit",
                    [link, f" {share_text(suspect.probability, 0)}"],
                )
    found = cluster.attribution
    if found and found.suspects:
        yield "pass", pass_text(found)
    if cluster.remedies:
        yield "workaround", workaround_spans(cluster)
    for step in cluster.steps:
        if step.status == "failed":
            yield "tried", f"{step.reason} ({step.step})"


def workaround_spans(cluster: FailureCluster) -> Inline:
    """Return the best remedies."""
    return joined((Span(one.text, "code") for one in cluster.remedies[:3]), ", or ")


def pass_text(found: Attribution) -> str:
    """Return the pass that differs, with its phase and its files."""
    phase = f" (phase {found.phase})" if found.phase else ""
    name = found.suspects[0].name
    parts = [f"the IR first differs after {name}{phase}", *found.files[:3]]
    return ", ".join(parts)


def night_facts(
    cluster: FailureCluster | None,
    night: Night,
    bisections: Iterable[Bisection | None],
    compiler: str | None = None,
) -> list[Fact]:
    """Return everything that a night found out about a failure. compiler: the family,
    to link the commits of the range.
    """
    facts = list(origin_facts(bisections, compiler))
    if cluster is None:
        return facts
    if cluster.reproducer:
        whose = f" (of {cluster.representative})" if len(cluster.cases) > 1 else ""
        url = f"{cluster.reproducer}/README.md"
        path = Span(path_text(night, cluster.reproducer), url=url)
        facts.append(("reduced", [f"{cluster.size}{whose}: ", path]))
    facts += found_facts(cluster)
    if cluster.issue:
        draft = Span(path_text(night, cluster.issue), url=cluster.issue)
        facts.append(("issue draft", draft))
    return facts


def time_name(row: TimeChange) -> str:
    """Return the case and its function, if one was run."""
    if row.function:
        return f"{row.case}, {row.function}"
    return row.case


def times_text(row: TimeChange) -> str:
    """Return both times, `2 s -> 9 s`, with ratio, verdict and origin, or why there is
    none.
    """
    if row.baseline_seconds is None or row.seconds is None:
        return f"not measured, {row.reason}"
    verdict = pace_text(row)
    if row.ratio:
        verdict = f"{row.ratio} {verdict}"
    text = f"{time_text(row.baseline_seconds)} -> {time_text(row.seconds)}, {verdict}"
    if row.bisection:
        text += f"; {origin_text(row.bisection)}"
    return text


def pace_text(row: TimeChange) -> str:
    """Return the verdict on a time, or why there is none."""
    if row.verdict is Pace.NOISY and row.reason:
        return f"{row.verdict.value}, {row.reason}"
    if row.verdict:
        return row.verdict.value
    if row.reason:
        return f"not measured, {row.reason}"
    return "no verdict"


def backend_sentence(
    verdict: BackendVerdict, night: Night, title: str | None = None
) -> str:
    """Return what a night says of one backend: `rocm: 3 of 41 cases newly fail on 3.3.0
    (2 failures, 1 with a culprit); 1 is fixed. To do: file 1 issue.`

    title: what stands in front (default: the backend).
    """
    where = f"{title or verdict.backend}: " if title or verdict.backend else ""
    text = f"{where}{_what_broke(verdict, night)}"
    if verdict.fixed:
        text += f"; {plural(verdict.fixed, 'is', 'are')} fixed"
    actions = ", ".join(
        f"{_VERBS[action][0]} {plural(count, *_VERBS[action][1:])}"
        for action, count in verdict.actions.items()
    )
    return f"{text}. To do: {actions}." if actions else f"{text}."


def _what_broke(verdict: BackendVerdict, night: Night) -> str:
    cases, untested = plural(verdict.cases, "case"), ""
    if verdict.untestable:
        untested = f", {verdict.untestable} could not be tested"
    tested = verdict.cases - verdict.untestable
    if verdict.cases and not tested:
        return f"nothing could be tested in {cases}"
    if not verdict.broken:
        if untested:
            cases = f"{tested} of {cases}"
        return f"nothing new fails in {cases}{untested}"
    verb = "fails" if verdict.broken == 1 else "fail"
    text = f"{verdict.broken} of {cases} newly {verb} on {night.toolchain.name}"
    return f"{text} ({_failures_text(verdict)}){untested}"


def _failures_text(verdict: BackendVerdict) -> str:
    """Return how many failures there are, and how many have a culprit."""
    text = plural(verdict.failures, "failure")
    if not verdict.with_culprit:
        return text
    count = str(verdict.with_culprit)
    if verdict.with_culprit == verdict.failures:
        count = "all" if verdict.failures > 1 else ""
    return f"{text}, {count} with a culprit".replace("  ", " ")


def to_do_spans(to_do: ToDo, issue: Span | None = None) -> Inline:
    """Return what to do about one failure or case, the action first.

    issue: the one to wait for as a link.
    """
    action = Span(to_do.action.value, "strong")
    match to_do.action:
        case Action.FILE:
            how = ": copy the draft of the issue, or run "
            return [action, how, Span(_SYNC, "code")]
        case Action.UPGRADE:
            return [action, f": it is fixed in {to_do.since}"]
        case Action.WAIT:
            since = f", fails since {to_do.since}" if to_do.since else ""
            return [action, " for ", issue or to_do.issue or "", since]
        case Action.INVESTIGATE:
            reason = to_do.reason or "not investigated yet"
            return [action, f": repeat the nightly with --investigate ({reason})"]
        case Action.CLOSE:
            what = f": passes since {to_do.since}; "
            return [action, what, Span("triage expect update", "code")]
        case Action.LOOK:
            return [action, ": flaky; `triage show` has its nights"]


def state_sentence(state: CaseState) -> str:
    """Return the last result of a case: `failed since 2026-01-06 with 3.13.0`."""
    name = _STATES.get(state.status, state.status.value)
    text = f"{name} since {state.since} with {state.toolchain.name}"
    if state.is_edited:
        text += ", when the input changed"
    if state.flaky_changes:
        changes = plural(state.flaky_changes, "change")
        text += f"; flaky: {changes} without a change of the compiler"
    return text


def night_table(
    nights: Sequence[StoredNight], urls: Mapping[int, str] | None = None
) -> Table:
    """Return a row for each night. urls: of the pages of nights, by number."""
    rows: TableRows = []
    for stored in nights:
        night, statuses = stored.night, stored.statuses
        counts = [
            str(sum(statuses[status] for status in group))
            for group in (PASSING, FAILING, (Status.UNTESTABLE,))
        ]
        names = [", ".join(stored.suites), night.toolchain.name, night.baseline.name]
        number = Span(str(stored.number), url=(urls or {}).get(stored.number))
        began = night.started[:16].replace("T", " ")
        said = " ".join(backend_sentence(each, night) for each in stored.verdicts)
        partial = "partial" if night.partial else ""
        rows.append([number, began, *names, *counts, partial, said])
    return Table((*_TITLES, *_COUNTS), rows)
