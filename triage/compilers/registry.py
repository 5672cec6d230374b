"""The known compiler families. A new family needs one line here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from triage.compilers.base import Compiler
from triage.model.case import Case
from triage.model.revision import FamilyRef
from triage.recipes.recipe import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.iree.suite import IreeSuites
    from triage.compilers.pasted_text import RecipeStarter

# Imported on first use. The first is the family of recipes and revisions that name
# none.
_CLASSES = {
    "iree": "triage.compilers.iree.adapter:Iree",
    "triton": "triage.compilers.triton.adapter:Triton",
    "xla": "triage.compilers.xla.adapter:Xla",
    "command": "triage.compilers.command.adapter:Command",
}
DEFAULT_FAMILY = next(iter(_CLASSES))


@cache
def family_named(name: str) -> Compiler:
    """Return the family of a name in the table. Of `command`, this is the family that
    makes one for each compiler, see `Compiler.named`.
    """
    compiler: Compiler = resolve_name(_CLASSES[name])()
    return compiler


class Families(Mapping[str, Compiler]):
    """Compiler families by name. Iterating yields those of the table and those that
    `cases` describe. Looking up another name, such as `command:cython`, works as well.
    """

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self._described = {
            case.compiler: family_of(case)
            for case in cases
            if case.compiler not in _CLASSES
        }

    def __getitem__(self, name: str) -> Compiler:
        ref = FamilyRef.parse(name)
        family = self._described.get(name)
        if family is None and ref.kind in _CLASSES:
            family = family_named(ref.kind).family_for(ref)
        if family is None:
            raise KeyError(name)
        return family

    def __iter__(self) -> Iterator[str]:
        for name in _CLASSES:
            if family_named(name).family_for(FamilyRef(name)):
                yield name
        yield from self._described

    def __len__(self) -> int:
        return sum(1 for _ in self)


def family_title(name: str | None) -> str:
    """Return how people write the name of a family."""
    family = Families().get(name or "")
    return (family.title if family else "") or FamilyRef.parse(name or "").title


def family_of(case: Case) -> Compiler:
    """Return the family of a case, whose recipe was checked."""
    ref = FamilyRef.parse(case.compiler)
    family = family_named(ref.kind)
    return family.family_for(ref, case.spec) or family


@cache
def failure_names() -> frozenset[str]:
    """Return the names of all packaged failure classes and of their families. Most
    recipes name no failure, and reading the rules takes time.
    """
    from triage.classify import packaged_rules  # slow to import

    rules = packaged_rules()
    return frozenset(name for rule in rules for name in (rule.name, rule.family))


def load_cases(paths: Sequence[Path]) -> tuple[Case, ...]:
    """Load the cases of recipe files and of folders of recipes, and check the files of
    failure rules that they name.

    Raises BadFiles with every mistake in the recipes, or in one file of rules.
    """
    from triage.recipes.loader import load_recipes  # slow to import

    cases = load_recipes(paths, RecipesByFamily(), failure_names)
    for file in dict.fromkeys(case.rules for case in cases if case.rules):
        from triage.classify import load_rules  # slow to import

        load_rules([file])
    return cases


class RecipesByFamily(Mapping[str, RecipeFamily]):
    """What recipes of each family may contain. The default family is the first; one is
    imported when it is looked up.
    """

    def __getitem__(self, name: str) -> RecipeFamily:
        if name not in _CLASSES:
            raise KeyError(name)
        return family_named(name).recipe

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


def recipe_starters() -> dict[str, RecipeStarter]:
    """Return the part of each family that makes recipes from programs and texts. The
    default family accepts any input and is the last.
    """
    starters = {}
    for name in sorted(_CLASSES, key=lambda name: name == DEFAULT_FAMILY):
        starter = family_named(name).recipe_starter
        if starter:
            starters[name] = starter
    return starters


def suite_reader() -> IreeSuites:
    """Return what reads IREE's own test suites: `--suite-config`, `expect update`."""
    from triage.compilers.iree.suite import IreeSuites  # slow to import

    return IreeSuites()


def onnx_family() -> Compiler:
    """Return the family whose toolchains import ONNX models."""
    families = map(family_named, _CLASSES)
    return next(family for family in families if family.onnx_importer)
