"""Read which pass failed from MLIR's output, and the phase that the pass belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from triage.classify.log_lines import clean
from triage.classify.prefilter import Prefilter

_DUMP_AFTER = re.compile(
    r"IR Dump After (?P<name>(?:\(anonymous namespace\)|\S)+) Failed(?:(?: \(|: )(?P<argument>[\w.-]*)\)?)?"
)
_PIPELINE_FAILED = re.compile(  # the passes that ran are nested; the last is the one that failed
    r"Pipeline failed while executing \[?(?:`[^`]+` on '[^']+' operation[^`]*, )*`(?P<name>[^`]+)` on '(?P<op>[^']+)'"
)
_MAX_PASSES = 100


@cache
def compiler_names() -> Mapping[str, Any]:
    """Read `compiler_names.yaml`."""
    import yaml  # here, because output that names no pass needs none of it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files("triage.classify").joinpath("compiler_names.yaml").read_text("utf-8")
    names: Mapping[str, Any] = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader, the C one
    return names


@dataclass(frozen=True, slots=True)
class FailingPass:
    """A pass's class name and, where it was printed, its command line argument."""

    name: str
    argument: str | None = None

    def __bool__(self) -> bool:
        """Whether a pass is named; `NO_PASS` names none."""
        return bool(self.name)

    @property
    def phase(self) -> str | None:
        """The `--compile-to` phase that the pass runs in; None when it is not known."""
        return phase_of(self.argument or "") or phase_of(self.name)


NO_PASS = FailingPass("")
"""The answer of a run that prints the failing pass, when the compiler failed before any pass or after all of them."""


@cache
def phase_of(name: str) -> str | None:
    """Return the `--compile-to` phase of a pass, by its argument (`iree-stream-...`) or its class name."""
    names = compiler_names()
    for exception in names["exceptions"]:
        if re.match(exception["name"], name):
            return str(exception["phase"])
    for prefix, phase in names["pass_arguments"].items():
        if name.startswith(prefix):
            return str(phase)
    if name[:1].isupper():
        for phase, beginnings in names["pass_names"].items():
            if re.match("|".join(beginnings), name):
                return str(phase)
    return None


def failing_pass(text: str) -> FailingPass | None:
    """Return the pass that a line reports as failed, in a dump after failure or in MLIR's own note."""
    if match := _DUMP_AFTER.search(text):
        return FailingPass(match["name"].rsplit("::", 1)[-1], match["argument"] or None)
    if match := _PIPELINE_FAILED.search(text):
        return FailingPass(match["name"].rsplit("::", 1)[-1])
    return None


class PassScanner:
    """Reads the output of a run with `--mlir-print-ir-after-failure`: hundreds of MB for the name of a pass.

    failed: the failing passes in order of printing; the first is the innermost, where the failure began.
    """

    def __init__(self) -> None:
        self._prefilter = Prefilter((" Failed", "Pipeline failed while executing"))
        self.failed: list[FailingPass] = []

    def feed(self, data: bytes) -> None:
        """Read a piece of the stream; pieces may be cut anywhere."""
        self._read(self._prefilter.feed(data))

    def finish(self) -> FailingPass | None:
        """Return the first failing pass; None when no pass was named."""
        self._read(self._prefilter.finish())
        return self.failed[0] if self.failed else None

    def _read(self, lines: Iterable[tuple[int, bytes]]) -> None:
        for _, raw in lines:
            text = clean(raw).text
            failed = failing_pass(text)
            if failed and failed not in self.failed and len(self.failed) < _MAX_PASSES:
                self.failed.append(failed)
