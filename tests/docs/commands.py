"""Write docs/commands.md: what the commands say of themselves. Run with `python -m tests.docs.commands`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer.main

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below one, with the words that call them."""
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield (*path, name), child
        yield from commands(child, (*path, name))


def commands_page() -> str:
    """The page's text: for each command its help and its options. Taken from the commands themselves and not from a
    terminal's rendering of them, which changes with its library."""
    from triage.cli.app import app

    parts = ["# Commands\n\nThe same as `--help` says. This page is made by `python -m tests.docs.commands`.\n"]
    for path, command in commands(typer.main.get_command(app)):
        if getattr(command, "commands", None):
            continue
        parts.append(f"\n## triage {' '.join(path)}\n\n{inspect.cleandoc(command.help)}\n\n| option | meaning |\n|---|---|\n")
        parts += [f"| {_spelling(param)} | {_meaning(param)} |\n" for param in command.params if param.name != "help"]
    return "".join(parts)


def _spelling(param: Any) -> str:
    if not param.opts or not param.opts[0].startswith("-"):
        return f"`{param.metavar or param.name.upper()}`"
    return ", ".join(f"`{option}`" for option in param.opts)


def _meaning(param: Any) -> str:
    told = (getattr(param, "help", None) or "").replace("|", "\\|")
    default = param.default
    if not param.opts[0].startswith("-") or isinstance(default, bool):
        return told
    extra = [f"one of {', '.join(type(default))}"] if isinstance(default, StrEnum) else []
    extra += [f"default {default}"] if isinstance(default, str | int | float) else []
    return told + (f" ({'; '.join(extra)})" if extra else "")


if __name__ == "__main__":
    PAGE.write_text(commands_page())
