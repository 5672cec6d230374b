"""What a night or a page says has to be done: one sentence for each backend, and one
action for each failure.
"""

from __future__ import annotations

from triage.nightly.result import Night
from triage.nightly.verdict import Action, BackendVerdict, ToDo
from triage.report.document import Inline, Span
from triage.report.elements import plural

_SYNC = "triage issues sync --repo OWNER/NAME --apply"
_NEVER = "not investigated yet"
_COUNTED = {
    Action.FILE: ("file", ("issue",)),
    Action.WAIT: ("wait for", ("known issue",)),
    Action.INVESTIGATE: (
        "investigate",
        ("failure with --investigate", "failures with --investigate"),
    ),
    Action.CLOSE: (
        "remove",
        ("expected failure that passes", "expected failures that pass"),
    ),
    Action.LOOK: ("look at", ("flaky case",)),
}


def backend_sentence(
    verdict: BackendVerdict, night: Night, title: str | None = None
) -> str:
    """Return what a night says of one backend: `rocm: 3.3.0 breaks 3 of 41 cases with
    2 failures, 1 with a culprit. Do: file 1 issue, investigate 1 failure.`

    title: what stands in front (default: the backend).
    """
    where = f"{title or verdict.backend}: " if title or verdict.backend else ""
    if verdict.broken:
        failures = plural(verdict.failures, "failure")
        text = (
            f"{where}{night.toolchain.name} breaks {verdict.broken} of "
            f"{plural(verdict.cases, 'case')} with {failures}"
        )
        if verdict.with_culprit:
            text += f", {verdict.with_culprit} with a culprit"
        if verdict.not_investigated == verdict.failures:
            text += ", not investigated"
        elif verdict.not_investigated:
            text += f", {verdict.not_investigated} not investigated"
        if verdict.reason:
            text += f" ({verdict.reason})"
    else:
        text = f"{where}nothing new fails in {plural(verdict.cases, 'case')}"
    if verdict.fixed:
        text += f"; {verdict.fixed} fixed"
    actions = ", ".join(
        f"{_COUNTED[action][0]} {plural(count, *_COUNTED[action][1])}"
        for action, count in verdict.actions.items()
    )
    return f"{text}. Do: {actions}." if actions else f"{text}."


def to_do_spans(to_do: ToDo, issue: Span | None = None) -> Inline:
    """Return what to do about one failure or case, the action first.

    issue: the one to wait for as a link.
    """
    action = Span(to_do.action.value, "strong")
    match to_do.action:
        case Action.FILE:
            how = ": copy the draft of the issue, or run "
            return [action, how, Span(_SYNC, "code")]
        case Action.WAIT:
            since = f", fails since {to_do.since}" if to_do.since else ""
            return [action, " for ", issue or to_do.issue or "", since]
        case Action.INVESTIGATE:
            command = Span("repeat the nightly with --investigate")
            if to_do.command:
                command = Span(to_do.command, "code")
            return [action, ": ", command, f" ({to_do.reason or _NEVER})"]
        case Action.CLOSE:
            what = f": passes since {to_do.since}; "
            return [action, what, Span("triage expect update", "code")]
        case Action.LOOK:
            return [action, ": flaky; ", Span(to_do.command or "", "code")]
