"""`triage classify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from triage.classify import ClassifiedLog, ClassifiedLogs, classify_log, load_rules
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption, argument, option
from triage.cli.screen import AppContext, print_stderr
from triage.report.formats import write_report
from triage.report.tables import classify_document

_MIB = 1 << 20


@command
def classify(
    app: AppContext,
    logs: Annotated[list[Path] | None, argument("[LOG]...", "Log files, also .gz; - is stdin (default: -).")] = None,
    rules: Annotated[
        list[Path] | None,
        option("YAML file with failure classes of your own; repeatable.", "--rules", metavar="FILE"),
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """Name the failures in compiler output or a CI log, the root cause first.

    Exit 1 when there is a failure, 0 when there is none. Time stamps and colours of CI logs are ignored.

    - `triage classify build.log`

    - `iree-compile model.mlir -o model.vmfb 2>&1 | triage classify`
    """
    known = load_rules(rules or [])
    found: list[ClassifiedLog] = []
    with app.progress() as progress:
        size = sum(path.stat().st_size for path in logs or [] if path.is_file())
        task = progress.task("read", total=size / _MIB or None)
        done = 0  # bytes read of all logs

        def advance(total: int) -> None:
            nonlocal done
            task.advance((begin + total - done) / _MIB)
            done = begin + total

        for path in logs or [Path("-")]:
            begin, is_stdin = done, str(path) == "-"
            if is_stdin and sys.stdin.isatty():
                print_stderr("reading a log from standard input; end it with Ctrl-D")
            found.append(ClassifiedLog(str(path), classify_log(sys.stdin.buffer if is_stdin else path, known, advance)))
    write_report(output, ClassifiedLogs(found), classify_document)
    return Exit.FOUND if any(log.failures for log in found) else Exit.OK
