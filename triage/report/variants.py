"""A grid of variants on a terminal and as JSON. Renderables only; nothing is printed."""

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
    """The answer of `triage variants`."""
    return {
        "depends_on": list(found.matters),
        "keys": list(found.keys),
        "sentence": found.sentence,
        "failure": failure_json(found.failure),
        "results": [{**probe_json(probe), "values": dict(probe.case.matrix)} for probe in found.probes],
    }


def variants_blocks(found: Variants) -> Iterable[RenderableType]:
    """A row for each case with the value of each key, then what the failure depends on."""
    table = Table.grid(padding=(0, 2))
    for key in found.keys:
        table.add_column(no_wrap=True, header=key)
    table.add_column(overflow="fold")
    table.add_row(*(Text(key, style="bold" if key in found.matters else "dim") for key in found.keys), "")
    for probe in found.probes:
        values = dict(probe.case.matrix)
        table.add_row(*(values.get(key, "") for key in found.keys), _said(probe))
    yield table
    yield Text(f"\n{found.sentence}", style="bold")
    if found.failure:
        yield Text(f"{found.failure.failure_class}: {headline_text(found.failure)}")


def _said(probe: Probe) -> Text:
    match probe.outcome:
        case Compiled():
            return Text("compiles", style="green")
        case Failed(failure):
            return Text(f"{failure.failure_class}: {headline_text(failure, 100)}", style="red")
        case Untestable(reason=reason):
            return Text(f"untestable: {reason}", style="yellow")
