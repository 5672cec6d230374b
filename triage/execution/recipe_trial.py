"""Try a new recipe, and correct the values that were guessed by the errors of the
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from triage.compilers.registry import load_cases, recipe_families, recipe_starters
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.probe_result import ProbeResult
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart, new_recipe
from triage.toolchains.home import temporary_folder

_SECONDS = 30.0  # of one compile that tries a guess
_OLDER = 4  # installed releases that are tried, the newest included


def try_recipe(
    engine: Engine, title: str, start: RecipeStart, revs: Sequence[str]
) -> tuple[RecipeStart, list[ProbeResult]]:
    """Compile on the newest installed toolchain and on each named one. The guessed
    values are corrected on each until the program compiles.

    While every result is untestable, because the releases lack what the program uses,
    older installed ones are tried, too.

    Returns:
        The corrected start, and the result on each toolchain that was tried.
    """
    installed = [*reversed(engine.registry.installed_releases(start.family))]
    named = [engine.registry.resolve(rev, start.family) for rev in revs]
    refs = {
        ref.revision.name: ref for ref in (*installed[:1], *named, *installed[1:_OLDER])
    }
    results: list[ProbeResult] = []
    with temporary_folder() as folder:
        for name, ref in refs.items():
            # A release that fails shows what is wrong with the values; one that lacks
            # something shows nothing.
            lacks_an_answer = all(result.untestable for result in results)
            if not (lacks_an_answer or ref in named):
                continue
            toolchain = engine.registry.obtain(ref)
            if not any(result.passed for result in results):
                task = engine.progress.task(f"trying guesses  {title}  {name}")
                start = recipe_starters()[start.family].improve(
                    start, partial(_compile, engine, toolchain, folder, title)
                )
                task.finish()
            probe = engine.probe_on(_case(folder, title, start), toolchain)
            results.append(result_of(probe))
    return start, results


def _compile(
    engine: Engine, toolchain: Toolchain, folder: Path, title: str, start: RecipeStart
) -> Execution | None:
    """Compile what a recipe would; None if there is nothing to compile."""
    case = _case(folder, title, start)
    quick = replace(case, limits=replace(case.limits, timeout=_SECONDS))
    execution = engine.observe(quick, toolchain, lambda invocation: invocation)
    if isinstance(execution, Execution):
        return execution
    return None


def _case(folder: Path, title: str, start: RecipeStart) -> Case:
    source = start.input.absolute()
    if start.copied is not None:
        source = folder.absolute() / start.input.name
        source.write_text(start.copied, "utf-8")
    recipe = folder / "trial.yaml"
    recipe.write_text(new_recipe(recipe_families(), title, str(source), start), "utf-8")
    [case] = load_cases([recipe])
    return case
