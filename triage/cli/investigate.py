"""Set up the investigation of a nightly from its command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from triage.cli.context import failure_names
from triage.model.case import Case
from triage.nightly.investigation import Investigation
from triage.nightly.run import NightRun
from triage.nightly.steps import STEPS as STEPS
from triage.nightly.steps import InvestigationSetting
from triage.report.attribution import write_attribution
from triage.report.reproducer import write_reproducer


def investigation(
    run: NightRun,
    out: Path,
    seconds: float | None,
    steps: Sequence[str],
    *,
    suite: tuple[Sequence[Path], Sequence[Path] | None],
    repo: Path | None,
    project: Path | None,
) -> Investigation:
    """Return the investigation of a night. seconds: its budget; suite: the paths of the command and its configs of suites."""

    def words(case: Case) -> list[str]:
        paths, configs = suite
        if configs:
            options = [word for config in configs for word in ("--suite-config", str(config))]
            program = case.input.path.absolute()
            own = next((path for path in paths if program.is_relative_to(path.absolute())), paths[0])
            return [str(own), *options, "--case", case.name]
        source = case.source.absolute()
        path = source.relative_to(Path.cwd()) if source.is_relative_to(Path.cwd()) else source
        return [str(path), *(["--case", case.name] if case.name != case.recipe else [])]

    again = shlex.join(["triage", *sys.argv[1:]])
    setting = InvestigationSetting(
        run,
        out,
        words,
        again,
        write_reproducer=write_reproducer,
        write_page=write_attribution,
        repo=repo,
        project_file=project,
        failure_names=frozenset(failure_names()),
    )
    return Investigation(setting, seconds, steps)
