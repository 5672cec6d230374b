"""Read which pass failed from MLIR's output, and the phase that the pass belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from triage.classify.log import HEAD
from triage.classify.rules import packaged_yaml
from triage.model.content import LineCutter
from triage.model.execution import IR_DUMP, PassName, dumped_pass

# the passes that ran are nested; the last is the one that failed
_PIPELINE_FAILED = re.compile(
    r"Pipeline failed while executing (?:\[?(?:`[^`]+` on '[^']+' operation[^`]*, "
    r")*`(?P<name>[^`]+)` on '[^']+'|(?P<bare>\w{4,}+)\Z)"
)
# below what the verifier of XLA found
_HLO_FAILED = re.compile(r"Failed after (?P<name>(?!pipeline-start\b)[a-z][\w-]*)\Z")


def phase_of(failed: PassName) -> str | None:
    """Return the `--compile-to` phase that a pass runs in, if it is known."""
    return _phase_of(failed.argument or "") or _phase_of(failed.name)


@cache
def _phase_of(name: str) -> str | None:
    names = packaged_yaml("compiler_names")
    for entry in names["exceptions"]:
        if re.match(entry["name"], name):
            return str(entry["phase"])
    for prefix, phase in names["pass_arguments"].items():
        if name.startswith(prefix):
            return str(phase)
    if name[:1].isupper():
        for phase, begins in names["pass_names"].items():
            if re.match("|".join(begins), name):
                return str(phase)
    return None


def failing_pass(text: str) -> PassName | None:
    """Return the pass that a line reports as failed, in a dump after failure or in
    MLIR's own note; None if it reports none.

    >>> failing_pass("// -----// IR Dump After CSEPass Failed (cse) //----- //")
    PassName(name='CSEPass', argument='cse')
    """
    dumped = dumped_pass(text[max(0, text.find(IR_DUMP)) :], IR_DUMP)
    if dumped:
        name, has_failed = dumped
        if has_failed:
            return name
    match = _HLO_FAILED.match(text)
    if match:
        return PassName(match["name"])
    match = _PIPELINE_FAILED.search(text)
    if match:
        qualified = match["name"] or match["bare"]
        return PassName(qualified.rsplit("::", 1)[-1])
    return None


class PassScanner:
    """Finds the failing pass in hundreds of MB of IR printed after a failure. Of nested
    passes, the innermost is printed first.
    """

    def __init__(self) -> None:
        self._lines = LineCutter(HEAD)
        self._first: PassName | None = None

    def feed(self, data: bytes) -> None:
        """Read a piece of the stream; pieces may be cut anywhere."""
        self._read(self._lines.feed(data))

    def finish(self) -> PassName | None:
        """Return the pass that failed first, if one was named."""
        self._read(self._lines.finish())
        return self._first

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self._first is None and (
                b" Failed" in line
                or b"Pipeline failed" in line
                or line.startswith(b"Failed after ")
            ):
                self._first = failing_pass(line.decode("utf-8", "replace"))
