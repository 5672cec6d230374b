"""Each form in which people paste a command line becomes a recipe with the target and
the flags of that command line.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from triage.compilers.iree.command_line import IreeRecipes
from triage.compilers.pasted_text import calls_in
from triage.recipes.recipe import RecipeStart, new_recipe

# Each form, and after `->` the recipe's backend, chip, phase and flags.
COMMANDS = (
    (Path(__file__).parent / "pasted_commands.txt")
    .read_text()
    .strip()
    .split("\n====\n")
)


def start_from(line: str) -> RecipeStart:
    """The recipe of a user's own command line."""
    call = next(calls_in(line, IreeRecipes.tools))
    return IreeRecipes().from_call(call, None, None)


@pytest.mark.parametrize(
    "form", COMMANDS, ids=lambda form: form[:60].replace("\n", " ")
)
def test_the_recipe_has_the_target_and_the_flags_of_the_command_line(form: str) -> None:
    pasted, _, recipe = form.partition("\n->\n")
    start = start_from(pasted)
    assert new_recipe("pasted", "m.mlir", start)
    assert start.target
    words = [start.target.backend, start.target.chip or "-", start.phase or "-"]
    words += start.flags
    if start.assumed:
        words.append("(assumed)")
    assert words == shlex.split(recipe)
