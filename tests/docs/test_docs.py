"""The documentation names only commands, options, files and exit codes that exist, its
examples are true, and so is the table in CONTRIBUTING.md.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from triage.cli.app import COMMANDS, every_command, load
from triage.model.outcome import Exit

README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
PAGES = [README, CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
KNOWN: dict[str, Any] = {" ".join(path): command for path, command in every_command()}
KNOWN |= {name: load(name) for name in COMMANDS if name not in KNOWN}
# Options that may follow every command.
EVERYWHERE = {"--help", "--quiet", "--verbose", "--unsealed", "--run-code"}


def command_lines(page: Path) -> Iterator[str]:
    """Yield every line in a code block that runs `triage`, and every inline `triage
    ...`.
    """
    fences = re.compile(r"(?ms)^```.*?^```")
    text = page.read_text()
    yield from re.findall(r"`(triage [a-z][^`\n]*)`", fences.sub("", text))
    for block in fences.findall(text):
        yield from re.findall(r"(?m)^(?:\$ |- run: )?(triage [a-z].*)", block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_uses_known_commands_and_options(page: Path) -> None:
    for line in command_lines(page):
        own = re.split(r"\s(?:\\?[|>]|2>|&&|#|-- )|\\\|", line)[0]  # not of others
        _, *words = shlex.split(own)
        [name, *_] = [name for name in (" ".join(words[:2]), words[0]) if name in KNOWN]
        params = KNOWN[name].params
        known = {name for each in params for name in (*each.opts, *each.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match("-.", word)}
        assert used <= known | EVERYWHERE, line


def test_the_readme_names_every_command_and_exit_code_in_110_lines() -> None:
    text = README.read_text()
    named = [f"triage {name.split()[0]}" for name in KNOWN]
    named += [f"\n| {int(code)} |" for code in Exit]
    assert [name for name in named if name not in text] == []
    lines = text.splitlines()
    assert max(len(lines), *map(len, lines)) <= 110


def test_files_that_the_documentation_names_exist() -> None:
    """mkdocs checks the links of its pages."""
    named = [
        ROOT / name
        for page in PAGES
        for name in re.findall(
            r"\b(?:tests|triage)/[\w/]+\.(?:py|yaml)", page.read_text()
        )
    ]
    for page in (README, CONTRIBUTING):
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
        named += [ROOT / link for link in links]
    assert len(named) > 20
    assert [path for path in named if not path.exists()] == []


EXAMPLES = [
    path.relative_to(ROOT).with_suffix("")
    for path in sorted((ROOT / "triage").rglob("*.py"))
    if "\n    >>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_examples_in_docstrings_show_what_functions_return(path: Path) -> None:
    done = doctest.testmod(importlib.import_module(".".join(path.parts)))
    assert done.attempted > 0
    assert done.failed == 0


FORMAT = '''"""A report format for a test: one line."""


def line(result: object, document: object) -> str:
    """The name of the result's class."""
    return f"one line: {type(result).__name__}\\n"
'''
PASS = '''"""A reduction pass for a test."""


def drop_last_line(problem: object) -> None:
    """Do nothing."""
'''
MODULES = {"report/line.py": FORMAT, "reduce/last_line.py": PASS}
# The lines before the new ones, in the files that have them.
LINES = {
    "report/document.py": {
        '    "text": "triage.report.terminal:text",\n': '    "line": "triage.report.line:line",\n'
    },
    "reduce/text.py": {
        "        drop_lines,\n": "        drop_last_line,\n",
        "from triage.model.case import Case\n": "from triage.reduce.last_line import drop_last_line\n",
    },
}
CLASSIFY = "from triage.cli import main; main()"
PASSES = """from pathlib import Path
from triage.reduce.text import text_form
print([step.__name__ for step in text_form(None, Path("build.log")).passes])"""


def test_a_format_and_a_pass_are_a_module_and_its_lines(tmp_path: Path) -> None:
    """`test_family_tutorial` adds a family."""
    package = tmp_path / "src" / "triage"
    shutil.copytree(ROOT / "triage", package)
    for name, text in MODULES.items():
        (package / name).write_text(text)
    for name, lines in LINES.items():
        table = (package / name).read_text()
        for before, line in lines.items():
            assert table.count(before) == 1
            table = table.replace(before, before + line)
        (package / name).write_text(table)
    (tmp_path / "build.log").write_text("input.mlir:1:1: error: it failed\n")
    env = os.environ | {
        "PYTHONPATH": str(package.parent),
        "TRIAGE_HOME": str(tmp_path / "home"),
    }

    def printed(*words: str) -> str:
        command = [sys.executable, "-c", *words]
        return subprocess.run(
            command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ).stdout

    shown = printed(CLASSIFY, "classify", "build.log", "--format", "line")
    assert shown.startswith("one line: ")
    assert "'drop_last_line'" in printed(PASSES)
