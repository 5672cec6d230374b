"""The example projects of `docs/how-to/commits.md`, on clones that stand for real ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bisect.tiny_compiler import answered
from tests.conftest import Triage
from tests.git_history.history import ENV, History

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
COUNT, CULPRIT = 9, 6
CYTHON = """import sys
from Cython import version
assert sys.argv[1:2] == ["-3"]
if version >= 6:
    sys.exit("callback.pyx:8:13: Cannot assign type")
open(sys.argv[4], "w").write("int made;")
"""
TENSOR = """version = {number}
class Tensor:
    def arange(count): return Tensor()
    def reshape(self, *shape): return self
    def sum(self, axis): return self
    def tolist(self): return [6, 22, 38 + (version >= 6)]
"""
CONFIGURE = """#!/bin/sh
sed "s,@source@,$(dirname "$0"),; s,@prefix@,${1#--prefix=},g" \\
  "$(dirname "$0")/Makefile.in" > Makefile
"""
MAKEFILE = """mycc: @source@/mycc.c
\t$(CC) -O0 -o $@ $<
install: mycc
\tmkdir -p $(DESTDIR)@prefix@/bin && cp mycc $(DESTDIR)@prefix@/bin
"""
MYCC = """#include <stdio.h>
int main(int count, char **words) {
  if ({number} >= 6) return fprintf(stderr, "program.c:1:5: error: no type\\n"), 1;
  FILE *output = fopen(words[4], "w");
  return !output || fputs("code", output) < 0 || fclose(output);
}
"""


def files(project: str, number: int) -> dict[str, str | bytes]:
    if project == "cython":
        version = f"version = {number}\n"
        return {"cython.py": CYTHON, "Cython/__init__.py": version}
    if project == "make":
        program = MYCC.replace("{number}", str(number))
        return {"configure": CONFIGURE, "Makefile.in": MAKEFILE, "mycc.c": program}
    return {"tinygrad/__init__.py": TENSOR.format(number=number)}


@pytest.mark.parametrize(
    ("project", "recipe"),
    [
        ("cython", "callback.yaml"),
        ("make", "program.yaml"),
        ("tinygrad", "row-sum.yaml"),
    ],
)
def test_an_example_project_bisects_commits(
    project: str,
    recipe: str,
    tmp_path: Path,
    triage: Triage,
    workplace: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    clone = History.begin(tmp_path / "clone")
    if project == "make":
        clone.write("configure", CONFIGURE)
        (clone.path / "configure").chmod(0o755)
    for number in range(COUNT):
        day = f"2022-06-{1 + number:02}T12:00:00+00:00"
        clone.commit(f"change {number}", files(project, number), day)
        clone.commit(f"notes {number}", {"docs/notes.txt": str(number)}, day)
    shutil.copytree(EXAMPLES / project, workplace, dirs_exist_ok=True)
    days = ["--good", "2022-06-01", "--bad", "2022-06-09"]
    words = ["bisect", recipe, "--repo", clone.path, *days, "--format", "json"]
    found = answered(triage(*words))
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert found["confirmed"]


def test_the_page_shows_the_files() -> None:
    page = (EXAMPLES.parent / "how-to" / "commits.md").read_text()
    for name in ("cython/triage.yaml", "cython/callback.yaml", "make/triage.yaml"):
        assert (EXAMPLES / name).read_text() in page
