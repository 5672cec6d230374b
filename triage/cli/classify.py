"""`triage classify`: what failed in a log. It compiles nothing and imports little."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from triage.classify import (
    ClassifiedLog,
    ClassifiedLogs,
    LogStatus,
    RuleSet,
    classify_log,
    load_rules,
)
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption, argument, option
from triage.cli.screen import AppContext
from triage.model.progress import Progress
from triage.report.formats import write_report
from triage.report.tables import classify_document


@command
def classify(
    app: AppContext,
    logs: Annotated[
        list[Path] | None,
        argument("LOG", "Log files, also .gz; - is stdin (default: -)."),
    ] = None,
    rules: Annotated[
        list[Path] | None,
        option(
            "FILE", "Read your own failure classes from this YAML file; repeatable."
        ),
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """Name the failures in compiler output or a CI log, the root cause first.

    Exit 1 when there is a failure, 0 when there is none, 3 when something failed that
    no rule knows: then the likeliest lines are shown. Time stamps, colours and prefixes
    of CI systems, loggers and containers are ignored.

    - `triage classify build.log`

    - `iree-compile model.mlir -o model.vmfb 2>&1 | triage classify`
    """
    known = load_rules(rules or [])
    with app.progress() as progress:
        found = classified(progress, logs or [Path("-")], known)
    write_report(output, ClassifiedLogs(found), classify_document)
    statuses = {log.status for log in found}
    if LogStatus.FAILED in statuses:
        return Exit.FOUND
    if LogStatus.UNRECOGNISED in statuses:
        return Exit.INCONCLUSIVE
    return Exit.OK


def classified(
    progress: Progress, logs: Sequence[Path], rules: RuleSet
) -> list[ClassifiedLog]:
    """Classify logs; - is standard input."""
    found = []
    for path in logs:
        log = sys.stdin.buffer if str(path) == "-" else path
        with progress.task(f"classify {path}"):
            found.append(classify_log(log, rules))
    return found
