"""`triage show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli.completion import complete_case
from triage.cli.exit_codes import Exit, command
from triage.cli.nights import open_nights
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.execution.cache import ResultCache
from triage.model.errors import BadInput
from triage.nightly.failures import known_failures
from triage.nightly.history import NightsHistory, load_history
from triage.nightly.result import cluster_id
from triage.nightly.store import NightStore
from triage.report.case_facts import log_of, records_of, states_of, stored_log
from triage.report.case_history import CaseHistoryReport, CaseRunShape, KnownCaseShape
from triage.report.registry import write_report
from triage.toolchains.home import open_home

if TYPE_CHECKING:
    from collections.abc import Iterator


@command
def show(
    case: Annotated[str, typer.Argument(metavar="CASE", help="Name of a case, or a part of it.", autocompletion=complete_case)],
    output: Annotated[str, format_option(CaseHistoryReport)] = "text",
) -> Exit:
    """Show everything known of a case: its nights, its state on every toolchain, culprit, reproducer, remedies, output."""
    store = open_nights()
    history = load_history(store)
    evidence = ResultCache(open_home() / "evidence.db", print_stderr)
    try:
        name = _name(history, case)
        records = records_of(evidence, name)
    finally:
        evidence.close()
    rows = [row for row, (_, own) in enumerate(history.rows) if own == name]
    if not rows and not records:
        raise BadInput(f"nothing is known of a case {name!r}; `triage run` or `triage nightly` tests it")
    runs = [run for row in rows for run in _runs(history, row)]
    failing = next((run.toolchain.name for run in runs if run.signature), "")
    tracks = [history.rows[row][0] for row in rows]
    known = known_failures(store, history)
    own = [
        known[key]
        for key in dict.fromkeys((track.compiler, run.signature or "") for track in tracks for run in runs)
        if key in known
    ]
    logs = (stored_log(store, history, row) for row in rows)
    shape = KnownCaseShape(
        case=name,
        suite=tracks[0].suite if tracks else "",
        facts=_facts(store, history, name),
        runs=runs,
        states=states_of(records, history, rows),
        flaky_changes=sum(history.flaky.get(row, 0) for row in rows),
        failures=[each.cluster for each in own],
        tracked={each.cluster.id: each.tracker for each in own if each.tracker},
        log=log_of(records, failing) or next(filter(None, logs), None),
    )
    write_report(CaseHistoryReport(shape), output)
    return Exit.OK


def _facts(store: NightStore, history: NightsHistory, name: str) -> dict[str, object]:
    """Return what the newest night says about a case itself."""
    rows = [row for row, (_, own) in enumerate(history.rows) if own == name]
    if not rows:
        return {}
    night = store.night(history.numbers[max(history.runs[row][-1].last for row in rows)])
    result = next(case for case in night.cases if case.case == name) if night else None
    if result is None:
        return {}
    target = result.target
    return {
        "recipe": result.recipe,
        "suite": result.suite,
        "compiler": result.compiler,
        "summary": result.summary,
        "backend": target.backend if target else None,
        "chip": target.chip if target else None,
    }


def _name(history: NightsHistory, text: str) -> str:
    """Return the case that a text names. Raises BadInput for a part of several names."""
    names = list(dict.fromkeys(case for _, case in history.rows))
    if text in names:
        return text
    fitting = [name for name in names if text in name]
    if len(fitting) > 1:
        shown = ", ".join(fitting[:10])
        raise BadInput(f"{len(fitting)} cases have {text!r} in their name; choose from {shown}{', ...' * (len(fitting) > 10)}")
    return fitting[0] if fitting else text


def _runs(history: NightsHistory, row: int) -> Iterator[CaseRunShape]:
    for run in reversed(history.runs[row]):
        kind = history.kind_of(row, run.last)
        first, last = history.nights[run.first], history.nights[run.last]
        yield CaseRunShape(
            status=run.status.value,
            flaky=run.flaky,
            first=first.started,
            last=last.started,
            nights=run.count,
            toolchain=first.toolchain,
            track=history.rows[row][0].name,
            headline=kind.headline if kind else None,
            signature=kind.signature if kind else None,
            cluster=cluster_id(kind.signature) if kind else None,
        )
