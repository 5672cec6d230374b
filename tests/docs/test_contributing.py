"""The table in CONTRIBUTING.md is true: each kind of change works in a copy of the
package with only the files it names. `test_family_tutorial` adds a family.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORMAT = '''
"""A report format for a test: one line."""

from __future__ import annotations

from triage.report.document import Document


def line(result: object, document: Document) -> str:
    """The name of the result's class."""
    return f"one line: {type(result).__name__}\\n"
'''

PASS = '''
"""A reduction pass for a test: drop the last line."""

from __future__ import annotations

from triage.reduce.problem import ReductionProblem


def drop_last_line(problem: ReductionProblem) -> None:
    """Do nothing."""
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that a test may extend."""
    shutil.copytree(
        ROOT / "triage",
        tmp_path / "src" / "triage",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path / "src"


def add_line(path: Path, after: str, line: str) -> None:
    """Add one line after the line that contains `after`."""
    lines = path.read_text().splitlines()
    [index] = [index for index, text in enumerate(lines) if after in text]
    path.write_text("\n".join([*lines[: index + 1], line, *lines[index + 1 :]]) + "\n")


def run(package: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the extended package."""
    env = {
        **os.environ,
        "PYTHONPATH": str(package),
        "TRIAGE_HOME": str(tmp_path / "home"),
    }
    return subprocess.run(
        [sys.executable, *words],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


TRIAGE = ("-c", "from triage.cli import main; main()")


def test_a_format_is_a_module_and_one_line(package: Path, tmp_path: Path) -> None:
    (package / "triage" / "report" / "line.py").write_text(FORMAT.lstrip())
    add_line(
        package / "triage" / "report" / "formats.py",
        '"text": "triage.report.terminal:text"',
        '    "line": "triage.report.line:line",',
    )
    log = tmp_path / "build.log"
    log.write_text("input.mlir:1:1: error: something failed\n")
    done = run(package, tmp_path, *TRIAGE, "classify", str(log), "--format", "line")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("one line: ")


def test_a_reduction_pass_is_a_module_and_one_line(
    package: Path, tmp_path: Path
) -> None:
    frontends = package / "triage" / "reduce" / "frontends"
    (frontends / "last_line.py").write_text(PASS.lstrip())
    add_line(
        frontends / "text.py",
        "        drop_lines,",
        "        drop_last_line,",
    )
    add_line(
        frontends / "text.py",
        "from triage.model.case import InputKind",
        "from triage.reduce.frontends.last_line import drop_last_line",
    )
    code = (
        "from pathlib import Path\n"
        "from triage.reduce.frontends.text import text_form\n"
        "print([step.__name__ for step in text_form(Path('a')).passes])"
    )
    done = run(package, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "'drop_last_line'" in done.stdout
