"""`triage evidence`: export and import cached results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.text import Text

from triage.cli.context import open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.model.errors import BadInput
from triage.report.elements import plural
from triage.report.housekeeping import ExportShape, HousekeepingReport, ImportedFileShape, ImportShape
from triage.report.registry import write_report
from triage.toolchains.home import disk_errors

app = typer.Typer(no_args_is_help=True, help="Export or import cached results.")


@app.command("export")
@command
def export(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="File to write (default: stdout).")] = None,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Write every cached result as one line of JSON.

    With a FILE, the answer on stdout is the number of results. Without one, the results are the answer: JSON lines, or one
    JSON document with `--format json`.
    """
    with open_runner(context.obj, ()) as runner:
        lines = runner.evidence.export()
        if file is None:
            count = _write_document(lines) if output == "json" else _write_lines(lines, sys.stdout)
            print_stderr(plural(count, "result"))
            return Exit.OK
        with disk_errors(f"write {file}"), file.open("w", encoding="utf-8") as sink:
            count = _write_lines(lines, sink)
    written = Text(f"{plural(count, 'result')} written to {file}")
    write_report(HousekeepingReport(ExportShape(str(file), count), [written]), output)
    return Exit.OK


@app.command("import")
@command
def import_(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that `export` wrote.")],
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Add the results of another machine to the cache. Results that are cached already are skipped."""
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise BadInput(f"there is no file {', '.join(map(str, missing))}")
    counts: list[ImportedFileShape] = []
    with open_runner(context.obj, ()) as runner:
        for path in files:
            with path.open(encoding="utf-8", errors="replace") as lines:
                added, known = runner.evidence.load(lines, str(path))
            counts.append(ImportedFileShape(str(path), added, known))
    values = ImportShape(sum(count.added for count in counts), sum(count.known for count in counts), counts)
    text = Text(f"{values.added} added, {values.known} known already")
    write_report(HousekeepingReport(values, [text]), output)
    return Exit.OK


def _write_lines(lines: Iterator[str], sink: TextIO) -> int:
    count = 0
    for line in lines:
        sink.write(line + "\n")
        count += 1
    return count


def _write_document(lines: Iterator[str]) -> int:
    """Write one JSON document to stdout, line by line because there may be many results."""
    count = 0
    sys.stdout.write('{"results": [')
    for line in lines:
        sys.stdout.write((",\n" if count else "\n") + line)
        count += 1
    sys.stdout.write(f'\n], "count": {count}}}\n')
    return count
