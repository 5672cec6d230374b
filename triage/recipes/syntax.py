"""Text that is no YAML, or more YAML than a recipe needs: told in plain words, with its mark."""

from __future__ import annotations

import re

import yaml

from triage.model.errors import BadFiles, Problem
from triage.recipes.document import MAX_DEPTH

# libyaml is ten times faster; a PyYAML built without it has only the other.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def compose(path: str, text: str) -> yaml.Node:
    """The node tree of the one document in `text`; BadFiles with one Problem otherwise."""
    control = _CONTROL.search(text)
    if control is not None:
        code = f"U+{ord(control.group()):04X}"
        raise BadFiles([_at(path, text, control.start(), f"the control character {code} cannot stand in YAML; remove it.")])
    try:
        _refuse_depth(path, text)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise BadFiles([_syntax(path, text, error)]) from error
    except yaml.YAMLError as error:
        raise BadFiles([Problem(path, None, None, f"this is not YAML: {_one_line(str(error))}.")]) from error
    if root is None:
        raise BadFiles([Problem(path, None, None, "the file is empty; `triage recipe new` writes one to start from.")])
    return root


def _refuse_depth(path: str, text: str) -> None:
    """Events are read without recursion; composing is recursive, and deep enough brackets would kill the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line, column = (mark.line + 1, mark.column + 1) if (mark := event.start_mark) else (None, None)
            message = f"values are nested more than {MAX_DEPTH} deep; a recipe needs 4."
            raise BadFiles([Problem(path, line, column, message)])


def _syntax(path: str, text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(path, None, None, f"this is not YAML: {_one_line(str(error))}.")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    message = _advice(line, mark.column, str(error.problem or "")) or _plain_report(error)
    return Problem(path, mark.line + 1, mark.column + 1, message)


def _advice(line: str, column: int, problem: str) -> str | None:
    """What to write, for the mistakes that recipes invite; None for the others."""
    here = line[column : column + 1]
    if "another document" in problem:
        return "a second document begins here; a recipe file holds one, so move it to a file of its own."
    if here == "\t" or "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab indents this line; YAML allows only spaces there."
    if here == "{" and line[:column].endswith("$"):
        return 'a ${key} inside [ ] or { } needs quotes around the whole value, such as "--flag=${key}".'
    if "mapping values are not allowed" in problem:
        return "a second colon, or a key at the wrong indentation: quote a value that holds `: `, or align the keys."
    if here and here in "@`%":
        return f'a value cannot begin with {here}; put it in quotes, such as "{here}…".'
    return None


def _plain_report(error: yaml.MarkedYAMLError) -> str:
    message = f"this is not YAML: {_one_line(str(error.problem or error))}"
    if error.context:
        message += f" {_one_line(error.context)}"
        start = error.context_mark
        if start is not None and error.problem_mark is not None and start.line != error.problem_mark.line:
            message += f" that begins at {start.line + 1}:{start.column + 1}"
    return message + "."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _at(path: str, text: str, offset: int, message: str) -> Problem:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return Problem(path, line, column, message)
