"""Try a new recipe before it is written: compile it, and let its compiler family correct guessed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from triage.cli.context import failure_names, open_runner, refs_of
from triage.cli.screen import print_stderr
from triage.compilers.registry import recipe_families, recipe_starters
from triage.execution.engine import Engine
from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.outcome import Compiled, Failed, Untestable
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart
from triage.recipes.loader import load_recipes
from triage.recipes.starter import new_recipe

_SECONDS = 30.0  # of one compile that tries a guess
_OLDER = 4  # installed releases that are tried, the newest included


@dataclass(frozen=True)
class TrialResult:
    """How a new recipe compiles on a toolchain."""

    toolchain: str
    status: str
    """passed, failed or untestable."""
    reason: str | None


def try_start(
    context: typer.Context, start: RecipeStart, title: str, revs: Sequence[str]
) -> tuple[RecipeStart, list[TrialResult]]:
    """Correct the guessed values on the newest installed toolchain, and compile the result on those that are named.

    A newest release that lacks what the program uses is followed by the named ones and by older installed ones, until the
    program compiles on one.
    """
    results: list[TrialResult] = []
    with TemporaryDirectory() as folder, open_runner(context.obj, ()) as runner:
        installed = [*reversed(runner.registry.installed_releases(start.family))]
        named = refs_of(runner, start.family, revs)
        refs = {ref.revision.name: ref for ref in (*installed[:1], *named, *installed[1:_OLDER])}
        if not refs:
            latest = f"{start.family}:latest"
            print_stderr(f"not tried: no release of {start.family} is installed; -t {latest} installs one and tries it")
        for name, ref in refs.items():
            # A release that fails shows what is wrong with the values; one that lacks something shows nothing.
            if any(result.status != "untestable" for result in results) and ref not in named:
                continue
            toolchain = runner.registry.obtain(ref)
            if all(result.status != "passed" for result in results):
                start = _improved(runner, Path(folder), title, start, toolchain)
            outcome = runner.probe_on(_case(Path(folder), title, start), toolchain).outcome
            status = {Compiled: "passed", Untestable: "untestable", Failed: "failed"}[type(outcome)]
            results.append(TrialResult(name, status, outcome.reason or (outcome.failure.headline if outcome.failure else None)))
    return start, results


def _improved(runner: Engine, folder: Path, title: str, start: RecipeStart, toolchain: Toolchain) -> RecipeStart:
    task = runner.progress.task(f"trying guesses  {title}  {toolchain.revision.name}")

    def compile_(candidate: RecipeStart) -> Execution | None:
        case = _case(folder, title, candidate)
        case = replace(case, limits=replace(case.limits, timeout=_SECONDS))
        execution = runner.observe(case, toolchain, lambda invocation: invocation)
        return execution if isinstance(execution, Execution) else None

    try:
        return recipe_starters()[start.family].improve(start, compile_)
    finally:
        task.finish()


def _case(folder: Path, title: str, start: RecipeStart) -> Case:
    source = start.input.absolute()
    if start.copied is not None:
        source = folder.absolute() / start.input.name
        source.write_text(start.copied, "utf-8")
    recipe = folder / "trial.yaml"
    recipe.write_text(new_recipe(recipe_families(), title, str(source), start), "utf-8")
    [case] = load_recipes([recipe], recipe_families(), failure_names())
    return case
