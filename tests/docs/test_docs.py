"""The documentation names only commands, options, files and exit codes that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triage.cli.app import COMMANDS, every_command, load
from triage.model.outcome import Exit

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


KNOWN: dict[str, Any] = {" ".join(path): command for path, command in every_command()}
KNOWN |= {name: load(name) for name in COMMANDS if name not in KNOWN}


def command_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Yield every line in a code block that runs `triage`, and every inline `triage
    ...`, with its line number.
    """
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced and (match := re.match(r"(?:\$ |- run: )?(triage [a-z].*)", line)):
            yield number, match[1]
        elif not fenced:
            for inline in re.findall(r"`(triage [a-z][^`]*)`", line):
                yield number, inline


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


#: Options that may follow every command.
EVERYWHERE = {"--help", "--quiet", "--verbose", "--unsealed", "--run-code"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_line_uses_known_commands_and_options(page: Path) -> None:
    for number, line in command_lines(page):
        words = shlex.split(re.split(r"\s(?:\\?[|>]|2>|&&|#)|\\\|", line)[0])[1:]
        name = next(
            (name for name in (" ".join(words[:2]), words[0]) if name in KNOWN), None
        )
        assert name, f"{page.name}:{number}: no command {words[0]!r} in {line!r}"
        # the rest belongs to another program
        words = words[: words.index("--")] if "--" in words else words
        options = {
            option
            for param in KNOWN[name].params
            for option in (*param.opts, *param.secondary_opts)
        }
        for word in words:
            if word.startswith("-") and len(word) > 1:
                assert word.partition("=")[0] in options | EVERYWHERE, (
                    f"{page.name}:{number}: {name} has no {word}"
                )


def test_the_readme_names_every_command_and_exit_code_in_110_lines() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in KNOWN:
        assert f"triage {name.split()[0]}" in readme, (
            f"README does not mention triage {name}"
        )
    for code in Exit:
        assert re.search(rf"^\| {int(code)} \|", readme, re.MULTILINE)
    assert len(readme.splitlines()) <= 110
    assert max(map(len, readme.splitlines())) <= 110


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_file_has_a_target(page: Path) -> None:
    """mkdocs checks the links of the site; this covers pages outside of it. Generated
    pages have no file.
    """
    prose = re.sub(
        r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    generated = {
        "commands.md",
        "recipe.md",
        "json.md",
        "failure-classes.md",
        "classified-failures.md",
        "lint-rules.md",
        "exit-codes.md",
    }
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
        path = page.parent / target
        assert path.exists() or (
            path.parent.name == "reference" and path.name in generated
        ), f"{page.name} links to {target}"


def test_files_that_the_documentation_names_exist() -> None:
    named = {
        name
        for page in PAGES
        for name in re.findall(
            r"\b(?:tests|triage)/[\w/]+\.(?:py|yaml)", page.read_text()
        )
    }
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
