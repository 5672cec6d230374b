"""`triage lint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import cases_named, load_cases, open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import CasesOption, format_option, rev_option
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, family_of, recipe_families
from triage.lint.check import LintResult, lint_case
from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.errors import BadInput
from triage.report.formats import write_report
from triage.report.lint import lint_document, lint_sarif

_RECIPES = (".yaml", ".yml")


@command
def lint(
    context: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT|RECIPE...", help="Programs (.mlir, .mlirbc, .onnx, a .py generator), recipes, or folders of recipes."
        ),
    ],
    toolchain: Annotated[
        str | None,
        rev_option(
            "--toolchain",
            "-t",
            text="Toolchain that parses the program and measures solver iterations (default: installed, without measuring).",
        ),
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", help="A compiler flag in addition to the recipe's; may be repeated."),
    ] = None,
    case: CasesOption = None,
    graph: Annotated[
        bool,
        typer.Option("--graph", help="Print devices and transfers as a Mermaid flowchart instead of the findings."),
    ] = False,
    output: Annotated[str, format_option("sarif")] = "text",
) -> Exit:
    """Find mistakes in a program before compiling it: devices, affinities, chains, shapes, types.

    Exit 1 if there is an error. The comment `// triage: ignore` or `// triage: ignore[rule]` silences findings on its line;
    alone on a line, it silences those on the next line.

    - `triage lint model.mlir --flag=--iree-hal-target-device=hip[0]`

    - `triage lint recipes/sharded-for-loops.yaml -t 3.8.0`

    - `triage lint model.mlir --graph > model.mmd`
    """
    chosen = _cases(paths, tuple(Flag(_checked(text)) for text in flag or ()))
    named = cases_named([each for each, _ in chosen], case)
    chosen = [(each, shown) for each, shown in chosen if each in named]
    answers, unreadable, rules = [], [], []
    with open_runner(context.obj, [each for each, _ in chosen]) as runner:
        for each, shown in chosen:
            linter = family_of(each).lint
            assert linter is not None
            rules += [rule for rule in linter.rules if rule not in rules]
            ready = runner.registry.obtain(runner.registry.resolve(toolchain or "installed", each.compiler))
            try:
                answers.append(lint_case(runner, linter, each, ready, measured=toolchain is not None, shown=shown))
            except BadInput as error:  # reported at the end, after the findings of the other cases
                unreadable.append(error)
    if unreadable and not answers:
        raise BadInput("\n".join(map(str, unreadable)))
    if graph:
        typer.echo("".join(answer.graph for answer in answers), nl=False)
    else:
        write_report(output, LintResult(answers, rules), lint_document, sarif=lint_sarif)
    if unreadable:
        raise BadInput("\n".join(map(str, unreadable)))
    return Exit.FOUND if any(answer.has_errors for answer in answers) else Exit.OK


def _cases(paths: Sequence[Path], flags: tuple[Flag, ...]) -> list[tuple[Case, Path]]:
    """Return each case with its input as the user named it. BadInput if no case can be linted."""
    programs = [path for path in paths if not path.is_dir() and path.suffix not in _RECIPES]
    recipes = [path for path in paths if path not in programs]
    cases = load_cases(recipes) if recipes else ()
    supported = [case for case in cases if family_of(case).lint is not None]
    if len(supported) < len(cases):
        families = sorted({case.compiler for case in cases if case not in supported})
        text = f"no lint rules for compiler {', '.join(families)}"
        if not supported and not programs:
            raise BadInput(text)
        print_stderr(f"{text}: skipped {len(cases) - len(supported)} of {len(cases)} cases")
    chosen = [(replace(case, flags=(*case.flags, *flags)), _relative(case.input.path)) for case in supported]
    return [*chosen, *((_case_of_program(path, flags), path) for path in programs)]


def _case_of_program(path: Path, flags: tuple[Flag, ...]) -> Case:
    """Return a case for a program without a recipe; only its flags are known."""
    family = recipe_families()[DEFAULT_FAMILY]
    kind = family.kind_of(path.suffix)
    if kind is None or kind is InputKind.OTHER:
        raise BadInput(f"{path}: expected a program ({', '.join(family.inputs)}) or a recipe ({', '.join(_RECIPES)})")
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    return Case(path.stem, str(path), "", family.name, path, Input(path.absolute(), kind), Target(""), flags)


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _checked(text: str) -> str:
    if not text.startswith("-"):
        example = recipe_families()[DEFAULT_FAMILY].flag
        raise BadInput(f"--flag {text!r} is not a flag; write it with its dashes, such as --flag={example}")
    return text
