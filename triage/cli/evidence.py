"""`triage evidence`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption
from triage.cli.screen import Format, print_stderr, show_json
from triage.model.errors import BadInput

app = typer.Typer(no_args_is_help=True, help="What was ever compiled: take it to another machine, bring it from one.")


@app.command("export")
@command
def export(
    context: typer.Context,
    to: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to; stdout without one.")] = None,
    output: FormatOption = Format.JSON,
) -> Exit:
    """Write every result as JSON lines."""
    del output  # JSON lines are the format
    count = 0
    with open_runner(context.obj, ()) as bench:
        sink = to.open("w", encoding="utf-8") if to else sys.stdout
        for line in bench.evidence.export():
            sink.write(line + "\n")
            count += 1
        if to:
            sink.close()
    print_stderr(f"{count} results")
    return Exit.OK


@app.command("import")
@command
def import_(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that `export` wrote.")],
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Take in results of another machine. What is known already is not added twice."""
    added = known = 0
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise BadInput(f"there is no file {', '.join(map(str, missing))}")
    with open_runner(context.obj, ()) as bench:
        for path in files:
            with path.open(encoding="utf-8", errors="replace") as lines:
                more, old = bench.evidence.load(lines, str(path))
            added, known = added + more, known + old
    if output is Format.JSON:
        show_json({"added": added, "known": known})
    else:
        typer.echo(f"{added} added, {known} known already")
    return Exit.OK
