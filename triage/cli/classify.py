"""`triage classify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from triage.classify import classify_log, load_rules, open_log
from triage.cli.exit_codes import Exit, guarded
from triage.cli.options import FormatOption
from triage.cli.screen import Format, open_progress, progress_of, show, show_json, tell
from triage.model.outcome import Failure
from triage.report.shapes import classify_json
from triage.report.terminal import log_blocks


@guarded
def classify(
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG]...", help="Log files, .gz too; stdin without any.")
    ] = None,
    rules: Annotated[list[Path] | None, typer.Option("--rules", help="A YAML file of your own failure classes.")] = None,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Name the failures in compiler output or a CI log, the root cause first.

    Exit 1 when there is a failure, 0 when there is none. Time stamps and colours of CI logs are no hindrance.

    - `triage classify build.log`

    - `iree-compile model.mlir -o model.vmfb 2>&1 | triage classify`
    """
    known = load_rules(rules or [])
    found: dict[str, tuple[Failure, ...]] = {}
    shown = open_progress()
    task = progress_of(shown).task("read", total=sum(_size(path) for path in logs or []) / (1 << 20) or None)
    try:
        sources: list[Path | None] = [*logs] if logs else [None]
        for path in sources:
            done = 0

            def advance(total: int) -> None:
                nonlocal done
                task.advance((total - done) / (1 << 20))
                done = total

            if path is None:
                if sys.stdin.isatty():
                    tell("reading a log from standard input; Ctrl-D ends it")
                found["-"] = classify_log(sys.stdin.buffer, known, advance)
            else:
                with open_log(path) as stream:
                    found[str(path)] = classify_log(stream, known, advance)
    finally:
        if shown:
            shown.close()
    if output is Format.JSON:
        show_json(classify_json(found))
    else:
        show(log_blocks(found))
    return Exit.FOUND if any(found.values()) else Exit.OK


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
