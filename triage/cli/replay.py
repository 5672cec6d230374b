"""`triage replay`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import check_compilers, expectable, open_bench
from triage.cli.exit_codes import Exit, guarded
from triage.cli.options import FormatOption, FreshOption, JobsOption
from triage.cli.screen import Format, show, show_json
from triage.model.outcome import Cause, Untestable
from triage.reduce.replay import Replay, open_reproducers
from triage.reduce.replay import replay as replay_all
from triage.report.replay import replay_blocks, replay_json


@guarded
def replay(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of reproducers, or one reproducer's.")],
    toolchain: Annotated[
        list[str] | None,
        typer.Option("--toolchain", "-t", help="REV to compile with; repeat for several. Default: the recorded one, latest."),
    ] = None,
    jobs: JobsOption = None,
    fresh: FreshOption = False,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Compile reproducers again: does each still fail in the same way, and on which versions.

    `reproduces`, `fixed` (it compiles), `changed` (it fails otherwise) or `untestable` is what the last version makes of
    it. Exit 1 when one no longer fails as recorded on the version it was recorded on; a fix in a newer one is news.

    - `triage replay reproducers/` asks the recorded version and the newest release

    - `triage replay reproducers/ -t nightly:latest` asks that one alone
    """
    reproducers = open_reproducers(paths, expectable())
    cases = [one.case for one in reproducers]
    check_compilers(cases)
    with open_bench(cases, jobs, fresh=fresh) as bench:
        replays = replay_all(bench, reproducers, toolchain or [], fresh=fresh)
    if output is Format.JSON:
        show_json(replay_json(replays))
    else:
        show(replay_blocks(replays))
    return _exit_of(replays)


def _exit_of(replays: Sequence[Replay]) -> Exit:
    if any(one.holds is False for one in replays):
        return Exit.FOUND
    unsure = [one for one in replays if not one.tested]
    outcomes = [probe.outcome for one in unsure for probe in one.probes]
    if any(isinstance(told, Untestable) and told.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN) for told in outcomes):
        return Exit.ENVIRONMENT
    return Exit.INCONCLUSIVE if unsure else Exit.OK
