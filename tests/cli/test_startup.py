"""What the program imports: a command that starts fast must not import what only others
need.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.test_cli import GOOD, recipe
from tests.conftest import Triage

PRINT_MODULES = """
import sys
from triage.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
# Packages and modules that no start of the program needs.
HEAVY = {"jinja2", "numpy", "onnx", "psutil", "pypi_simple", "requests", "uv"}
NEEDED_BY_COMMANDS = {
    "pydantic",
    "sqlite3",
    "triage.compilers",
    "triage.execution",
    "triage.recipes",
    "yaml",
}
ONLY_FOR_OTHER_COMMANDS = {
    "triage.attribute",
    "triage.bisect",
    "triage.git_history",
    "triage.nightly",
    "triage.reduce",
}


def modules_of(*words: object) -> set[str]:
    """Run a command that succeeds and return the names of the modules that it has
    imported.
    """
    command = [sys.executable, "-c", PRINT_MODULES, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_help_imports_no_command() -> None:
    modules = modules_of("--help")
    assert "triage.cli.app" in modules
    assert not modules & (HEAVY | NEEDED_BY_COMMANDS | ONLY_FOR_OTHER_COMMANDS)


def test_a_cached_run_imports_only_what_it_needs(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "good", GOOD)
    assert triage("run", path).returncode == 0
    modules = modules_of("run", path)
    assert "triage.execution.cache" in modules
    others = {
        "statistics",
        "triage.compilers.triton.adapter",
        "triage.execution.benchmark",
    }
    assert modules & (HEAVY | ONLY_FOR_OTHER_COMMANDS | others) == set()


def test_a_log_is_classified_without_what_compiles(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("all is well\n")
    modules_of("classify", log)  # reads the rules, and keeps what it has read
    modules = modules_of("classify", log)
    assert "yaml" not in modules
    assert "triage.classify" in modules
    compiles = {"sqlite3", "triage.compilers.registry", "triage.execution.engine"}
    assert not modules & (HEAVY | ONLY_FOR_OTHER_COMMANDS | compiles)
