"""`triage classify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from triage.classify import ClassifiedLog, ClassifiedLogs, classify_log, load_rules
from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.cli.screen import AppContext, print_stderr
from triage.model.progress import ProgressTask
from triage.report.classify import classify_document
from triage.report.formats import write_report

_MIB = 1 << 20


@command
def classify(
    context: typer.Context,
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG]...", help="Log files, also .gz (default: standard input).")
    ] = None,
    rules: Annotated[
        list[Path] | None,
        typer.Option("--rules", metavar="FILE", help="YAML file with failure classes of your own; repeatable."),
    ] = None,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Name the failures in compiler output or a CI log, the root cause first.

    Exit 1 when there is a failure, 0 when there is none. Time stamps and colours of CI logs are ignored.

    - `triage classify build.log`

    - `iree-compile model.mlir -o model.vmfb 2>&1 | triage classify`
    """
    app: AppContext = context.obj
    known = load_rules(rules or [])
    found: list[ClassifiedLog] = []
    with app.progress() as progress:
        size = sum(path.stat().st_size for path in logs or [] if path.is_file())
        task = progress.task("read", total=size / _MIB or None)
        if not logs:
            if sys.stdin.isatty():
                print_stderr("reading a log from standard input; end it with Ctrl-D")
            found.append(ClassifiedLog("-", classify_log(sys.stdin.buffer, known, _Advance(task))))
        found += [ClassifiedLog(str(path), classify_log(path, known, _Advance(task))) for path in logs or []]
    write_report(output, ClassifiedLogs(found), classify_document)
    return Exit.FOUND if any(log.failures for log in found) else Exit.OK


class _Advance:
    """Advances a task by what was read of one log since the last call, in MiB."""

    def __init__(self, task: ProgressTask) -> None:
        self._task, self._read = task, 0

    def __call__(self, total: int) -> None:
        self._task.advance((total - self._read) / _MIB)
        self._read = total
