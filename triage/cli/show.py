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
from triage.report.case_history import known_case_document
from triage.report.formats import write_report
from triage.toolchains.home import open_home

if TYPE_CHECKING:
    from triage.nightly.history import NightsHistory


@command
def show(
    case: Annotated[str, typer.Argument(metavar="CASE", help="Name of a case, or a part of it.", autocompletion=complete_case)],
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Show everything known of a case: its nights, its state on every toolchain, culprit, reproducer, remedies, output."""
    from triage.nightly.history import load_history
    from triage.nightly.known_case import known_case

    store = open_nights()
    history = load_history(store)
    evidence = ResultCache(open_home() / "evidence.db", print_stderr)
    try:
        result = known_case(_name(history, case), store, history, evidence)
    finally:
        evidence.close()
    write_report(output, result, known_case_document)
    return Exit.OK


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
