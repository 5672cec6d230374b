"""The known compiler families. A new family needs one line here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from pkgutil import resolve_name

from triage.compilers.base import Compiler
from triage.compilers.family_ref import FamilyRef
from triage.compilers.parts import Suites
from triage.compilers.recipe_input import RecipeFromInput
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.recipes.family import RecipeFamilies, RecipeFamily
from triage.recipes.loader import load_recipes

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
    """Return the family of a name in the table; `command` knows no compiler until a
    case describes one.
    """
    compiler: Compiler = resolve_name(_CLASSES[name])()
    return compiler


class Families(Mapping[str, Compiler]):
    """Compiler families by name. Iterating yields the fixed ones and those that `cases`
    describe; other names such as `command:cython` are found as well.
    """

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self._described = {
            case.compiler: family_of(case)
            for case in cases
            if case.compiler not in _CLASSES
        }

    def __getitem__(self, name: str) -> Compiler:
        family, ref = self._described.get(name), FamilyRef.of(name)
        if family is None and ref.kind in _CLASSES:
            family = family_named(ref.kind).named(ref)
        if family is None:
            raise KeyError(name)
        return family

    def __iter__(self) -> Iterator[str]:
        for name in _CLASSES:
            if family_named(name).named(FamilyRef(name)):
                yield name
        yield from self._described

    def __len__(self) -> int:
        return sum(1 for _ in self)


def family_of(case: Case) -> Compiler:
    """Return the family of a case. Raises BadInput if there is none of that name."""
    ref = FamilyRef.of(case.compiler)
    if ref.kind not in _CLASSES:
        raise BadInput(
            f"{case.source}: unknown compiler {case.compiler!r}; known: "
            f"{', '.join(_CLASSES)}"
        )
    family = family_named(ref.kind)
    return family.named(ref, case.spec) or family


class FailureNames(Collection[str]):
    """The packaged classes of failures and their families. Rules take long to read, and
    most recipes name no failure.
    """

    @cached_property
    def _names(self) -> frozenset[str]:
        from triage.classify import packaged_rules  # slow to import

        return frozenset(
            name for rule in packaged_rules() for name in (rule.name, rule.family)
        )

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)


def load_cases(paths: Sequence[Path]) -> tuple[Case, ...]:
    """Load the cases of recipe files and of folders of recipes.

    Raises:
        BadFiles: With every mistake in recipes, or in the rules of their own.
        BadInput: A compiler is unknown.
    """
    cases = load_recipes(paths, recipe_families(), FailureNames())
    for case in cases:
        family_of(case)
    own = dict.fromkeys(case.rules for case in cases if case.rules)
    if own:
        from triage.classify import load_rules  # slow to import

        for rules in own:
            load_rules([rules])
    return cases


class _FamiliesOfRecipes(Mapping[str, RecipeFamily]):
    """What recipes of each family may contain. A family is imported when a recipe names
    it.
    """

    def __getitem__(self, name: str) -> RecipeFamily:
        if name not in _CLASSES:
            raise KeyError(name)
        return family_named(name).recipe

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


def recipe_families() -> RecipeFamilies:
    """Return the families of `compiler` in recipes, the default first."""
    return _FamiliesOfRecipes()


def recipe_starters() -> dict[str, RecipeFromInput]:
    """Return what makes recipes from other inputs, by family. The default family
    accepts any input, so that it comes last.
    """
    names = sorted(_CLASSES, key=lambda name: name == DEFAULT_FAMILY)
    return {
        name: part for name in names if (part := family_named(name).recipe_from_input)
    }


def suite_reader() -> Suites:
    """Return what reads a compiler's own test suites."""
    return next(part for name in _CLASSES if (part := family_named(name).suites))


def onnx_family() -> Compiler:
    """Return the family whose toolchains import ONNX models."""
    return next(
        family for family in map(family_named, _CLASSES) if family.onnx_importer
    )
