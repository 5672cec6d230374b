"""The report of a dry run: the probes that a command would make, and what is known of them already."""

from __future__ import annotations

from itertools import groupby

from triage.execution.results import Forecast
from triage.report.document import Block, Document, Facts, Paragraph, Span
from triage.report.elements import plural


def forecast_document(forecast: Forecast) -> Document:
    """Show for each case which toolchains are known and which are not, and the number of compiles."""
    blocks: list[Block] = []
    for case, group in groupby(forecast.probes, key=lambda probe: probe.case):
        toolchains: dict[str, list[str]] = {}
        for probe in group:
            state = probe.known or ("to compile" if probe.installed else "to install and compile")
            toolchains.setdefault(state, []).append(probe.toolchain)
        states = [(state, ", ".join(names)) for state, names in toolchains.items()]
        blocks += [Paragraph(Span(case, "strong")), Facts(states)]
    remark = f"; {forecast.remark}" if forecast.remark else ""
    counts = f"{plural(forecast.known, 'result')} cached, at most {plural(forecast.most, 'probe')} to make"
    return Document("What would be compiled", [*blocks, Paragraph(f"{counts}{remark}; nothing was compiled")])
