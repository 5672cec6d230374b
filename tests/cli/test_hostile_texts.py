"""What compilers, commits, files and arguments contain reaches no output as anything
but text, in any command and format.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import rows
from tests.conftest import Triage
from tests.git_history.history import ENV, History
from tests.programs import write_program
from tests.report.safe_text import CHECKS, assert_is_text

CONTROLS = (
    "\x1b]0;EVIL\x07\x1b[2J\x1b[31mEVIL\x08\x7f\x00\x9b31m\u202eEVIL\u2066\u200b\ufeff"
)
MARKUP = "<script>EVIL</script> <img src=x onerror=EVIL> [EVIL](javascript:EVIL) ![EVIL](https://evil.example/x.png) <E@evil.example>"
REFERENCES = "@someone #123 GH-12 https://evil.example ``` EVIL ```` `EVIL` | EVIL | **EVIL** [red]EVIL[/red] [link=https://evil.example]x[/]"
COMMANDS = "\n::error::EVIL\n  ::set-output name=x::EVIL\r::warning::EVIL\n##[error]EVIL\n# EVIL\n> EVIL\n"
ONE_LINE = f"{CONTROLS} {MARKUP} {REFERENCES}"
FILE = (
    "\x1b[31mEVIL\u202e <img src=x onerror=EVIL> @someone `EVIL` | ::error::EVIL.mlir"
)
LEVEL = "<img src=x onerror=EVIL> @someone #123 `EVIL` | **EVIL** ::error::EVIL"
OUTPUTS = {
    "message": f"m.mlir:1:1: error: 'a.b' op {ONE_LINE}\n{COMMANDS}",
    "commands": f"{COMMANDS}m.mlir:1:1: error: {REFERENCES} {CONTROLS}\n",
    "location": f"<b>\x1b[31mEVIL\u202e@someone|#1:3:4: error: {MARKUP}\n{COMMANDS}",
    "unknown": f"{ONE_LINE}\n{COMMANDS}",
    "exception": f'Traceback (most recent call last):\n  File "{MARKUP}", line 1, in x\nValueError: {ONE_LINE}\n{COMMANDS}',
}
# `old` is silent; `new` prints the text that a program names, and both print IR.
COMPILER = """#!/bin/sh
case "$*" in
*--version*) printf 'IREE (https://iree.dev):\\n  IREE compiler version 1.{minor}.0 @ %040d\\n' {minor}; exit;;
*--help-hidden*) echo 'OPTIONS:
  --compile-to=<value>  - Compilation phase to run up until before emitting output.
    =input              -   Performs input processing.
    =end                -   Complete the full compilation pipeline.
  --iree-hal-target-backends=<string> - Target backends for executable compilation.
  --mlir-print-ir-after-all - Print IR.
  --mlir-print-ir-after-change - Print IR.
  -o <filename> - Output.'; exit;;
*list-target-backends*) printf 'Registered target backends:\\n  llvm-cpu\\n'; exit;;
esac
for word; do
  case "$before" in -o) output="$word";; esac
  case "$word" in -*|"$output") ;; *) input="$word";; esac
  before="$word"
done
case "$*" in
*'--mlir-print-ir-after-all '*) cat '{folder}/dump{minor}' >&2;;
*'--mlir-print-ir-after=the-pass '*) printf '// -----// IR Dump After Pass (the-pass) //----- //\\nfunc.func @f() {{\\n  only.v{minor}\\n}}\\n' >&2;;
esac
if [ {minor} -gt 0 ]; then
  for name in {names}; do if grep -q "text-$name" "$input"; then cat "{folder}/$name.log" >&2; exit 1; fi; done
fi
echo module > "$output"
"""
# A compiler is a binary.
START = 'int execv(); int main(int n, char **w) {{ char *v[99] = {{"sh", "{}"}}; while (--n) v[n + 1] = w[n]; return execv("/bin/sh", v); }}'
DUMP = """// -----// IR Dump After Pass (the-pass) //----- //
"builtin.module"() ({{
  "func.func"() <{{sym_name = "f"}}> ({{
    "a.v{minor}"() {{x = "{text}"}} : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""
FILES = {
    "generated.yaml": "name: generated\ninput: generator.py\ntarget: {backend: llvm-cpu}\n",
    "generator.py": f"import sys\nsys.stderr.write({ONE_LINE + COMMANDS!r})\nsys.exit(1)\n",
    "command.yaml": 'name: command\ncompiler: command\ninput: generator.py\ncommand: ["{toolchain}/print"]\n',
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recipes of nasty cases, a log, two compilers, and a repository with
    nasty subjects.
    """
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "cases").mkdir()
    files = dict(FILES)
    for name, text in OUTPUTS.items():
        file = f"{name} {FILE}"
        files[f"{name}.log"] = text
        files[f"cases/{file}"] = f"module {{\n  // text-{name}\n  // {CONTROLS}\n}}\n"
        files[f"cases/{name}.yaml"] = (
            f"name: {name}\nsummary: {json.dumps(MARKUP + REFERENCES)}\ninput: {json.dumps(file)}\n"
            f"target: {{backend: llvm-cpu}}\nmatrix: {{level: [{json.dumps(LEVEL)}]}}\nflags: ['--x-${{level}}']\n"
        )
    for minor, compiler in enumerate(("old", "new")):
        files[f"dump{minor}"] = DUMP.format(minor=minor, text=f"{MARKUP} {CONTROLS}")
        files[f"{compiler}.sh"] = COMPILER.format(
            minor=minor, folder=folder, names=" ".join(OUTPUTS)
        )
        program = folder / compiler / "bin" / "iree-compile"
        program.parent.mkdir(parents=True)
        main = START.format(folder / f"{compiler}.sh").encode()
        words = ["cc", "-w", "-x", "c", "-", "-o", program]
        subprocess.run(words, input=main, check=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    printing = f"#!/bin/sh\ncat {folder}/unknown.log >&2\nexit 1\n"
    write_program(folder / "built" / "print", printing)
    repository = History.begin(folder / "repository")
    subject = f"{MARKUP} {REFERENCES} {CONTROLS.replace(chr(0), '')}"
    for number in range(3):
        repository.commit(subject, {"a/b.c": str(number)})
    return folder


Called = Callable[..., tuple[str, str]]


@pytest.fixture
def called(place: Path, triage: Triage) -> Called:
    """Runs a command that ends with a code, and returns what it prints, which
    is only text.
    """
    env = {**os.environ, "TRIAGE_HOME": str(place / "home"), **ENV}

    def call(*words: str, code: int) -> tuple[str, str]:
        done = triage(*words, env=env, cwd=place)
        assert_is_text(done.stdout)
        assert_is_text(done.stderr)
        assert "Traceback (most recent call last):\n" not in done.stderr
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr

    return call


# A command line, its exit code, and its formats.
CALLS = """
run cases -t path:new -t path:old                                1  text json junit
run command.yaml -t path:built                                   1  text json junit
run generated.yaml -t path:new                                   2  text json junit
classify message.log commands.log location.log exception.log     1  text json
nightly cases generated.yaml -t path:new -b path:old             1  text json junit markdown
suspects message.log --repo repository --good HEAD~2 --bad HEAD  0  text json
attribute cases/message.yaml --good path:old --bad path:new      0  text json html
remedy cases/message.yaml -t path:new                            3  text json
variants cases/message.yaml -t path:new                          0  text json
lint cases -t path:new                                           2  text json
recipe list cases                                                0  text json
"""


@pytest.mark.parametrize(("line", "code", "forms"), rows(CALLS))
def test_compiler_output_is_only_text(
    called: Called, line: str, code: str, forms: str
) -> None:
    for form in forms.split():
        shown, _ = called(*line.split(), "--format", form, code=int(code))
        if shown:
            CHECKS[form](shown)
        assert form != "html" or "EVIL" in shown


def test_a_nightly_with_reproducers(called: Called, place: Path) -> None:
    cases = "cases/location.yaml cases/message.yaml -t path:new -b path:old"
    called("nightly", *cases.split(), "--reduce", "--out", "out", code=1)
    out = place / "out"
    assert len([*out.glob("reproducers/*")]) == 2
    forms = {".md": "markdown", ".xml": "junit", ".json": "json"}
    for path in (*out.glob("nightly.*"), *out.glob("reproducers/*/README.md")):
        assert_is_text(text := path.read_text("utf-8"))
        CHECKS[forms[path.suffix]](text)
    for script in out.glob("reproducers/*/repro.sh"):
        # each line that quotes a message is a comment
        for line in script.read_text("utf-8").split("\n"):
            is_own = "EVIL" not in line or "iree-compile" in line
            assert is_own or line.startswith("#"), line
    for form in ("text", "json"):
        called("replay", "out/reproducers", "-t", "path:new", "--format", form, code=0)


@pytest.mark.parametrize(
    "words",
    [
        ["run", f"--bad{ONE_LINE}"],
        ["classify", f"{COMMANDS}{ONE_LINE}"],
        [f"{ONE_LINE}{COMMANDS}"],
        ["run", "cases", "-t", f"{COMMANDS}{ONE_LINE}"],
        ["suspects", ONE_LINE, "--repo", COMMANDS, "--good", ONE_LINE, "--bad", "a"],
    ],
)
def test_arguments_are_quoted_as_text(called: Called, words: list[str]) -> None:
    _, errors = called(*(word.replace("\0", "") for word in words), code=2)
    assert errors
