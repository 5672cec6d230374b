"""`triage replay`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import check_compilers, failure_names, open_runner, select_families
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import FreshOption, JobsOption, format_option, rev_option
from triage.reduce.replay import Replay, Replays, open_reproducers
from triage.reduce.replay import replay as replay_all
from triage.report.formats import write_report
from triage.report.replay import replay_document


@command
def replay(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of reproducers, or of one reproducer.")],
    toolchain: Annotated[
        list[str] | None,
        rev_option("--toolchain", "-t", text="REV to compile with, repeatable (default: the recorded one and latest)."),
    ] = None,
    jobs: JobsOption = None,
    fresh: FreshOption = False,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Compile reproducers again and report whether each still fails in the same way.

    The result is that of the last version: `reproduces`, `fixed` (it compiles), `changed` (it fails in another way) or
    `untestable`. Exit 1 when the recorded version no longer fails as recorded.

    Among reproducers of several compilers, `triton:3.2.0` selects Triton; 3.2.0 alone selects IREE. Reproducers of a compiler
    without a REV are left out.

    - `triage replay reproducers/` uses the recorded version and the newest release

    - `triage replay reproducers/ -t nightly:latest` uses only the newest nightly
    """
    reproducers = open_reproducers(paths, failure_names())
    cases = [reproducer.case for reproducer in reproducers]
    check_compilers(cases)
    revs_of = {selection.family: selection.revs for selection in select_families(cases, toolchain)} if toolchain else None
    with open_runner(context.obj, cases, jobs, fresh=fresh) as runner:
        replays = replay_all(runner, reproducers, revs_of)
    write_report(output, Replays(replays), replay_document)
    return _exit_of(replays)


def _exit_of(replays: Sequence[Replay]) -> Exit:
    if any(replay.holds is False for replay in replays):
        return Exit.FOUND
    untested = [replay for replay in replays if not replay.tested]
    causes = [version.cause for replay in untested for version in replay.versions if version.cause]
    return exit_without_answer(causes) if untested else Exit.OK
