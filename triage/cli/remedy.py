"""`triage remedy`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import (
    SECONDS,
    CaseOption,
    ExecutorOption,
    JobsOption,
    RecipePath,
    SlowerOption,
    SuiteOption,
    format_option,
    rev_option,
    slower_metric,
)
from triage.execution.task import ProbeJob
from triage.model.errors import BadInput
from triage.report.formats import write_report
from triage.report.remedy import planned_lines, remedy_document


@command
def remedy(
    context: typer.Context,
    recipe: RecipePath,
    toolchain: Annotated[str, rev_option("--toolchain", "-t", text="REV on which the case fails.")],
    good: Annotated[
        str | None,
        rev_option(text="REV that compiles it. Options that it lacks are tried first, and remedies are checked on it."),
    ] = None,
    case: CaseOption = None,
    suite_config: SuiteOption = None,
    budget: Annotated[int, typer.Option(min=1, help="Maximum number of candidates to try.")] = 100,
    every: Annotated[
        bool, typer.Option("--all", help="Try all candidates within the budget (default: end when a flag for users works).")
    ] = False,
    metric: SlowerOption = None,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the candidates; only the failing case is compiled.")
    ] = False,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Find flags or input changes that make a failing case compile.

    Known remedies of the failure class are tried first, then the compiler's own options near the failure, alone and in pairs.
    Flags that are meant for the compiler's own tests come last and do not end the search. All remedies that were
    found are reported, the best first, and checked on --good and on the newest release. Exit 3 if none is found.

    With --metric, flags are found that bring back at least half of the time lost since --good. Each candidate is measured in
    turn with both releases, a remedy twice, and its results are compared where the recipe expects some.

    - `triage remedy recipes/cuda-matmul-f32.yaml -t 3.3.0 --good 3.0.0`

    - `triage remedy recipes/row-sum.yaml -t 3.11.0 --good 3.10.0 --metric run_seconds --budget 30`
    """
    from triage.bisect.slower import judged_by_time
    from triage.remedy.result import Remedies
    from triage.remedy.workflow import RemedyRequest, find_remedies, planned_changes

    context.obj.executor = executor
    cases = load_cases([recipe], suite_config)
    chosen = one_case(cases, case)
    time_metric, function = slower_metric(metric)
    if metric and good is None:
        raise BadInput("--metric needs --good: the toolchain on which the case takes less time")
    with open_runner(context.obj, cases, jobs) as runner, ExitStack() as opened:
        bad = runner.registry.resolve(toolchain, chosen.compiler)
        reference = runner.registry.resolve(good, chosen.compiler) if good else None
        request = RemedyRequest(chosen, bad, reference, budget, cases, exhaustive=every)
        if time_metric and reference:
            ends = (reference, bad)
            judging = opened.enter_context(judged_by_time(runner, chosen, ends, time_metric, function, SECONDS))
            request = replace(request, untimed=runner)
            runner = judging
        if dry_run and not isinstance(planned := planned_changes(runner, request), Remedies):
            todo = [ProbeJob(change.applied(chosen), bad) for change in planned]
            for line in planned_lines(planned, runner.command_lines(todo)):
                typer.echo(line)
            return Exit.OK
        found = find_remedies(runner, request)
    write_report(output, found, remedy_document)
    if found.failure is None:
        return exit_without_answer([found.cause])
    return Exit.OK if found.remedies else Exit.INCONCLUSIVE
