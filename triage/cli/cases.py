"""The cases of a command: the options that choose them, the engine that compiles them,
and the families and revisions that they are compiled with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from triage.cli.command import (
    CASE,
    CASES,
    JOBS,
    PATHS,
    RECIPE,
    RECIPES,
    AppContext,
    option,
    print_stderr,
)
from triage.compilers.registry import DEFAULT_FAMILY, Families, load_cases, suite_reader
from triage.execution.engine import Engine, open_engine
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.revision import FamilyRef
from triage.report.elements import names_text
from triage.toolchains.home import KeptKind, default_home
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry

if TYPE_CHECKING:  # slow to import
    from triage.cli.program import StartedRecipe
    from triage.execution.dask_executor import DaskCluster

_SHOWN = 8  # names of cases in a message


@dataclass(kw_only=True)
class ProgramTarget:
    """The target of a program that stands in the place of a recipe."""

    app: AppContext
    backend: str | None = option(
        "NAME", "Compile a program for this backend (a recipe names its own)."
    )
    chip: str | None = option(
        "NAME", "Compile a program for this chip, such as gfx942."
    )

    def write_recipe(
        self, word: Path, revs: Sequence[str | None]
    ) -> StartedRecipe | None:
        """Write a recipe for a program, a text or a command line; return None for a
        recipe. `revs` may name the package that a script is about.
        """
        # `isdir` is false for a command line that is too long for a path
        if word.suffix not in RECIPES and not os.path.isdir(word):  # noqa: PTH112
            from triage.cli.program import write_recipe_for  # slow to import

            return write_recipe_for(str(word), self, revs)
        if self.backend or self.chip:
            raise BadInput("--backend and --chip are for programs, not for recipes")
        return None

    def write_recipes(
        self, words: Sequence[Path], revs: Sequence[str | None] = ()
    ) -> list[Path]:
        """Return the recipes that the words name, or that are made from them."""
        started = [(word, self.write_recipe(word, revs)) for word in words]
        return [made.path if made else word for word, made in started]

    def cases(
        self,
        words: Sequence[Path],
        suite: Sequence[Path] | None = None,
        revs: Sequence[str | None] = (),
    ) -> tuple[Case, ...]:
        """Load all cases. suite: the configs of a test suite."""
        return cases_in(words if suite else self.write_recipes(words, revs), suite)


@dataclass(kw_only=True)
class SeveralCases(ProgramTarget):
    """The cases of recipes."""

    paths: list[Path] = PATHS
    case: str | None = CASES

    def selected_cases(
        self, suite: Sequence[Path] | None = None, revs: Sequence[str | None] = ()
    ) -> tuple[Case, ...]:
        """Load the cases that --case selects."""
        return cases_named(self.cases(self.paths, suite, revs), self.case)


@dataclass(kw_only=True)
class OneCase(ProgramTarget):
    """One case of a recipe."""

    recipe: Path = RECIPE
    case: str | None = CASE

    def selected_case(
        self, suite: Sequence[Path] | None = None, revs: Sequence[str | None] = ()
    ) -> Case:
        """Load the case that --case selects."""
        return one_case(self.cases([self.recipe], suite, revs), self.case)


@dataclass(kw_only=True)
class Compiling:
    """How many compiles run at once, and where."""

    app: AppContext
    jobs: int | None = JOBS
    executor: str | None = option(
        "local|dask|dask:ADDRESS",
        "Compile here, on Dask workers started here, or on those of a "
        "scheduler (default: local).",
    )

    def open(self, *cases: Case, dry: bool = False) -> AbstractContextManager[Engine]:
        """Open an engine as `open_engine_for` does."""
        return open_engine_for(self.app, cases, self.jobs, self.executor, dry=dry)


def open_engine_for(
    app: AppContext,
    cases: Sequence[Case] = (),
    jobs: int | None = None,
    executor: str | None = None,
    *,
    dry: bool = False,
) -> AbstractContextManager[Engine]:
    """Open an engine that draws its progress, and compiles on the cluster that
    --executor or TRIAGE_EXECUTOR names.

    The recipes of the cases may describe further compiler families. dry: install,
    download and compile nothing.
    """
    executor = executor or os.environ.get("TRIAGE_EXECUTOR") or "local"
    cluster = None
    if executor != "local":
        cluster = _cluster(executor, jobs)
    return open_engine(
        cases,
        jobs=jobs,
        progress=app.progress(),
        cluster=cluster,
        is_dry=dry,
    )


def _cluster(
    executor: str, jobs: int | None
) -> Callable[[ToolchainRegistry], DaskCluster]:
    """Return a function that opens the cluster of an executor. Raises BadInput for
    another text, and without the packages of a cluster.
    """
    name, _, address = executor.partition(":")
    if name != "dask":
        raise BadInput(f"--executor {executor!r}: write local, dask or dask:ADDRESS")
    try:
        from triage.execution.dask_executor import DaskCluster
    except ImportError as error:
        advice = f"pip install 'iree-triage[cluster]' ({error})"
        raise BadInput(f"--executor dask needs an extra: {advice}") from error
    return lambda registry: DaskCluster(registry, address or None, jobs)


def cases_in(
    paths: Sequence[Path], suite_configs: Sequence[Path] | None = None
) -> tuple[Case, ...]:
    """Load the cases of recipes or, with configs, those of test suites in folders.

    Raises BadFiles with every mistake, and BadInput for an unknown compiler.
    """
    if not suite_configs:
        for path in paths:
            # `isdir` is false for a command line that is too long for a path
            if path.suffix not in ("", *RECIPES) and not os.path.isdir(path):  # noqa: PTH112
                raise BadInput(
                    f"{path} is not a recipe (.yaml); `triage recipe new` writes one "
                    "for a program, a text or a command line"
                )
        return load_cases(paths)
    downloads = default_home().folder(KeptKind.DOWNLOADS)
    from triage.toolchains.project import find_project  # slow to import

    reader = suite_reader()
    cases = [
        case for path in paths for case in reader.cases(path, suite_configs, downloads)
    ]
    project = find_project(DEFAULT_FAMILY, Path())
    return tuple(map(project.suites.applied_to, cases))


def cases_named(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """Return the case of this name, or else those with these `key=value` pairs in any
    order, or those whose name contains the text or, with `*` in it, is matched by it;
    all without a text. Raises BadInput when there is none.
    """
    pattern = (text or "*").replace("[", "[[]")
    if "*" not in pattern:
        pattern = f"*{pattern}*"
    wanted = {pair.strip() for pair in (text or "").split(",")}
    chosen = (
        [case for case in cases if case.name == text]
        or [case for case in cases if wanted <= {f"{k}={v}" for k, v in case.matrix}]
        or [case for case in cases if fnmatchcase(case.name, pattern)]
    )
    if not chosen:
        names = names_text([case.name for case in cases], _SHOWN)
        raise BadInput(f"there is no case {text!r}; choose from {names}")
    return tuple(chosen)


def one_case(cases: Sequence[Case], name: str | None) -> Case:
    """Return the only case that `cases_named` returns. Raises BadInput if there are
    several.
    """
    chosen = cases_named(cases, name)
    if len(chosen) > 1:
        names = names_text([case.name for case in chosen], _SHOWN)
        raise BadInput(f"several cases fit; choose one with --case: {names}")
    return chosen[0]


def revs_by_family(cases: Sequence[Case], revs: Sequence[str]) -> dict[str, list[str]]:
    """Return the REVs of each family of the cases. A family without a REV is left out,
    with a message.

    A REV with a prefix (`triton:3.2.0`) belongs to that family. One without belongs to
    the only family of the cases, or to the default family if there are several. Raises
    BadInput for a REV of another family.
    """
    named: dict[str, list[str]] = {case.compiler: [] for case in cases}
    for rev in revs:
        named[_family_of(rev, list(named))].append(rev)
    for family in [family for family in named if not named[family]]:
        del named[family]
        print_stderr(
            f"the cases of {family} are left out: no toolchain is named; pass for "
            f"example {family}:latest"
        )
    return named


def of_one_family(cases: Sequence[Case], revs: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases of the only family that the REVs belong to. Raises BadInput if
    they belong to several.
    """
    families = revs_by_family(cases, revs)
    if len(families) != 1:
        raise BadInput(f"{', '.join(revs)} are not revisions of one compiler")
    return tuple(case for case in cases if case.compiler in families)


def resolve_all(engine: Engine, family: str, revs: Sequence[str]) -> list[ToolchainRef]:
    """Return the toolchains that REVs name, each once, in the given order."""
    refs = [engine.registry.resolve(rev, family) for rev in revs]
    return list({ref.revision.name: ref for ref in refs}.values())


def _family_of(rev: str, families: Sequence[str]) -> str:
    named = [
        name for name in families if rev.startswith(FamilyRef.parse(name).prefixes)
    ]
    default = families[0] if len(families) == 1 else DEFAULT_FAMILY
    family = max(named, key=len, default=None) or named_family(rev) or default
    if family not in families:
        used = ", ".join(families)
        raise BadInput(f"{rev} is a revision of {family}, but the recipes use {used}")
    return family


def named_family(*revs: str | None) -> str | None:
    """Return the first family that a revision names, as `triton:3.1.0` does."""
    families = (split_revision(rev or "", default="")[0] for rev in revs)
    return next(filter(None, families), None)


def split_revision(text: str, default: str = DEFAULT_FAMILY) -> tuple[str, str]:
    """Split a revision into the family that it names, or else `default`, and the rest.

    >>> split_revision("command:cython:3.0.2")
    ('command:cython', '3.0.2')
    """
    family, colon, _ = text.rpartition(":")
    while colon:
        if family in Families():
            return family, text.removeprefix(f"{family}:")
        family, colon, _ = family.rpartition(":")
    return default, text
