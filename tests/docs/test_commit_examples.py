"""The example projects of `docs/how-to/commits.md`, on clones that stand for real ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked
from tests.git_history.history import ENV, History

EXAMPLES = ROOT / "docs" / "examples"
CYTHON = """import sys
from Cython import version
assert sys.argv[1:2] == ["-3"]
if version >= 6:
    sys.exit("callback.pyx:8:13: Cannot assign type")
open(sys.argv[4], "w").write("int made;")
"""
TENSOR = """version = NUMBER
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
  if (NUMBER >= 6) return fprintf(stderr, "program.c:1:5: error: no type\\n"), 1;
  FILE *output = fopen(words[4], "w");
  return !output || fputs("code", output) < 0 || fclose(output);
}
"""


# The recipe and the files of each project; NUMBER is that of a commit.
PROJECTS = {
    "cython": (
        "callback.yaml",
        {"cython.py": CYTHON, "Cython/__init__.py": "version = NUMBER\n"},
    ),
    "make": (
        "program.yaml",
        {"configure": CONFIGURE, "Makefile.in": MAKEFILE, "mycc.c": MYCC},
    ),
    "tinygrad": ("row-sum.yaml", {"tinygrad/__init__.py": TENSOR}),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("project", PROJECTS)
def test_an_example_project_bisects_commits(
    project: str,
    tmp_path: Path,
    asked: Asked,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    recipe, files = PROJECTS[project]
    clone = History.begin(tmp_path / "clone")
    clone.write("configure", "")
    (clone.path / "configure").chmod(0o755)
    for number in range(9):
        for name, text in files.items():
            clone.write(name, text.replace("NUMBER", str(number)))
        day = f"2022-06-{1 + number:02}T12:00:00+00:00"
        clone.commit(f"change {number}", {}, day)
        clone.commit(f"notes {number}", {"docs/notes.txt": str(number)}, day)
    shutil.copytree(EXAMPLES / project, workplace, dirs_exist_ok=True)
    days = ("--good", "2022-06-01", "--bad", "2022-06-09")
    answer = asked("bisect", recipe, "--repo", clone.path, *days)
    assert answer["after"]["subject"] == "change 6"
    assert answer["confirmed"]


def test_the_page_shows_the_files() -> None:
    page = (EXAMPLES.parent / "how-to" / "commits.md").read_text()
    for name in ("cython/triage.yaml", "cython/callback.yaml", "make/triage.yaml"):
        assert (EXAMPLES / name).read_text() in page
