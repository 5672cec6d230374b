"""Find an IREE compiler below a folder, and read its version, flags and backends from its output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from pathlib import Path

from triage.compilers.base import Description, pep440
from triage.execution.process import capture
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending
from triage.model.revision import Capabilities

# The wheel's entry script in bin/ starts an interpreter first and turns a signal into an ordinary exit status, so the
# native binary inside the package is preferred wherever both are there.
_INNER = "iree/compiler/_mlir_libs/iree-compile"
_LOCATIONS = (
    _INNER,
    f"lib/python3*/site-packages/{_INNER}",
    "tools/iree-compile",
    "install/bin/iree-compile",
    "bin/iree-compile",
    "iree-compile",
)
_LIBRARIES = (
    "libIREECompiler.so",
    "../lib/libIREECompiler.so",
    "libIREECompiler.dylib",
    "../lib/libIREECompiler.dylib",
)

_VERSION = re.compile(r"IREE compiler version (\S+)(?: @ ([0-9a-f]{7,40}))?")
_OPTION = re.compile(r"^\s+-{1,2}([A-Za-z][\w.-]*)", re.MULTILINE)
_SWITCH = re.compile(r"^\s+-{1,2}(iree-[\w.-]*)\s+- ", re.MULTILINE)  # an option with a value prints `=<kind>`
_CHOICE = re.compile(r"\s+-{1,2}(iree-[\w.-]*)=<value>\s+- ")
_VALUE = re.compile(r"\s+=([\w-]+)\s")
_NIGHTLY = re.compile(r"(?:rc|dev)(20\d\d)(\d\d)(\d\d)$")
_TIMEOUT = 60.0  # seconds; an answer takes 0.1


def locate(root: Path) -> Path | None:
    """Return the native `iree-compile` of a wheel, a virtual environment, a build or install tree, or the binary itself."""
    if root.is_file():
        return _behind_script(root) if is_script(root) else root.absolute()
    for pattern in _LOCATIONS:
        for path in sorted(root.glob(pattern)):
            if path.is_file():
                return _behind_script(path) if is_script(path) else path.absolute()
    return None


def identity_files(program: Path) -> tuple[Path, ...]:
    """Return the binary and, unless it is static, the shared library that contains the compiler."""
    libraries = [program.parent / name for name in _LIBRARIES]
    return (program, *(path.resolve() for path in libraries if path.is_file()))


def python_root(program: Path) -> Path:
    """Return the folder to import `iree.compiler` from: above the package in a wheel, bindings/python in a build tree."""
    if program.parent.name == "_mlir_libs":
        return program.parents[3]
    return program.parents[1] / "compiler" / "bindings" / "python"


def is_script(path: Path) -> bool:
    """Whether a file names the program that runs it in its first line."""
    with path.open("rb") as source:
        return source.read(2) == b"#!"


def _behind_script(script: Path) -> Path | None:
    """Return the native binary that a virtual environment's entry script starts."""
    environment = script.absolute().parent.parent
    packaged = sorted(environment.glob(f"lib/python3*/site-packages/{_INNER}"))
    flat = environment / _INNER  # an install made with --target
    return packaged[-1] if packaged else flat if flat.is_file() else None


def describe(program: Path) -> Description:
    """Query version, flags and backends in parallel. EnvironmentFailure when the compiler does not run."""
    queries = ("--version", "--help-hidden", "--iree-hal-list-target-backends")
    with ThreadPoolExecutor(len(queries)) as pool:
        version_text, help_text, backends = pool.map(partial(output_of, program), queries)
    match = _VERSION.search(version_text)
    if match is None or "--iree-hal-target-backends" not in help_text:
        raise EnvironmentFailure(f"{program} does not answer like an IREE compiler")
    version, commit = match.groups()
    return Description(
        version=pep440(version),
        commit=commit,
        date="-".join(day.groups()) if (day := _NIGHTLY.search(version)) else None,
        capabilities=Capabilities(
            backends=frozenset(re.findall(r"^  (\S+)$", backends, re.MULTILINE)),
            phases=listed_phases(help_text),
            flags=frozenset(_OPTION.findall(help_text)),
            switches=frozenset(_SWITCH.findall(help_text)),
            choices=_choices(help_text),
        ),
    )


def output_of(program: Path, *options: str) -> str:
    """What a program prints. EnvironmentFailure when it does not run."""
    execution = capture([str(program), *options], _TIMEOUT)
    if execution.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT):
        raise EnvironmentFailure(f"{program} does not run: {execution.stderr.last_line or execution.ending}")
    if not execution.ok:
        first = next(iter((execution.stderr.text or execution.stdout.text).splitlines()), "nothing printed")
        raise EnvironmentFailure(f"{program} {' '.join(options)} ended with {execution.status}: {first}")
    return execution.stdout.text


def listed_phases(help_text: str) -> tuple[str, ...]:
    """Return the phases that the help text lists for `--compile-to`, in its order."""
    return _listed_values(help_text.partition("--compile-to=")[2].splitlines()[1:])


def _choices(help_text: str) -> dict[str, tuple[str, ...]]:
    lines = help_text.splitlines()
    options = ((match[1], lines[number + 1 :]) for number, line in enumerate(lines) if (match := _CHOICE.match(line)))
    return {name: values for name, rest in options if (values := _listed_values(rest))}


def _listed_values(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the values that the lines list, up to the first line that lists none."""
    matches = (_VALUE.match(line) for line in lines)
    return tuple(match[1] for match in takewhile(bool, matches) if match)
