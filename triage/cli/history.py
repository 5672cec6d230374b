"""`triage history`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from triage.bisect.history import History, histories
from triage.cli.context import cases_named, load_cases, only_share, open_bench
from triage.cli.exit_codes import Exit, exit_of, guarded
from triage.cli.options import FormatOption, FreshOption, JobsOption, RecipePaths
from triage.cli.screen import Format, console, show, show_json
from triage.report.shapes import history_json
from triage.report.timeline import history_blocks


@guarded
def history(
    paths: RecipePaths,
    since: Annotated[str | None, typer.Option(help="The oldest release. Default: the first there is.")] = None,
    until: Annotated[str | None, typer.Option(help="The newest release. Default: the newest there is.")] = None,
    every: Annotated[bool, typer.Option("--every", help="Compile on every release; nothing can be missed.")] = False,
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Without --every: the part of all compiles that may be spent.")
    ] = 0.5,
    case: Annotated[str | None, typer.Option(help="Only cases whose name contains this.")] = None,
    jobs: JobsOption = None,
    fresh: FreshOption = False,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Find every change of each case's state across the releases.

    Without --every, releases between two that agree are mostly not compiled: a short window of failures can be
    missed there. Places where other cases change, and those a recipe's `expect` names, are looked at first.
    """
    cases = cases_named(load_cases(paths), case)
    with open_bench(cases, jobs, fresh=fresh) as bench:
        bounds = [rev for rev in (since, until) if rev]
        bounded = [only_share(cases, bounds, "a history").family] if bounds else []
        found: list[History] = []
        grids: list[tuple[Sequence[History], list[str]]] = []
        for family in bounded or dict.fromkeys(one.compiler for one in cases):
            places = bench.shed.between(family, since, until)
            ours = [one for one in cases if one.compiler == family]
            some = histories(bench, ours, places, share=1.0 if every else share, fresh=fresh)
            found += some
            grids.append((some, [place.revision.name for place in places]))
    if output is Format.JSON:
        show_json(history_json(found))
    else:
        for histories_of_one, names in grids:
            show(history_blocks(histories_of_one, names, console().width))
    code = exit_of([probe for one in found for probe in one.probes])
    return Exit.OK if code in (Exit.FOUND, Exit.INCONCLUSIVE) else code
