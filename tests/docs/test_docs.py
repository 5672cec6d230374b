"""What the documents say of the command line is what the command line says of itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from tests.docs.classes import classes_page
from tests.docs.commands import commands, commands_page
from triage.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def command_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Every line in a code block that runs `triage`, and every inline `triage ...`."""
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced and (found := re.match(r"(?:\$ )?(triage [a-z].*)", line)):
            yield number, found[1]
        elif not fenced:
            for inline in re.findall(r"`(triage [a-z][^`]*)`", line):
                yield number, inline


def test_the_page_of_commands_is_what_help_prints() -> None:
    assert (ROOT / "docs" / "commands.md").read_text() == commands_page(), "run: python -m tests.docs.commands"


def test_the_page_of_classes_is_what_the_rules_say() -> None:
    assert (ROOT / "docs" / "classes.md").read_text() == classes_page(), "run: python -m tests.docs.classes"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_in_the_documents_exists(page: Path) -> None:
    known = {" ".join(path): command for path, command in commands(typer.main.get_command(app))}
    for number, line in command_lines(page):
        words = shlex.split(re.split(r"\s(?:[|>]|2>|&&|#)", line)[0])[1:]
        name = next((n for n in (" ".join(words[:2]), words[0]) if n in known), None)
        assert name, f"{page.name}:{number}: no command {words[0]!r} in {line!r}"
        words = words[: words.index("--")] if "--" in words else words  # what follows is another program's
        options = {option for param in known[name].params for option in (*param.opts, *param.secondary_opts)}
        for word in words:
            if word.startswith("-") and len(word) > 1:
                assert word.partition("=")[0] in options | {"--help"}, f"{page.name}:{number}: {name} has no {word}"


def test_the_readme_names_every_command_and_exit_code() -> None:
    readme = (ROOT / "README.md").read_text()
    for path, command in commands(typer.main.get_command(app)):
        if not getattr(command, "commands", None):
            assert f"triage {path[0]}" in readme, f"README says nothing of triage {' '.join(path)}"
    for code in ("0", "1", "2", "3", "4", "130"):
        assert re.search(rf"^\| {code} \|", readme, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
