"""`triage toolchains prune` bounds what the home keeps, by age and size, and takes
nothing from a command that runs.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.test_cli import TRIAGE
from tests.conftest import Asked, Triage
from tests.fake_releases import install
from triage.toolchains.home import KeptKind

MIB = 1 << 20
DAY = 86400.0


def keep(home: Path, name: str, age: float) -> Path:
    """Put a kept file, or a folder with one, into the home; `age` in days."""
    path = home / name
    file = path if path.suffix else path / "best.mlir"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * MIB)
    then = time.time() - age * DAY
    for changed in (file, path):
        os.utime(changed, (then, then))
    return path


PRUNE = ("toolchains", "prune", "--keep")


@pytest.mark.parametrize("nothing", ["0", "0.0GiB"])
def test_the_least_recently_used_go_until_the_rest_fits(
    asked: Asked, home: Path, nothing: str
) -> None:
    paths = [
        keep(home, f"{kind}/{'a' if kind == 'reductions' else 'a.mlir'}", age)
        for age, kind in enumerate(map(str, KeptKind))
    ]
    pruned = asked(*PRUNE, "3MB")
    assert [path for path in paths if path.exists()] == paths[:2]
    assert len(pruned["removed"]) == len(paths) - 2
    assert pruned["bytes_left"] < 3_000_000
    asked(*PRUNE, nothing)
    assert not any(path.exists() for path in paths)


def test_a_command_that_runs_keeps_its_files(
    triage: Triage, asked: Asked, home: Path, tmp_path: Path
) -> None:
    """A generated input that a hanging compiler reads stays; it is made again after it
    was pruned.
    """
    built, folder = install(tmp_path / "built", 5), tmp_path / "recipes"
    folder.mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (folder / "generator.py").write_text(
        f"import os\nprint('// ' + ('hangs {pipe}' if os.path.exists({str(pipe)!r}) else 'fine'))\n"
    )
    recipe = folder / "case.yaml"
    recipe.write_text("name: case\ninput: generator.py\ntarget: {backend: llvm-cpu}\n")
    with subprocess.Popen(
        [*TRIAGE, "run", recipe, "-t", f"path:{built}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        with pipe.open("rb"):  # the compiler runs
            done = triage(*PRUNE, "0")
        assert done.returncode == 4
        assert "another command uses it" in done.stderr
        assert list((home / "inputs").glob("*.mlir"))
        process.terminate()
        process.communicate(timeout=30)
    pipe.unlink()
    asked(*PRUNE, "0")
    assert not list((home / "inputs").iterdir())
    assert triage("run", recipe, "-t", f"path:{built}").returncode == 0
    assert list((home / "inputs").glob("*.mlir"))
