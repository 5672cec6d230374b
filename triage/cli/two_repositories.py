"""`triage bisect --model-repo`: which of two repositories moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from triage.bisect.models import ModelHistory
from triage.bisect.moved import TwoRepositories, bisect_two
from triage.bisect.plan import Chase
from triage.bisect.result import Kind
from triage.cli.bench import load_cases, one_case
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.timeline import Repository
from triage.toolchains.home import home_path

Ends = tuple[str | None, str | None]


def bisect_across(
    chase: Callable[[Case], Chase], recipe: Path, name: str | None, folder: Path | None, compilers: Ends, refs: Ends
) -> TwoRepositories:
    """chase: what is chased of a case; name: of the case, where the recipe has several; folder: of the model repository;
    compilers, refs: the good end and the bad one. BadInput when one of them is missing.
    """
    if folder is None or None in refs:
        raise BadInput("a bisect over two repositories needs --model-repo, --model-good and --model-bad")
    if None in compilers:
        raise BadInput("--model-repo needs --good and --bad as well; for a compiler that stays name the same one twice")
    repository = Repository(folder)
    ends = [repository.resolve(str(ref)) for ref in refs]
    models = ModelHistory(repository, recipe, home_path(), lambda path: one_case(load_cases([path]), name), ends)
    chased = chase(models.at(ends[1]))
    pairs = [(str(compiler), sha) for compiler, sha in zip(compilers, ends, strict=True)]
    old, new = pairs if chased.kind is Kind.REGRESSION else reversed(pairs)
    return bisect_two(chased, models, old, new)
