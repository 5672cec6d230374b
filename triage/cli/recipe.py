"""`triage recipe`."""

from __future__ import annotations

import typer
from rich.table import Table

from triage.cli.bench import load_cases
from triage.cli.endings import Exit, guarded
from triage.cli.options import FormatOption, RecipePaths
from triage.cli.recipe_new import new
from triage.cli.screen import Format, show, show_json
from triage.model.errors import BadFiles
from triage.recipes import recipe_schema

app = typer.Typer(no_args_is_help=True, help="Recipe files: write, check, list.")


@app.command()
@guarded
def validate(paths: RecipePaths, output: FormatOption = Format.TEXT) -> Exit:
    """Check recipes without running anything: every mistake with file:line:column and what to write instead."""
    try:
        cases = load_cases(paths)
    except BadFiles as error:
        if output is Format.JSON:
            found = [{"path": p.path, "line": p.line, "column": p.column, "message": p.message} for p in error.problems]
            show_json({"cases": 0, "problems": found})
            return Exit.USAGE
        raise
    if output is Format.JSON:
        show_json({"cases": len(cases), "problems": []})
    else:
        typer.echo(f"{len({case.source for case in cases})} recipes, {len(cases)} cases, no problems")
    return Exit.OK


@app.command()
@guarded
def schema(output: FormatOption = Format.JSON) -> Exit:
    """The JSON Schema of recipe files, for editors."""
    del output  # a schema is JSON in any case
    show_json(recipe_schema())
    return Exit.OK


@app.command("list")
@guarded
def list_(paths: RecipePaths, output: FormatOption = Format.TEXT) -> Exit:
    """The cases that recipes make."""
    cases = load_cases(paths)
    if output is Format.JSON:
        rows = [
            {
                "recipe": c.recipe,
                "case": c.name,
                "summary": c.summary,
                "backend": c.target.backend,
                "chip": c.target.chip,
                "phase": c.phase,
            }
            for c in cases
        ]
        show_json({"cases": rows})
        return Exit.OK
    table = Table("case", "target", "summary", box=None)
    for case in cases:
        target = ":".join(part for part in (case.target.backend, case.target.chip) if part)
        table.add_row(case.name, target + (f" x{case.target.devices}" if case.target.devices else ""), case.summary)
    show([table])
    return Exit.OK


app.command()(new)
