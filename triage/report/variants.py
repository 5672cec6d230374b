"""Variants of a case on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.remedy.variants import Variants
from triage.report.elements import headline_text
from triage.report.shapes import Json, failure_json, probe_json


def variants_json(found: Variants) -> Json:
    """Return the JSON answer of `triage variants`."""
    return {
        "depends_on": list(found.deciding),
        "keys": list(found.keys),
        "sentence": found.sentence,
        "failure": failure_json(found.failure),
        "results": [{**probe_json(probe), "values": dict(probe.case.matrix)} for probe in found.probes],
    }


def variants_blocks(found: Variants) -> Iterable[RenderableType]:
    """Yield a table with a row for each case, then what the failure depends on."""
    table = Table.grid(padding=(0, 2))
    for key in found.keys:
        table.add_column(no_wrap=True, header=key)
    table.add_column(overflow="fold")
    table.add_row(*(Text(key, style="bold" if key in found.deciding else "dim") for key in found.keys), "")
    for probe in found.probes:
        values = dict(probe.case.matrix)
        table.add_row(*(values.get(key, "") for key in found.keys), _outcome_text(probe))
    yield table
    yield Text(f"\n{found.sentence}", style="bold")
    if found.failure:
        yield Text(f"{found.failure.failure_class}: {headline_text(found.failure)}")


def _outcome_text(probe: Probe) -> Text:
    match probe.outcome:
        case Compiled():
            return Text("compiles", style="green")
        case Failed(failure):
            return Text(f"{failure.failure_class}: {headline_text(failure, 100)}", style="red")
        case Untestable(reason=reason):
            return Text(f"untestable: {reason}", style="yellow")
