"""Try a new recipe before it is written: compile it, and let its compiler family correct guessed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from triage.cli.context import failure_names, open_runner, refs_of
from triage.compilers.registry import Families, recipe_families
from triage.execution.runner import ProbeRunner
from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.outcome import Compiled, Untestable
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart
from triage.recipes.loader import load_recipes
from triage.recipes.starter import new_recipe
from triage.report.housekeeping import TriedShape

_SECONDS = 30.0  # of one compile that tries a guess


@dataclass(frozen=True, slots=True)
class TriedStart:
    """A start with corrected values, and how it compiles on each toolchain that it was tried on."""

    start: RecipeStart
    results: tuple[TriedShape, ...] = ()
    note: str | None = None


def try_start(context: typer.Context, start: RecipeStart, title: str, revs: Sequence[str]) -> TriedStart:
    """Correct the guessed values on the newest of the toolchains, and compile the result on all of them.

    revs: the toolchains; the newest installed one in addition.
    """
    with TemporaryDirectory() as folder, open_runner(context.obj, ()) as runner:
        installed = runner.registry.installed_releases(start.family)
        refs = [*refs_of(runner, start.family, revs), *installed[-1:]]
        if not refs:
            note = f"not tried: no release of {start.family} is installed; -t {start.family}:latest installs one and tries it"
            return TriedStart(start, note=note)
        names = list({ref.revision.name: ref for ref in refs}.values())
        newest, *others = sorted(names, key=lambda ref: ref not in installed[-1:])
        toolchain = runner.registry.obtain(newest)
        task = runner.progress.task(f"trying guesses  {title}")

        def compile_(candidate: RecipeStart) -> Execution | None:
            case = _case(Path(folder), title, candidate)
            case = replace(case, limits=replace(case.limits, timeout=_SECONDS))
            execution = runner.prober.observe(case, toolchain, lambda invocation: invocation)
            return execution if isinstance(execution, Execution) else None

        try:
            better = Families()[start.family].improve(start, compile_)
        finally:
            task.finish()
        case = _case(Path(folder), title, better)
        results = [_result(runner, case, each) for each in (toolchain, *map(runner.registry.obtain, others))]
    return TriedStart(better, tuple(results))


def _case(folder: Path, title: str, start: RecipeStart) -> Case:
    source = start.input.absolute()
    if start.copied is not None:
        source = folder.absolute() / start.input.name
        source.write_text(start.copied, "utf-8")
    recipe = folder / "trial.yaml"
    recipe.write_text(new_recipe(recipe_families(), title, str(source), start), "utf-8")
    [case] = load_recipes([recipe], recipe_families(), failure_names())
    return case


def _result(runner: ProbeRunner, case: Case, toolchain: Toolchain) -> TriedShape:
    outcome = runner.prober.probe(case, toolchain).outcome
    name = toolchain.revision.name
    if isinstance(outcome, Compiled):
        return TriedShape(name, "passed", None)
    if isinstance(outcome, Untestable):
        return TriedShape(name, "untestable", outcome.reason)
    return TriedShape(name, "failed", outcome.failure.headline)
