"""Report of `triage variants`: text and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.remedy.variants import Variants
from triage.report.elements import failure_text, outcome_text
from triage.report.registry import Report
from triage.report.shapes import FailureShape, ProbeShape, Shape, optional_failure, probe_shape


@dataclass(frozen=True)
class VariantShape(ProbeShape):
    """The result of one variant. `values`: key -> value."""

    values: dict[str, str]


@dataclass(frozen=True)
class VariantsShape(Shape):
    """JSON of `triage variants`. `depends_on`: the keys that decide whether a variant fails; `keys`: all that vary."""

    depends_on: list[str]
    keys: list[str]
    sentence: str
    failure: FailureShape | None
    results: list[VariantShape]


@dataclass(frozen=True, slots=True)
class VariantsReport(Report):
    """The compared variants of a case."""

    found: Variants

    def shape(self) -> VariantsShape:
        found = self.found
        results = []
        for probe in found.probes:
            shape = probe_shape(probe)
            own = {field.name: getattr(shape, field.name) for field in fields(shape)}
            results.append(VariantShape(**own, values=dict(probe.case.matrix)))
        return VariantsShape(list(found.deciding), list(found.keys), found.sentence, optional_failure(found.failure), results)

    def blocks(self) -> Iterable[RenderableType]:
        """Show a row for each variant, then what the failure depends on."""
        found = self.found
        table = Table.grid(padding=(0, 2))
        for key in found.keys:
            table.add_column(no_wrap=True, header=key)
        table.add_column(overflow="fold")
        table.add_row(*(Text(key, style="bold" if key in found.deciding else "dim") for key in found.keys), "")
        for probe in found.probes:
            values = dict(probe.case.matrix)
            table.add_row(*(values.get(key, "") for key in found.keys), outcome_text(probe.outcome, 100))
        yield table
        yield Text(f"\n{found.sentence}", style="bold")
        if found.failure:
            yield Text(failure_text(found.failure))
