"""What is fuzzed: for each kind of input some valid examples, and a check that reads
any bytes in their place.

A check may raise only the errors of the program. It asserts what must hold of an input
that is accepted.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from unittest import mock

import requests
from urllib3.response import HTTPResponse

from tests.classify import samples
from tests.mlir.printed_ir import WORDS
from triage.classify import packaged_rules
from triage.classify.findings import failures_of
from triage.classify.reader import read_log
from triage.classify.rules import check_rules
from triage.cli.interactive_bisect import read_journal
from triage.compilers.pasted_text import RecipeRequest
from triage.compilers.recipe_start import start_from_text
from triage.compilers.registry import recipe_families
from triage.execution.cache import Record, ResultCache, record_reader
from triage.mlir.fingerprint import DumpReader
from triage.mlir.generic_form import UnparsableError, parse_module, print_module
from triage.model.content import Address
from triage.model.errors import BadFiles
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Failure
from triage.recipes.loader import load_recipes
from triage.toolchains.home import Home, Workspace
from triage.toolchains.install import Package
from triage.toolchains.project import load_project

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """`seeds`: makes valid inputs; `check`: reads any bytes, with an empty folder to
    work in.
    """

    seeds: Callable[[], Sequence[bytes]]
    check: Callable[[bytes, Path], None]


def _file(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _files(pattern: str) -> list[bytes]:
    files = [path.read_bytes() for path in sorted(ROOT.glob(pattern))]
    return [data for data in files if len(data) < 20_000]


def recipe(data: bytes, folder: Path) -> None:
    """A problem is a sentence on one line of the file."""
    path = _file(data, folder, "recipe.yaml")
    try:
        for case in load_recipes([path], recipe_families()):
            assert case.name
    except BadFiles as error:
        for problem in error.problems:
            assert problem.message.endswith((".", "?"))
            assert len(problem.message.splitlines()) == 1
            assert (problem.line or 1) <= len(data.splitlines()) + 1


def project(data: bytes, folder: Path) -> None:
    assert load_project(_file(data, folder, "triage.yaml")).name


def rules(data: bytes, folder: Path) -> None:
    for rule in check_rules(_file(data, folder, "rules.yaml")):
        assert rule.name


def log(data: bytes, folder: Path) -> None:
    """The pieces in which a log arrives make no difference."""
    halves = data[: len(data) // 2], data[len(data) // 2 :]
    assert _failures_of([data]) == _failures_of(halves)


def _failures_of(pieces: Iterable[bytes]) -> tuple[Failure, ...]:
    findings = read_log(pieces, packaged_rules()).findings
    return failures_of([*findings.causes(), *findings.of_kind(remarks=True)])


def text(data: bytes, folder: Path) -> None:
    """A recipe that starts from a pasted text has a program."""
    content = data.decode("utf-8", "replace")
    path = folder / "made.yaml"
    wanted = RecipeRequest(path, None, "llvm-cpu", None, None, text=content)
    start = start_from_text(wanted, "issue.md")
    assert start.copied or start.input


def mlir(data: bytes, folder: Path) -> None:
    """A module that is printed and parsed again is the same."""
    dump = DumpReader(WORDS, lambda _: None)
    dump.feed(data)
    try:
        module = parse_module(data.decode("utf-8", "replace"))
    except UnparsableError:
        return
    text = print_module(module)
    assert print_module(parse_module(text)) == text


def evidence(data: bytes, folder: Path) -> None:
    """What is read as a record of this machine can be kept and found."""
    with closing(ResultCache(folder / "evidence.db")) as store:
        for line in data.decode("utf-8", "replace").splitlines():
            with suppress(ValueError):
                read = record_reader().validate_json(line, strict=True)
                store.add(read)
                assert store.find_all(read.key) != [None]


def journal(data: bytes, folder: Path) -> None:
    """A journal is read whole or as empty."""
    path = _file(data, folder, "journal.json")
    assert all(len(entry) == 2 for entry in read_journal(path))


def _response(data: bytes, url: str) -> requests.Response:
    """An answer made of a status line, headers and a body."""
    first, _, rest = data.partition(b"\n")
    response = requests.Response()
    response.url = url
    response.status_code = int(first) if first.isdigit() and len(first) == 3 else 200
    response.reason = "reason"
    head, _, body = rest.partition(b"\n\n")
    response.headers.update(BytesHeaderParser().parsebytes(head).items())
    response.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
    return response


def http(data: bytes, folder: Path) -> None:
    """Pages of an index."""
    address = Address("https://index.example/simple/")
    package = Package(Workspace(Home(folder)), "iree-base-compiler", address=address)
    with (
        mock.patch("requests.Session.get", lambda _, url, **__: _response(data, url)),
        mock.patch("triage.toolchains.index._TRANSIENT", ()),  # nothing is waited for
    ):
        assert package.listed is not None


def _logs() -> list[bytes]:
    return [
        value.encode()
        for name, value in vars(samples).items()
        if name.isupper() and isinstance(value, str)
    ]


def _modules() -> list[bytes]:
    nested = '"builtin.module"() ({\n  "func.func"() <{function_type = (i32) -> i32, sym_name = "f"}> ({\n  ^bb0(%a: i32):\n'
    nested += '    %0:2 = "t.two"(%a) {x = [1, 2], s = "a\\"b"} : (i32) -> (i32, f32) loc("a.mlir":3:4)\n'
    nested += '    "cf.br"(%0#0)[^bb1] : (i32) -> ()\n  ^bb1(%b: i32):\n'
    nested += '    "func.return"(%b) : (i32) -> ()\n  }) : () -> ()\n}) : () -> ()\n'
    dump = f"// -----// IR Dump After CSE (cse) //----- //\n{nested}"
    dump += f"\n// -----// IR Dump After X Failed (x-y) //----- //\n{nested}"
    alias = f"#map = affine_map<(d0) -> (d0)>\n{nested}"
    return [text.encode() for text in (nested, dump, alias)]


def _records() -> list[bytes]:
    output = Captured("x.mlir:1:1: error: boom")
    execution = Execution(("iree-compile",), Ending.EXITED, 1, stderr=output)
    record = Record("key", "case", "3.2.0", execution, at="2026-01-01T00:00:00+00:00")
    return [json.dumps(asdict(record)).encode()]


def _journals() -> list[bytes]:
    entry = {"name": "3.2.0", "verdict": "bad", "by": "probe", "why": "class: text"}
    entries = [entry, entry | {"verdict": "skip", "name": "cd34"}]
    return [json.dumps({"bisect": "key", "entries": entries}).encode()]


def _answers() -> list[bytes]:
    wheel = "iree_base_compiler-3.2.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    page = f'<html><body><a href="../../{wheel}#sha256={"0" * 64}" data-requires-python="&gt;=3.9">{wheel}</a></body></html>'
    simple = f'''{{"meta": {{"api-version": "1.0"}}, "name": "iree-base-compiler", "files": [
        {{"filename": "{wheel}", "url": "https://f.example/{wheel}", "hashes": {{"sha256": "{"0" * 64}"}}, "yanked": false}}]}}'''
    answers = (
        f"200\nContent-Type: text/html; charset=utf-8\n\n{page}",
        f"200\nContent-Type: application/vnd.pypi.simple.v1+json\n\n{simple}",
        '429\nRetry-After: 30\nX-RateLimit-Remaining: 0\n\n{"message": "slow down"}',
    )
    return [answer.encode() for answer in answers]


def _texts() -> list[bytes]:
    commands = (
        (ROOT / "tests/compilers/pasted_commands.txt").read_text().split("\n====\n")
    )
    program = "```mlir\nfunc.func @f(%a: tensor<8xf32>) {\n  return\n}\n```\n"
    kernel = next(
        text for text in _files("recipes/kernels/*.py") if b"@triton.jit" in text
    ).decode()
    llvm = "```llvm\ndefine void @f() {\n  ret void\n}\n```\n```\nopt -passes=licm a.ll -S\n```\n"
    texts = [
        *(f"<details>\n\n{program}\n{command}\n</details>" for command in commands),
        f"> ```python\n{kernel}\n```\n",
        llvm,
    ]
    return [text.encode() for text in texts]


TARGETS: Mapping[str, Target] = {
    "recipes": Target(lambda: _files("recipes/*.yaml"), recipe),
    "projects": Target(lambda: _files("triage/projects/*.yaml"), project),
    "rules": Target(
        lambda: [*_files("triage/classify/rules/*"), *_files("triage/*/*/rules.yaml")],
        rules,
    ),
    "logs": Target(_logs, log),
    "texts": Target(_texts, text),
    "mlir": Target(_modules, mlir),
    "evidence": Target(_records, evidence),
    "journals": Target(_journals, journal),
    "http": Target(_answers, http),
}
