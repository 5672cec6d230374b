"""`triage lint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import cases_named, load_cases, open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import CasesOption, argument, flag, format_option, option, rev_option
from triage.cli.screen import AppContext, print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, family_of, recipe_families
from triage.lint.check import LintResult, lint_case
from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.errors import BadInput
from triage.report.elements import below_here
from triage.report.formats import write_report
from triage.report.lint import lint_document, lint_sarif

RECIPES = (".yaml", ".yml")


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
    flag: Annotated[list[str] | None, option("Flag of the compiler in addition to the recipe's; repeatable.", "--flag")] = None,
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
    cases = _cases(paths, flag or ())
    named = cases_named(cases, case)
    answers, unreadable, rules = [], [], []
    with open_runner(app, named) as runner:
        for each in named:
            linter = family_of(each).lint
            assert linter is not None
            rules += [rule for rule in linter.rules if rule not in rules]
            ready = runner.registry.obtain(runner.registry.resolve(toolchain or "installed", each.compiler))
            shown = each.source if each.source.suffix not in RECIPES else below_here(each.input.path)
            try:
                answers.append(lint_case(runner, linter, each, ready, measured=toolchain is not None, shown=shown))
            except BadInput as error:  # reported at the end, after the findings of the other cases
                unreadable.append(str(error))
    if graph:
        typer.echo("".join(answer.graph for answer in answers), nl=False)
    elif answers or not unreadable:
        write_report(output, LintResult(answers, rules), lint_document, sarif=lint_sarif)
    if unreadable:
        raise BadInput("\n".join(unreadable))
    return Exit.FOUND if any(answer.has_errors for answer in answers) else Exit.OK


def _cases(paths: Sequence[Path], flags: Sequence[str]) -> list[Case]:
    """Return the cases of recipes and one for each program. BadInput if none can be linted."""
    family = recipe_families()[DEFAULT_FAMILY]
    for text in flags:
        if not text.startswith("-"):
            raise BadInput(f"--flag {text!r} is not a flag; write it with its dashes, such as --flag={family.flag}")
    programs = [path for path in paths if not path.is_dir() and path.suffix not in RECIPES]
    recipes = [path for path in paths if path not in programs]
    loaded = load_cases(recipes) if recipes else ()
    cases = [case for case in loaded if family_of(case).lint is not None]
    if len(cases) < len(loaded):
        text = f"no lint rules for compiler {', '.join(sorted({case.compiler for case in loaded if case not in cases}))}"
        if not cases and not programs:
            raise BadInput(text)
        print_stderr(f"{text}: skipped {len(loaded) - len(cases)} of {len(loaded)} cases")
    for path in programs:
        kind = family.kind_of(path.suffix)
        if kind is None or kind is InputKind.OTHER:
            raise BadInput(f"{path}: expected a program ({', '.join(family.inputs)}) or a recipe ({', '.join(RECIPES)})")
        if not path.is_file():
            raise BadInput(f"{path}: no such file")
        cases.append(Case(path.stem, str(path), "", family.name, path, Input(path.absolute(), kind), Target("")))
    return [replace(case, flags=(*case.flags, *map(Flag, flags))) for case in cases]
