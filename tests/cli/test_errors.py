"""Mistakes, and machines that do not work: the exit code, and a message that says what
to write instead.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.cli.conftest import Lab, rows
from tests.conftest import ROOT, Triage
from tests.fake_releases import command_recipe
from tests.programs import TRIAGE

# A command line, its exit code, and what its message says.
MISTAKES = f"""
run key.yaml                         2  key.yaml:4:1: "flgs".* mean "flags"
run good.yaml -t 9.9.9               4  9.9.9.*list
run binary                           2  binary is not a recipe \\(.yaml\\)
run empty                            2  has no recipe
run good.yaml -t triton:3.2.0        2  of triton, .* use iree
bisect good.yaml --bad triton:3.2.0  2  not a revision of iree
run good.yaml -t nightly:soon        2  not a revision
run good.yaml -t banana              2  is not a revision of iree: write .3\\.13\\.0
run good.yaml -t ""                  2  is not a revision of iree: write .3\\.13\\.0
run good.yaml -t path:               2  is not a revision of iree: write .3\\.13\\.0
run good.yaml -t ../x                2  is not a revision of iree: write .3\\.13\\.0
run good.yaml -t 3.x                 2  is not a revision of iree: write .3\\.13\\.0
run good.yaml -t 2025-02-30          2  is not a revision of iree: write .3\\.13\\.0
run good.yaml -t commit:abc1234      2  --repo
run syntax.py:kernel                 2  syntax.py:2: .*closed
run good.yaml --format sarif         2  json
classify nothing.log                 2  nothing.log
classify nothing.log --format junit  2  json
bisect many.yaml                     2  --case: many\\[kind=a\\]
bisect many.yaml --case kind=c       2  many\\[kind=a\\]
bisect good.yaml --above 3           2  --metric
bisect good.yaml --good 1.0.0 --metric artifact_bytes --above 9  2  --bad
bisect good.yaml --good 1.0.0 --bad 1.1.0 --metric run_seconds --above 9  2  --above
bisect good.mlir --repo .            2  repository
lint empty.mlirbc                    2  empty.mlirbc
lint good.yaml -t path:/nowhere      4  /nowhere does not exist
nightly good.yaml --reduce           2  --out
replay empty                         2  contains no reproducer
why empty.mlir                       2  empty
why empty/notes.md                   2  notes.md is empty or binary
why "it's gone.mlir"                 2  not a file
why good.mlir --backend nope         2  ^triage: "nope" is not a known backend
bisect good.yaml --find fix --good 1.0.0 --bad 1.3.0  2  needs --good before --bad, and --find fix
bisect good.yaml --bad 99.0.0        4  no iree 99.0.0
reduce good.yaml -t 99.0.0           4  no iree 99.0.0
lint good.yaml -t path:broken        4  Exec format error
nightly good.mlir                    2  recipe new
nightly good.yaml --shard 0/4        2  write I/N
nightly good.yaml --shard 5/4        2  write I/N
nightly good.yaml --shard a/b        2  write I/N
nightly good.yaml --shard 1/²        2  write I/N
nightly good.yaml --shard 1/{"9" * 5000}  2  write I/N
nights show 7                        2  7
nights prune --keep 0                2  keep
site                                 2  no night
show nothing                         2  nothing
expect update -- iree-compile a.mlir --x  2  recipe new
lint -- iree-compile good.mlir --iree-hal-target-backends=nope  2  no backend|not a known backend
lint none.mlir                       2  no such file
replay own                           2  own/reproducer.json: no package
replay {ROOT}/reproducers/affinity-symbol-undeclared -t 99.0.0  4  no iree 99.0.0
replay {ROOT}/reproducers/affinity-symbol-undeclared -t soon  2  ^triage: 'soon' is not a revision
"""
# A command line, its exit code, and what its answer says. A failure outweighs what could
# not be tested.
ANSWERS = f"""
run exits.yaml                                       2  exit status 1: no such shape
run silent.yaml                                      2  printed nothing
run crashes.yaml                                     2  SIGSEGV
run good.yaml untestable.yaml -t 1.0.0               0  untestable
run untestable.yaml -t 1.0.0                         3  untestable
run untestable.yaml bad.yaml -t 1.0.0                1  failed
run bad.yaml good.yaml -t 1.0.0 -t path:broken       1  failed
run good.yaml -t 1.0.0 -t path:broken                4  passed
nightly good.yaml -b 1.0.0 -t path:broken            4  1 untestable
nightly bad.yaml -b path:/nowhere -t 1.0.0           4  1 untestable
nightly untestable.yaml -b 1.0.0 -t 1.1.0            3  nothing could be tested
nightly untestable.yaml good.yaml -b 1.0.0 -t 1.1.0  0  nothing new fails in 1 case; 1 not tested
nightly bad.yaml good.yaml -b 1.0.0 -t 1.1.0 --case g*d  0  nothing new fails in 1 case
attribute good.yaml --good 1.0.0 --bad path:broken   4  cannot compare
attribute bad.yaml --good 1.0.0 --bad 1.4.0          3  1.0.0 fails too
variants many.yaml -t path:broken                    4  No case fails
reduce {ROOT}/recipes/models/row_sum.mlir --backend rocm --chip gfx924 -t installed  3  not know its target
"""
GENERATORS = {
    "exits": "import sys; sys.exit('no such shape')",
    "silent": "pass",
    "crashes": "import os; os.kill(os.getpid(), 11)",
}


@pytest.fixture
def place(lab: Lab) -> Lab:
    """A folder with recipes that work, and with some that do not."""
    lab.recipe("good", "fine")
    lab.recipe("bad", "breaks-0 differs-4")
    lab.recipe("untestable", "unreadable")
    lab.recipe("key", "fine", "flgs: [--a]")
    lab.recipe("many", "fine", "matrix: {kind: [a, b]}\nflags: ['--${kind}']")
    for name, code in GENERATORS.items():
        target = "target: {backend: llvm-cpu}\nlimits: {timeout: 1s, memory: 200MiB}"
        lab.write(f"{name}.yaml", f"name: {name}\ninput: {name}.py\n{target}\n")
        lab.write(f"{name}.py", code)
    lab.write("empty/notes.md", "")
    lab.write("empty.mlir", "")
    lab.write("empty.mlirbc", "ML\xefR\0")
    lab.write("syntax.py", "width = 4\nprint('// fine'")
    lab.write("binary", "\x7fELF\2\1\xff\0")
    record = '{"case": "a", "signature": "b", "bad": {"name": "local build"}}'
    own = lab.write("own/reproducer.json", record).parent
    command_recipe(own, "recipe", "")
    lab.write("broken/tools/iree-compile", "not a program").chmod(0o755)
    return lab


@pytest.mark.parametrize(("line", "code", "message"), rows(MISTAKES))
def test_a_mistake_is_answered_with_what_to_write(
    place: Lab, line: str, code: str, message: str
) -> None:
    assert re.search(message, place.refused(line, int(code)))


@pytest.mark.parametrize(("line", "code", "answer"), rows(ANSWERS))
def test_the_exit_code_says_what_was_found_or_why_nothing_was(
    place: Lab, line: str, code: str, answer: str
) -> None:
    assert answer in place(line, int(code)).stdout


@pytest.mark.parametrize("home", ["/proc/triage", "good.yaml", "a home"])
@pytest.mark.parametrize("line", ["run good.yaml", "reduce good.yaml -t 1.0.0"])
def test_an_unusable_home_is_an_environment_failure(
    place: Lab, monkeypatch: pytest.MonkeyPatch, home: str, line: str
) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(place.folder / home))
    assert "TRIAGE_HOME" in place.refused(line, 4)


@pytest.mark.parametrize(
    ("mount", "line", "message"),
    [
        ("size=8m,ro", "run good.yaml", "read-only"),
        ("size=1m", "run good.yaml", "full"),
        ("size=60k", "init small/a", "cannot write small/a/"),
    ],
)
def test_a_read_only_or_full_disk_is_an_environment_failure(
    place: Lab, mount: str, line: str, message: str
) -> None:
    fill = "dd if=/dev/zero of=small/fill bs=1k 2>&-;" if message == "full" else ""
    mounted = f"mkdir small && mount -t tmpfs -o {mount} tmpfs small && {fill}"
    script = f'{mounted} TRIAGE_HOME=$PWD/small/home exec "$@" {line}'
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    done = subprocess.run(
        [*words, *TRIAGE], cwd=place.folder, capture_output=True, text=True
    )
    assert done.returncode == 4, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_not_an_error(triage_process: Triage) -> None:
    read, write = os.pipe()
    os.close(read)
    pipes = {"capture_output": False, "stdout": write, "stderr": subprocess.PIPE}
    done = triage_process("recipe", "schema", **pipes)
    assert (done.returncode, done.stderr) == (0, "")
