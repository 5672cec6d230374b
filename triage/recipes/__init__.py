"""Recipes: YAML files that say what to compile, read into Cases with every mistake told at once."""

from triage.recipes.expectations import expectation_for, expectations_at, flag_applies, matches
from triage.recipes.kernel_source import is_alone, kernel_alone
from triage.recipes.loader import load_recipes
from triage.recipes.schema import recipe_schema
from triage.recipes.starter import new_recipe
from triage.recipes.starter_kernel import KernelGuess, guess_kernel

__all__ = [
    "KernelGuess",
    "expectation_for",
    "expectations_at",
    "flag_applies",
    "guess_kernel",
    "is_alone",
    "kernel_alone",
    "load_recipes",
    "matches",
    "new_recipe",
    "recipe_schema",
]
