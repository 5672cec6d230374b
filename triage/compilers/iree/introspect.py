"""What an `iree-compile` binary reports about itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from pathlib import Path

from packaging.version import InvalidVersion, Version

from triage.compilers.base import Description
from triage.execution.process import capture
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending
from triage.model.revision import Capabilities

_VERSION = re.compile(r"IREE compiler version (\S+)(?: @ ([0-9a-f]{7,40}))?")
_OPTION = re.compile(r"^\s+-{1,2}([A-Za-z][\w.-]*)", re.MULTILINE)
_SWITCH = re.compile(r"^\s+-{1,2}(iree-[\w.-]*)\s+- ", re.MULTILINE)  # one that takes a value shows `=<kind>`
_CHOICE = re.compile(r"\s+-{1,2}(iree-[\w.-]*)=<value>\s+- ")
_WORD = re.compile(r"\s+=([\w-]+)\s")
_NIGHTLY = re.compile(r"(?:rc|dev)(20\d\d)(\d\d)(\d\d)$")
_PATIENCE = 60.0  # seconds; the answers take 0.1


def describe(program: Path) -> Description:
    """Three questions to the binary, at once: version, flags, backends. EnvironmentFailure when it does not run."""
    questions = ("--version", "--help-hidden", "--iree-hal-list-target-backends")
    with ThreadPoolExecutor(len(questions)) as pool:
        version_text, help_text, backends = pool.map(partial(_ask, program), questions)
    told = _VERSION.search(version_text)
    if told is None or "--iree-hal-target-backends" not in help_text:
        raise EnvironmentFailure(f"{program} does not answer like an IREE compiler")
    version, commit = told.groups()
    return Description(
        version=_pep440(version),
        commit=commit,
        date="-".join(day.groups()) if (day := _NIGHTLY.search(version)) else None,
        capabilities=Capabilities(
            backends=frozenset(re.findall(r"^  (\S+)$", backends, re.MULTILINE)),
            phases=_phases(help_text),
            flags=frozenset(_OPTION.findall(help_text)),
            switches=frozenset(_SWITCH.findall(help_text)),
            choices=_choices(help_text),
        ),
    )


def _ask(program: Path, *options: str) -> str:
    answer = capture([str(program), *options], _PATIENCE)
    if answer.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT):
        raise EnvironmentFailure(f"{program} does not run: {answer.stderr.last_line or answer.ending}")
    if not answer.ok:
        first = next(iter((answer.stderr.text or answer.stdout.text).splitlines()), "nothing printed")
        raise EnvironmentFailure(f"{program} {' '.join(options)} ended with {answer.status}: {first}")
    return answer.stdout.text


def _phases(help_text: str) -> tuple[str, ...]:
    return _words(help_text.partition("--compile-to=")[2].splitlines()[1:])


def _choices(help_text: str) -> dict[str, tuple[str, ...]]:
    lines = help_text.splitlines()
    named = ((found[1], lines[number + 1 :]) for number, line in enumerate(lines) if (found := _CHOICE.match(line)))
    return {name: words for name, rest in named if (words := _words(rest))}


def _words(lines: Iterable[str]) -> tuple[str, ...]:
    """The values that are listed from the first line on."""
    found = (_WORD.match(line) for line in lines)
    return tuple(one[1] for one in takewhile(bool, found) if one)


def dialects(program: Path) -> frozenset[str]:
    """What the `iree-opt` beside it registers; empty without one. EnvironmentFailure when that does not run."""
    optimizer = program.with_name("iree-opt")
    if not optimizer.is_file():  # a build tree may hold the compiler alone
        return frozenset()
    listed = _ask(optimizer, "--show-dialects").partition(":")[2]
    return frozenset(name.strip() for name in listed.split(",") if name.strip())


def _pep440(text: str) -> str | None:
    try:
        return str(Version(text))
    except InvalidVersion:
        return None
