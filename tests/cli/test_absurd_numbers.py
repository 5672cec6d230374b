"""A number that nobody needs is refused, or costs no more than another one."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import recipe

LIMITS = {
    "timeout": 30,
    "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
}
LARGE = str(10**30)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "case.yaml", "--jobs", LARGE),
        ("reduce", "case.yaml", "-t", "path:.", "--jobs", "1000000"),
        ("nightly", "case.yaml", "--jobs", LARGE),
        ("nightly", "case.yaml", "--shard", f"1/{'9' * 5000}"),
        ("bisect", "case.yaml", "--metric", "spills", "--above", "nan"),
        ("bench", "case.yaml", "-t", "path:.", "--time", "9" * 5000),
        ("toolchains", "prune", "--keep", f"{LARGE}GiB"),
    ],
)
def test_an_absurd_number_is_refused_at_once(
    triage_process: Triage, home: Path, workplace: Path, words: tuple[str, ...]
) -> None:
    recipe(workplace, "case", "fine")
    generated = recipe(
        workplace,
        "generated",
        "fine",
        f"args: {{{', '.join(f'a{number}: 0' for number in range(40))}}}",
    )
    generated.write_text(
        generated.read_text().replace("generated.mlir", "generator.py")
    )
    (workplace / "generator.py").touch()
    done = triage_process(*words, **LIMITS)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("columns", ["1000000000", "9" * 5000])
def test_the_width_of_a_terminal_is_bounded(
    triage_process: Triage, home: Path, workplace: Path, columns: str
) -> None:
    recipe(workplace, "case", "fine")
    for words in (("run", "--help"), ("recipe", "list", ".")):
        done = triage_process(*words, env=os.environ | {"COLUMNS": columns}, **LIMITS)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout) < 100_000
