"""`triage lint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import cases_named, open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import CasesOption, argument, flag, format_option, option, rev_option
from triage.cli.screen import AppContext, print_stderr
from triage.lint.check import LintResult, cases_to_lint, lint_case, linter_of
from triage.model.errors import BadInput
from triage.report.formats import write_report
from triage.report.lint import lint_document, lint_sarif


@command
def lint(
    app: AppContext,
    paths: Annotated[
        list[Path],
        argument("INPUT|RECIPE...", "Programs (.mlir, .mlirbc, .onnx, a .py generator), recipes, or folders of recipes."),
    ],
    toolchain: Annotated[
        str | None,
        rev_option(
            "Toolchain that parses the program and measures solver iterations (default: installed, without measuring).",
            "--toolchain",
            "-t",
        ),
    ] = None,
    flags: Annotated[
        list[str] | None, option("Flag of the compiler in addition to the recipe's; repeatable.", "--flag")
    ] = None,
    case: CasesOption = None,
    graph: Annotated[
        bool, flag("Print devices and transfers as a Mermaid flowchart instead of the findings.", "--graph")
    ] = False,
    output: Annotated[str, format_option("sarif")] = "text",
) -> Exit:
    """Find mistakes in a program before compiling it: devices, affinities, chains, shapes, types.

    Exit 1 if there is an error. The comment `// triage: ignore` or `// triage: ignore[rule]` silences findings on its line;
    alone on a line, it silences those on the next line.

    - `triage lint model.mlir --flag=--iree-hal-target-device=hip[0]`

    - `triage lint recipes/sharded-for-loops.yaml -t 3.8.0`
    """
    cases = cases_named(cases_to_lint(paths, flags or (), print_stderr), case)
    answers, unreadable = [], []
    with open_runner(app, cases) as runner:
        for each in cases:
            try:
                answers.append(lint_case(runner, each, toolchain))
            except BadInput as error:  # reported at the end, after the findings of the other cases
                unreadable.append(str(error))
    if graph:
        typer.echo("".join(answer.graph for answer in answers), nl=False)
    elif answers or not unreadable:
        rules = dict.fromkeys(rule for each in cases for rule in linter_of(each).rules)
        write_report(output, LintResult(answers, list(rules)), lint_document, sarif=lint_sarif)
    if unreadable:
        raise BadInput("\n".join(unreadable))
    return Exit.FOUND if any(answer.has_errors for answer in answers) else Exit.OK
