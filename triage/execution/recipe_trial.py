"""Try a new recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.compilers.registry import load_cases
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.probe_result import ProbeResult
from triage.recipes.family import RecipeStart, new_recipe
from triage.toolchains.home import temporary_folder

_OLDER = 4  # installed releases that are tried, the newest included


def try_recipe(
    engine: Engine, title: str, start: RecipeStart, revs: Sequence[str]
) -> list[ProbeResult]:
    """Compile on the newest installed toolchain and on each named one, and return the
    results.

    While every result is untestable, because the releases lack what the program uses,
    older installed ones are tried, too.
    """
    installed = [*reversed(engine.registry.installed_releases(start.family))]
    named = [engine.registry.resolve(rev, start.family) for rev in revs]
    refs = {
        ref.revision.name: ref for ref in (*installed[:1], *named, *installed[1:_OLDER])
    }
    results: list[ProbeResult] = []
    with temporary_folder() as folder:
        case = _case(folder, title, start)
        for name, ref in refs.items():
            if ref in named or all(result.untestable for result in results):
                task = engine.progress.task(f"trying {title}  {name}")
                probe = engine.probe(ProbeJob(case, ref))
                task.finish()
                results.append(result_of(probe))
    return results


def _case(folder: Path, title: str, start: RecipeStart) -> Case:
    source = start.input.absolute()
    if start.copied is not None:
        source = folder.absolute() / start.input.name
        source.write_text(start.copied, "utf-8")
    recipe = folder / "trial.yaml"
    recipe.write_text(new_recipe(title, str(source), start), "utf-8")
    [case] = load_cases([recipe])
    return case
