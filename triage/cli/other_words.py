"""What stands here for the words of other tools, by the table `other_words.yaml`."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _table() -> Sequence[tuple[str, str]]:
    import yaml  # slow to import

    text = files("triage.cli").joinpath("other_words.yaml").read_text("utf-8")
    table: Any = yaml.safe_load(text)
    return [(pattern, answer) for pattern, answer in table]


def with_words_here(
    message: str, command: str = "", options: Container[str] | None = None
) -> str:
    """Return an error with what stands here for the words of another tool in it.

    options: those of the command (default: not known).

    >>> with_words_here("'3.3.0,3.2.0' is not a revision")
    "'3.3.0,3.2.0' is not a revision; here it is -t 3.3.0 -t 3.2.0"
    """
    for pattern, answer in _table():
        match = re.search(pattern, f"{command} {message}".strip())
        named = re.findall(r"--[a-z]+", answer)
        if match and (options is None or all(name in options for name in named)):
            return f"{message.rstrip('.')}; here it is {match.expand(answer)}"
    return message
