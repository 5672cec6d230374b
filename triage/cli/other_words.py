"""What stands here for the words of other tools: one table, a line each."""

from __future__ import annotations

import re
from collections.abc import Container

_ENDS = r"No such option: (?:--(?:from|to|start|end|old|new|first|last)|-g|-b)$"
_PROGRAM = r"[^']+\.(?:mlir|mlirbc|onnx|py|hlo|yaml|yml|md|txt|log)(?::\w+)?"

#: What an error says, and what to type instead. Options that the command does not have
#: are no answer.
_WORDS = (
    (_ENDS, "--good/--bad"),
    (_ENDS, "--since/--until"),
    (_ENDS, "--baseline/--toolchain"),
    (r"extra argument.*\((?:good|bad|old|new)\b", "--good/--bad"),
    (r"No such option: --json$", "--format json"),
    (
        r"^(\S+) No such option: (--(?:iree|mlir)-[\w-]+|--compile-\w+)$",
        r"triage \1 -- iree-compile MODEL \2=...",
    ),
    (rf"No such command '({_PROGRAM})'", r"triage why \1"),
    (r"'([^',]+),([^',]+)' is not a rev", r"-t \1 -t \2"),
    (r"'([^',]+),([^',]+),([^',]+)' is not a rev", r"-t \1 -t \2 -t \3"),
    (r"'v?(\d[^']*[^.])\.\.\.?v?(\d[^']*)' is not a rev", r"--good \1 --bad \2"),
    (r"'[\w.-]+ ?==? ?v?(\d[^',]*)' is not a rev", r"\1"),
    (
        r"'(?:[0-9a-f]{7,40}|HEAD|main|master|origin/[^']+)[~^\d]*' is not a rev",
        "a revision of `triage bisect --repo DIR`, a clone of the compiler",
    ),
    (r"^([^:]+): this folder has no recipe", r"triage run \1/*.mlir"),
    (r"(\w+) compiles for a chip", r"--backend \1 --chip gfx942"),
)


def with_words_here(
    message: str, command: str = "", options: Container[str] | None = None
) -> str:
    """Return an error with what stands here for the words of another tool in it.

    options: those of the command (default: not known).

    >>> with_words_here("'3.3.0,3.2.0' is not a revision")
    "'3.3.0,3.2.0' is not a revision; here it is -t 3.3.0 -t 3.2.0"
    """
    for pattern, answer in _WORDS:
        found = re.search(pattern, f"{command} {message}".strip())
        named = re.findall(r"--[a-z]+", answer)
        if found and (options is None or all(name in options for name in named)):
            return f"{message.rstrip('.')}; here it is {found.expand(answer)}"
    return message
