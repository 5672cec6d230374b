"""What is fuzzed: for each kind of input some valid examples, and a check that reads
any bytes in their place.

A check may raise only the errors of the program. It asserts what must hold of an input
that is accepted, and returns something true for the examples.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
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
from triage.compilers.registry import RecipesByFamily
from triage.execution.cache import Record, ResultCache
from triage.mlir.fingerprint import DumpReader
from triage.mlir.generic_form import UnparsableError, parse_module, print_module
from triage.model.content import Address
from triage.model.errors import BadFiles
from triage.model.outcome import Failure
from triage.recipes.document import schema_of
from triage.recipes.loader import load_recipes
from triage.reduce.reproducer import open_reproducers
from triage.toolchains.home import Home, Workspace
from triage.toolchains.install import Package
from triage.toolchains.project import load_project

Check = Callable[[bytes, Path], object]
"""Reads any bytes, with an empty folder to work in."""
ROOT = Path(__file__).parents[2]


def _file(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def recipe(data: bytes, folder: Path) -> object:
    """A problem is a sentence on one line of the file."""
    path = _file(data, folder, "recipe.yaml")
    try:
        cases = load_recipes([path], RecipesByFamily())
    except BadFiles as error:
        for problem in error.problems:
            assert problem.message.endswith((".", "?"))
            assert len(problem.message.splitlines()) == 1
            lines = data.decode("utf-8", "replace").splitlines()
            assert (problem.line or 1) <= len(lines) + 1
        return error.problems
    assert all(case.name for case in cases)
    return cases


def project(data: bytes, folder: Path) -> object:
    return load_project(_file(data, folder, "triage.yaml")).name


def rules(data: bytes, folder: Path) -> object:
    return [rule.name for rule in check_rules(_file(data, folder, "rules.yaml"))]


def log(data: bytes, folder: Path) -> object:
    """The pieces in which a log arrives make no difference."""
    halves = data[: len(data) // 2], data[len(data) // 2 :]
    failures = _failures_of([data])
    assert failures == _failures_of(halves)
    return failures


def _failures_of(pieces: Iterable[bytes]) -> tuple[Failure, ...]:
    findings = read_log(pieces, packaged_rules()).findings
    return failures_of([*findings.causes(), *findings.of_kind(remarks=True)])


def text(data: bytes, folder: Path) -> object:
    """A recipe that starts from a pasted text has a program."""
    content = data.decode("utf-8", "replace")
    path = folder / "made.yaml"
    wanted = RecipeRequest(path, None, "llvm-cpu", None, None, text=content)
    start = start_from_text(wanted, "issue.md")
    assert start.copied or start.input
    return start


def mlir(data: bytes, folder: Path) -> object:
    """A module that is printed and parsed again is the same."""
    dumps: list[object] = []
    DumpReader(WORDS, dumps.append).feed(data)
    try:
        module = parse_module(data.decode("utf-8", "replace"))
    except UnparsableError:
        return dumps
    printed = print_module(module)
    assert print_module(parse_module(printed)) == printed
    return printed


def evidence(data: bytes, folder: Path) -> object:
    """What is read as a record of this machine can be kept and found."""
    kept = []
    with closing(ResultCache(folder / "evidence.db")) as store:
        for line in data.decode("utf-8", "replace").splitlines():
            with suppress(ValueError):
                read = schema_of(Record).validate_json(line, strict=True)
                store.add(read)
                kept += store.find_all(read.key)
    assert None not in kept
    return kept


def journal(data: bytes, folder: Path) -> object:
    """A journal is read whole or as empty."""
    entries = read_journal(_file(data, folder, "journal.json"))
    assert all(len(entry) == 2 for entry in entries)
    return entries


def reproducer(data: bytes, folder: Path) -> object:
    text = "compiler: command\npackage: six\ncommand: [cat]\ninput: recipe.yaml\n"
    (folder / "recipe.yaml").write_text(f"name: r\n{text}")
    return open_reproducers([_file(data, folder, "reproducer.json").parent])


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


def http(data: bytes, folder: Path) -> object:
    """Pages of an index."""
    address = Address("https://index.example/simple/")
    package = Package(Workspace(Home(folder)), "iree-base-compiler", address=address)
    with (
        mock.patch("requests.Session.get", lambda _, url, **__: _response(data, url)),
        mock.patch("triage.toolchains.index._TRANSIENT", ()),  # nothing is waited for
    ):
        assert package.listed is not None
        return package.listed


TARGETS: Mapping[str, Check] = {
    "recipes": recipe,
    "projects": project,
    "rules": rules,
    "logs": log,
    "texts": text,
    "mlir": mlir,
    "evidence": evidence,
    "journals": journal,
    "reproducers": reproducer,
    "http": http,
}
_FILES: Mapping[str, Sequence[str]] = {
    "recipes": ["recipes/*.yaml"],
    "projects": ["triage/projects/*.yaml"],
    "reproducers": ["reproducers/*/reproducer.json"],
    "rules": ["triage/classify/rules/*", "triage/*/*/rules.yaml"],
}


def files_of(name: str, folder: str) -> list[bytes]:
    """The inputs of a target in a folder, `examples` or `corpus`."""
    patterns = [f"tests/fuzz/{folder}/{name}/*"]
    if folder == "examples":
        patterns += _FILES.get(name, [])
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return [data for path in paths if len(data := path.read_bytes()) < 20_000]


def examples_of(name: str) -> list[bytes]:
    """The valid inputs of a target."""
    examples = files_of(name, "examples")
    if name == "logs":
        logs = [value for key, value in vars(samples).items() if key.isupper()]
        examples += [log.encode() for log in logs if isinstance(log, str)]
    if name == "texts":
        # a program with each form of a command line
        forms = (ROOT / "tests/data/compilers/pasted_commands.txt").read_bytes()
        commands = forms.split(b"\n====\n")
        examples += [examples[0].replace(b"COMMAND", command) for command in commands]
    return examples
