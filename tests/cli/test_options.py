"""What every command has: --format, --help, completion; and the lazy table of commands."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.conftest import Triage
from triage.cli.app import COMMANDS, every_command

MOST_COMMANDS, MOST_PARAMETERS = 32, 200
LEAVES: dict[str, Any] = {" ".join(words): command for words, command in every_command()}


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_has_a_help_text(name: str) -> None:
    texts = {param.name: getattr(param, "help", None) for param in LEAVES[name].params if not getattr(param, "hidden", False)}
    assert all(texts.values()), texts


@pytest.mark.parametrize(
    ("command", "other"), [("classify", "junit"), ("run", "sarif"), ("bisect", "junit"), ("nightly", "csv")]
)
def test_a_format_that_a_command_cannot_write_is_refused_with_the_choices(triage: Triage, command: str, other: str) -> None:
    done = triage(command, "nothing", "--format", other)
    assert (done.returncode, done.stdout) == (2, "")
    assert "json" in done.stderr


def test_no_command_has_too_many_options() -> None:
    """Not counted is the group for a program in the place of a recipe, which is the same everywhere."""
    group = {"backend", "chip", "save"}
    names = {name: {one.name for one in command.params} for name, command in LEAVES.items()}
    counts = {name: len(own - group if group <= own else own) for name, own in names.items()}
    assert len(names) <= MOST_COMMANDS
    assert sum(counts.values()) <= MOST_PARAMETERS
    assert {name: count for name, count in counts.items() if count > 30} == {}


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("watch", "nightly.json"),
        ("nights compare", "site"),
        ("nightly one.yaml --notify x", "issues sync"),
        ("open", "index.html"),
    ],
)
def test_what_was_removed_names_what_to_use(triage: Triage, words: str, instead: str) -> None:
    done = triage(*words.split())
    assert done.returncode == 2
    assert instead in done.stderr


def test_an_unknown_command_suggests_a_known_one(triage: Triage) -> None:
    done = triage("bisct")
    assert done.returncode == 2
    assert "bisect" in done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["triage", ""], {word for name in COMMANDS for word in name.split()}),
        (["triage", "toolchains", ""], {"list", "install", "info", "prune"}),
    ],
)
def test_bash_is_offered_commands(triage: Triage, words: list[str], offered: set[str]) -> None:
    asked = {"_TRIAGE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert set(triage(env={**os.environ, **asked}).stdout.split()) == offered
