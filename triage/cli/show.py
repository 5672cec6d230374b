"""`triage show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli.completion import complete_case
from triage.cli.exit_codes import Exit, command
from triage.cli.nights import open_nights
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.execution.cache import Evidence
from triage.model.errors import BadInput
from triage.nights.failures import investigations
from triage.nights.history import NightsHistory, load_history
from triage.nights.record import status_in
from triage.report.case_facts import log_of, records_of, states_of, stored_log
from triage.report.case_history import CaseHistoryReport, CaseRunShape, KnownCaseShape
from triage.report.night_record import cluster_id
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
    evidence = Evidence(open_home() / "evidence.db", print_stderr)
    try:
        name = _name(history, case)
        records = records_of(evidence, name)
    finally:
        evidence.close()
    row = history.numbers.get(name)
    if row is None and not records:
        raise BadInput(f"nothing is known of a case {name!r}; `triage run` or `triage nightly` tests it")
    runs = [] if row is None else list(_runs(history, row))
    clusters = {run.cluster for run in runs}
    failing = next((run.toolchain.name for run in runs if run.signature), "")
    known = investigations(store, history.nights) if any(clusters) else {}
    shape = KnownCaseShape(
        case=name,
        suite="" if row is None else history.suite_of(row),
        facts={} if row is None else dict(history.facts[row]),
        runs=runs,
        states=states_of(records, history, row),
        flaky_changes=history.flaky.get(name, 0),
        investigations={key: values for key, values in known.items() if key in clusters},
        log=log_of(records, failing) or (None if row is None else stored_log(store, history, row)),
    )
    write_report(CaseHistoryReport(shape), output)
    return Exit.OK


def _name(history: NightsHistory, text: str) -> str:
    """Return the case that a text names. Raises BadInput for a part of several names."""
    if text in history.numbers:
        return text
    names = [name for name in history.cases if text in name]
    if len(names) > 1:
        shown = ", ".join(names[:10])
        raise BadInput(f"{len(names)} cases have {text!r} in their name; choose from {shown}{', ...' * (len(names) > 10)}")
    return names[0] if names else text


def _runs(history: NightsHistory, row: int) -> Iterator[CaseRunShape]:
    for run in reversed(history.runs[row]):
        status, flaky = status_in(run.code)
        kind = history.kind_of(row, run.last)
        first, last = history.nights[run.first], history.nights[run.last]
        signature = kind.get("signature")
        yield CaseRunShape(
            status=status.value,
            flaky=flaky,
            first=first.at,
            last=last.at,
            nights=int((history.states[row, run.first : run.last + 1] > 0).sum()),
            toolchain=first.toolchain,
            headline=kind.get("headline"),
            signature=signature,
            cluster=cluster_id(signature) if signature else None,
        )
