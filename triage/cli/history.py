"""`triage history`."""

from __future__ import annotations

from typing import Annotated

from triage.bisect.history import Histories, History, histories
from triage.cli.context import select_one_family, show_forecast
from triage.cli.exit_codes import Exit, command, exit_for_probes
from triage.cli.options import Compiling, ForecastOption, FormatOption, FreshOption, SeveralCases, flag, rev_option
from triage.execution.task import ProbeJob
from triage.report.bisection import history_document
from triage.report.formats import write_report

_SHARE = 0.5  # of all compiles, the most that a history spends


@command
def history(
    chosen: SeveralCases,
    compiling: Compiling,
    since: Annotated[str | None, rev_option("Oldest release (default: the first).")] = None,
    until: Annotated[str | None, rev_option("Newest release (default: the last).")] = None,
    every: Annotated[bool, flag("Compile on every release, so that no change is missed.", "--every")] = False,
    fresh: FreshOption = False,
    dry_run: ForecastOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Find every change of each case's status across releases.

    Without --every, most releases between two with the same status are not compiled, so a short window of failures can
    be missed. Releases where other cases change and those that a recipe's `expect` names are compiled first.
    """
    cases = chosen.load()
    found: list[History] = []
    planned: list[ProbeJob] = []
    with compiling.open(*cases, fresh=fresh) as runner:
        bounds = [rev for rev in (since, until) if rev]
        bounded = [select_one_family(cases, bounds, "history").family] if bounds else []
        for family in bounded or dict.fromkeys(case.compiler for case in cases):
            refs = runner.registry.between(family, since, until)
            family_cases = [case for case in cases if case.compiler == family]
            if dry_run:
                planned += [ProbeJob(case, ref, fresh) for case in family_cases for ref in refs]
                continue
            found += histories(runner, family_cases, refs, share=1.0 if every else _SHARE)
        if dry_run:
            what = None if every else "most releases between two with the same status are left out"
            return show_forecast(output, runner, planned, what)
    write_report(output, Histories(found), history_document)
    code = exit_for_probes(probe for history in found for probe in history.probes)
    return Exit.OK if code in (Exit.FOUND, Exit.INCONCLUSIVE) else code
