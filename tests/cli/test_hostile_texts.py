"""What compilers, commits, files and arguments contain reaches no output as anything
but text, in any command and format.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.conftest import Triage
from tests.git_history.history import ENV, History
from tests.programs import write_program

CONTROLS = (
    "\x1b]0;EVIL\x07\x1b[2J\x1b[31mEVIL\x08\x7f\x00\x9b31m\u202eEVIL\u2066\u200b\ufeff"
)
MARKUP = "<script>EVIL</script>"
MARKUP += " <img src=x onerror=EVIL> [EVIL](javascript:EVIL) ![EVIL](https://evil.example/x.png) <E@evil.example>"
REFERENCES = (
    "@someone #123 GH-12 https://evil.example ``` EVIL ```` `EVIL` | EVIL | **EVIL**"
)
REFERENCES += " [red]EVIL[/red] [link=https://evil.example]x[/]"
COMMANDS = "\n::error::EVIL\n  ::set-output name=x::EVIL\r::warning::EVIL\n##[error]EVIL\n# EVIL\n> EVIL\n"
ONE_LINE = f"{CONTROLS} {MARKUP} {REFERENCES}"
FILE = (
    "\x1b[31mEVIL\u202e <img src=x onerror=EVIL> @someone `EVIL` | ::error::EVIL.mlir"
)
LEVEL = "<img src=x onerror=EVIL> @someone #123 `EVIL` | **EVIL** ::error::EVIL"
ENDS = ("--good", ONE_LINE, "--bad", ONE_LINE)
OUTPUTS = {
    "message": f"m.mlir:1:1: error: 'a.b' op {ONE_LINE}\n{COMMANDS}",
    "commands": f"{COMMANDS}m.mlir:1:1: error: {REFERENCES} {CONTROLS}\n",
    "location": f"<b>\x1b[31mEVIL\u202e@someone|#1:3:4: error: {MARKUP}\n{COMMANDS}",
    "unknown": f"{ONE_LINE}\n{COMMANDS}",
    "exception": f'Traceback (most recent call last):\n  File "{MARKUP}", line 1, in x\nValueError: {ONE_LINE}\n{COMMANDS}',
}
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
*'--mlir-print-ir-after-all '*) cat '{texts}/dump{minor}' >&2;;
*'--mlir-print-ir-after=the-pass '*) printf '// -----// IR Dump After Pass (the-pass) //----- //\\nfunc.func @f() {{\\n  only.v{minor}\\n}}\\n' >&2;;
esac
if [ {minor} -gt 0 ]; then
  for name in {names}; do if grep -q "text-$name" "$input"; then cat "{texts}/$name.log" >&2; exit 1; fi; done
fi
echo module > "$output"
"""
BEFORE, AFTER = "path:HERE/compiler0", "path:HERE/compiler1"


@dataclass(frozen=True)
class Place:
    """A folder with recipes of nasty cases, a log, and a repository with nasty
    subjects.
    """

    folder: Path
    names: dict[str, str]
    """What words of command lines stand for."""

    def words(self, *words: str) -> list[str]:
        folder = str(self.folder)
        return [self.names.get(word, word).replace("HERE", folder) for word in words]


def write_compilers(folder: Path) -> None:
    """Write two compilers: one that is silent, and one that prints the texts."""
    for minor, name in enumerate(("plain", "nasty")):
        (folder / f"dump{minor}").write_text(
            "// -----// IR Dump After Pass (the-pass) //----- //\n"
            f'"builtin.module"() ({{\n  "func.func"() <{{sym_name = "f"}}> ({{\n'
            f'    "a.{name}"() {{x = "{MARKUP} {CONTROLS}"}} : () -> ()\n  }}) : () -> ()\n}}) : () -> ()\n'
        )
        program = folder / f"compiler{minor}" / "bin" / "iree-compile"
        program.parent.mkdir(parents=True)
        script = program.with_suffix(".sh")
        script.write_text(
            COMPILER.format(minor=minor, texts=folder, names=" ".join(OUTPUTS))
        )
        main = f'int execv(); int main(int n, char **w) {{ char *v[99] = {{"sh", "{script}"}}; while (--n) v[n + 1] = w[n]; '
        main += 'return execv("/bin/sh", v); }'
        subprocess.run(
            ["cc", "-w", "-x", "c", "-", "-o", program], input=main.encode(), check=True
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A home in which every case was run."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "cases").mkdir()
    for name, text in OUTPUTS.items():
        file = f"{name} {FILE}"
        (folder / "cases" / file).write_text(
            f"module {{\n  // text-{name}\n  // {CONTROLS}\n}}\n"
        )
        (folder / f"{name}.log").write_text(text, "utf-8")
        (folder / "cases" / f"{name}.yaml").write_text(
            f"name: {name}\nsummary: {json.dumps(MARKUP + REFERENCES)}\ninput: {json.dumps(file)}\n"
            f"target: {{backend: llvm-cpu}}\nmatrix: {{level: [{json.dumps(LEVEL)}]}}\nflags: ['--x-${{level}}']\n"
        )
    (folder / "generated.yaml").write_text(
        "name: generated\ninput: generator.py\ntarget: {backend: llvm-cpu}\n"
    )
    (folder / "generator.py").write_text(
        f"import sys\nsys.stderr.write({ONE_LINE + COMMANDS!r})\nsys.exit(1)\n"
    )
    (folder / "command.yaml").write_text(
        "name: command\ncompiler: command\ninput: generator.py\n"
        'command: ["{toolchain}/bin/print", "{output}"]\nversion: {run: ["{toolchain}/bin/print"], pattern: ".*"}\n'
    )
    printing = f"#!/bin/sh\ncat {folder}/unknown.log >&2\nexit 1\n"
    write_program(folder / "built" / "bin" / "print", printing)
    repository = History.begin(folder / "repository")
    subject = f"{MARKUP} {REFERENCES} {CONTROLS.replace(chr(0), '')}"
    shas = [repository.commit(subject, {"a/b.c": str(n)}) for n in range(3)]
    write_compilers(folder)
    ends = {"GOOD": f"commit:{shas[0]}", "BAD": f"commit:{shas[-1]}"}
    return Place(folder, {"BEFORE": BEFORE, "AFTER": AFTER, **ends})


def assert_is_text(shown: str) -> None:
    assert all(character in "\n\t" or character.isprintable() for character in shown)
    assert not [
        line
        for line in shown.split("\n")
        if line.lstrip().startswith("::") or "##[" in line
    ]


def assert_is_xml(shown: str) -> None:
    assert ElementTree.fromstring(shown.encode()).iter("testcase")


_OWN_HTML = re.compile(r"(<details>\n?<summary>[^<>]+</summary>|</details>)\n")


def assert_is_safe_markdown(shown: str) -> None:
    def walk(tokens: list[Token] | None) -> Iterator[Token]:
        for token in tokens or []:
            yield token
            yield from walk(token.children)

    tokens = list(walk(MarkdownIt("commonmark").enable("table").parse(shown)))
    for token, after in pairwise([*tokens, tokens[-1]]):
        assert token.type not in ("image", "html_inline", "blockquote_open"), token
        assert token.type != "html_block" or _OWN_HTML.fullmatch(token.content), token
        if token.type == "link_open":
            assert re.match(
                r"reproducers/|issues/|https://github\.com/", str(token.attrs["href"])
            ), token
        if token.type in ("heading_open", "strong_open", "em_open"):
            assert not after.content.startswith("EVIL"), after
        if token.type == "text":
            assert not re.search(r"(?<!\w)[@#](?=\w)", token.content), token


class Page(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "iframe", "a")
        assert not [
            name
            for name, _ in attrs
            if name.startswith("on") or name in ("href", "src")
        ]


def assert_is_safe_html(shown: str) -> None:
    assert "EVIL" in shown
    Page().feed(shown)


CHECKS = {
    "json": json.loads,
    "junit": assert_is_xml,
    "markdown": assert_is_safe_markdown,
    "html": assert_is_safe_html,
}
CALLS = [
    ("run HERE/cases -t AFTER -t BEFORE", "text json junit", 1),
    ("run HERE/command.yaml -t path:HERE/built", "text json junit", 1),
    ("run HERE/generated.yaml -t AFTER", "text json junit", 2),
    (
        "classify HERE/message.log HERE/commands.log HERE/location.log HERE/exception.log",
        "text json",
        1,
    ),
    (
        "nightly HERE/cases HERE/generated.yaml -t AFTER -b BEFORE",
        "text json junit markdown",
        1,
    ),
    (
        "suspects HERE/message.log --repo HERE/repository --good GOOD --bad BAD",
        "text json",
        0,
    ),
    (
        "attribute HERE/cases/message.yaml --good BEFORE --bad AFTER",
        "text json html",
        0,
    ),
    ("remedy HERE/cases/message.yaml -t AFTER", "text json", 3),
    ("variants HERE/cases/message.yaml -t AFTER", "text json", 0),
    ("lint HERE/cases -t AFTER", "text json", 2),
    ("recipe list HERE/cases", "text json", 0),
]


Called = Callable[..., tuple[str, str]]


@pytest.fixture
def called(place: Place, triage: Triage) -> Called:
    """Runs a command that ends with one of some codes, and returns what it prints, which
    is only text.
    """
    env = {**os.environ, "TRIAGE_HOME": str(place.folder / "home"), **ENV}

    def call(*words: str, codes: tuple[int, ...]) -> tuple[str, str]:
        done = triage(*place.words(*words), env=env, cwd=place.folder)
        assert_is_text(done.stdout)
        assert_is_text(done.stderr)
        assert "Traceback (most recent call last):\n" not in done.stderr
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout, done.stderr

    return call


@pytest.mark.parametrize(
    ("line", "form", "code"),
    [(line, form, code) for line, forms, code in CALLS for form in forms.split()],
)
def test_compiler_output_is_only_text(
    called: Called, line: str, form: str, code: int
) -> None:
    shown, _ = called(*line.split(), "--format", form, codes=(code,))
    if shown and form in CHECKS:
        CHECKS[form](shown)


def test_a_nightly_with_reproducers(called: Called, place: Place) -> None:
    line = "nightly HERE/cases/location.yaml HERE/cases/message.yaml -t AFTER -b BEFORE --reduce --out HERE/out"
    called(*line.split(), codes=(1,))
    out = place.folder / "out"
    files = {"nightly.md": "markdown", "nightly.xml": "junit", "nightly.json": "json"}
    for name, form in files.items():
        assert_is_text(text := (out / name).read_text("utf-8"))
        CHECKS[form](text)
    reproducers = list((out / "reproducers").iterdir())
    assert len(reproducers) == 2
    for folder in reproducers:
        assert_is_text(text := (folder / "README.md").read_text("utf-8"))
        assert_is_safe_markdown(text)
        # each line of the script that quotes a message is a comment
        for line in (folder / "repro.sh").read_text("utf-8").split("\n"):
            if "EVIL" in line and "iree-compile" not in line:
                assert line.startswith("#"), line
    words = ("replay", *map(str, reproducers), "-t", "AFTER", "--format")
    for form in ("text", "json"):
        called(*words, form, codes=(0, 1))


@pytest.mark.parametrize(
    "words",
    [
        ["run", f"--bad{ONE_LINE}"],
        ["classify", f"{COMMANDS}{ONE_LINE}"],
        [f"{ONE_LINE}{COMMANDS}"],
        ["run", "HERE/cases", "-t", f"{COMMANDS}{ONE_LINE}"],
        ["suspects", ONE_LINE, "--repo", f"HERE/{COMMANDS}", *ENDS],
    ],
)
def test_arguments_are_quoted_as_text(called: Called, words: list[str]) -> None:
    _, errors = called(*(word.replace("\0", "") for word in words), codes=(2,))
    assert errors
