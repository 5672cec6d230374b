"""`triage classify`: what failed in a log. It compiles nothing and imports little."""

from __future__ import annotations

import sys
from pathlib import Path

from triage.classify import ClassifiedLogs, classify_log, load_rules
from triage.cli.command import AppContext, Reply, argument, command, option, report
from triage.report.tables import classify_document


@command
def classify(
    app: AppContext,
    logs: list[Path] | None = argument("LOG", "Log files; - is stdin (default: -)."),
    rules: list[Path] | None = option(
        "FILE", "Read your own failure classes from this YAML file; repeatable."
    ),
) -> Reply:
    """Name the failures in compiler output or a CI log, the root cause first.

    Exit 1 when there is a failure, 0 when there is none, 3 when something failed that
    no rule knows: then the likeliest lines are shown. Time stamps, colours and prefixes
    of CI systems, loggers and containers are ignored.

    - `triage classify build.log`

    - `iree-compile model.mlir -o model.vmfb 2>&1 | triage classify`
    """
    rule_set = load_rules(rules or [])
    classified = []
    progress = app.progress()
    for path in logs or [Path("-")]:
        log = sys.stdin.buffer if str(path) == "-" else path
        with progress.task(f"classify {path}"):
            classified.append(classify_log(log, rule_set))
    return report(ClassifiedLogs(classified), classify_document)
