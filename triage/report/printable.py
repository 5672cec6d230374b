"""Make text from outside safe to show: a terminal does nothing with it, and a CI system
runs no command in it.

Compilers, generators, servers, commits and files decide what stands in a message.
`PrintedStream` stands between the commands and both standard streams, and `console_for`
writes through `PrintableConsole`, so that nothing is printed without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

# C0 and DEL but tab and line feed, C1, zero-width and bidirectional controls, line
# separators, lone surrogates, non-characters.
_UNSAFE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u"
    "202e\\u2060-\\u206f\\ud800-\\udfff\\ufeff\\ufff9-\\uffff]"
)
# GitHub Actions reads both as commands: the first at the start of a line, where its
# second colon may be in the next piece of the line, the second anywhere.
_COMMAND = re.compile(r"(?m)^((?:[ \t]|\x1b\[[\d;]*m)*):(?=:|\Z)")
_OLD_COMMAND = re.compile(r"#(?=#\[)")


def visible(text: str) -> str:
    r"""Replace characters that a terminal would obey or not show as JSON writes them:
    `\u001b`.
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def portable(text: str) -> str:
    """Make a text visible that is read elsewhere, without the folders of this machine.

    A generated input is `input.mlir`; its name in TRIAGE_HOME is a hash.
    """
    shown = visible(text)
    if "/" not in shown:
        return shown
    from triage.toolchains.home import default_home  # slow to import

    home = re.escape(str(default_home().path))
    shown = re.sub(rf"{home}/inputs/[0-9a-f]{{32,}}(?=\.)", "input", shown)
    shown = re.sub(rf"{home}(?![\w.-])", "$TRIAGE_HOME", shown)
    here = re.escape(str(Path.cwd()))
    shown = re.sub(rf"(?<![\w.-]){here}/", "", shown)
    return re.sub(rf"{re.escape(str(Path.home()))}/", "~/", shown)


def printable(text: str, *, at_line_start: bool = True) -> str:
    """Make a text safe for a terminal and a CI log. JSON keeps its meaning, since only
    JSON escapes are used.
    """
    return _escape_commands(visible(text), at_line_start=at_line_start)


def _escape_commands(text: str, *, at_line_start: bool) -> str:
    """Escape the commands of CI systems. at_line_start: the text begins a line."""
    text = _OLD_COMMAND.sub(r"\\u0023", text)
    start = 0
    if not at_line_start:
        start = text.find("\n") + 1 or len(text)
    return text[:start] + _COMMAND.sub(r"\1\\u003a", text[start:])


class PrintedStream:
    """A text stream that makes everything safe before it writes it.

    raw: the stream below; of_console: whether a console writes, which made the texts
    safe and adds codes of its own.
    """

    def __init__(self, raw: IO[str], *, of_console: bool = False) -> None:
        self.raw = raw
        self._safe = _escape_commands if of_console else printable
        self._line = ""  # what was written of it

    def write(self, text: str) -> int:
        """Write a text. Returns its length, as every stream does."""
        safe = self._safe(text, at_line_start=not self._line.strip())
        self._line = (self._line + text).rpartition("\n")[2]
        self.raw.write(safe)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)
