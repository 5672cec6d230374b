"""Read YAML as plain data, and remember where in the file each value is.

A scalar keeps its text in the file: `1.10` does not become 1.1, nor `no` False. The
type that a key has decides what it means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from triage.model.errors import BadFiles, Problem
from triage.model.foreign_file import read_bytes
from triage.recipes.values import did_you_mean

Loc = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 20_000

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml is ten times faster, but not every PyYAML has it."""

_NULL = "tag:yaml.org,2002:null"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_JSON_COMMENT = re.compile(
    r'"(?:[^"\\\n]|\\.)*+"|\'(?:[^\'\\\n]|\\.)*+\'|//[^\n]*|/\*.*?\*/', re.DOTALL
)


@dataclass
class ConfigDocument:
    """The data of one file, and the problems in it."""

    path: str
    nulls: bool = False
    """Whether `null` is a value, as in JSON."""
    data: Any = None
    """Mappings, lists and texts; an empty value is None."""
    problems: list[Problem] = field(default_factory=list)
    marks: dict[Loc, tuple[yaml.Mark, yaml.Mark]] = field(default_factory=dict)
    """Where the key and the value of each location begin."""
    texts: dict[Loc, str] = field(default_factory=dict)
    """The values that are texts."""

    def problem(self, loc: Loc, message: str, *, at_key: bool = False) -> Problem:
        """Return a problem with the position of the value, or of the key, at `loc`."""
        key, value = self.marks[self.resolve(loc)]
        return _problem(self.path, key if at_key else value, message)

    def resolve(self, loc: Loc) -> Loc:
        """Leave out the parts of a location that are not in the file. Pydantic adds
        such parts, for example for the branch of a union.
        """
        place: Loc = ()
        for part in loc:
            if (*place, part) in self.marks:
                place = (*place, part)
        return place

    def report(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        """Add a problem."""
        self.problems.append(self.problem(loc, message, at_key=at_key))

    def in_order(self) -> list[Problem]:
        """Return the problems by position, each once."""
        return sorted(
            dict.fromkeys(self.problems),
            key=lambda problem: (problem.line or 0, problem.column or 0),
        )

    def read(self, node: yaml.Node, loc: Loc = (), key: yaml.Node | None = None) -> Any:
        """Return the data of a node, and report its problems. Raises BadFiles if it has
        too many parts; a value that contains itself has no end.
        """
        self.marks[loc] = (key or node).start_mark, node.start_mark
        if len(self.marks) > MAX_VALUES or len(loc) > MAX_DEPTH:
            message = (
                f"the file expands to more than {MAX_VALUES} values or {MAX_DEPTH} "
                "levels; use fewer aliases or entries."
            )
            raise BadFiles([self.problem(loc, message)])
        if isinstance(node, yaml.SequenceNode):
            entries = enumerate(node.value)
            return [self.read(entry, (*loc, number)) for number, entry in entries]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, loc)
        if node.tag != _NULL:
            self.texts[loc] = node.value
            if "\0" in node.value:
                self.report(loc, "no program accepts a NUL character; remove the \\0.")
            return node.value
        if not self.nulls:
            message = "there is no value; write one, in quotes if it begins with #."
            self.report(loc, message)
        return None

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in node.value:
            name, message = key.value, ""
            if not isinstance(name, str):
                message = "a key must be one word; put quotes around a ${key}."
            elif name in data:
                first = _place(self.marks[*loc, name][0])
                message = f'the key "{name}" is repeated, first at {first}; keep one.'
            else:
                data[name] = self.read(value, (*loc, name), key)
            if message:
                self.problems.append(_problem(self.path, key.start_mark, message))
        return data


def read_document(
    path: Path, empty: str | None, *, json: bool = False
) -> ConfigDocument:
    """Read a file with one YAML document. Raises BadFiles if it is not YAML.

    Args:
        path: The file, named in problems as it is given here.
        empty: How to begin such a file, for an empty one; None if it may be empty.
        json: Whether it is JSON, where `null` is a value and `//` begins a comment.
    """
    return parse_document(str(path), read_text(path), empty, json=json)


def parse_document(
    path: str, text: str, empty: str | None, *, json: bool = False
) -> ConfigDocument:
    """Parse the text of a file as `read_document` does."""
    document = ConfigDocument(path, nulls=json)
    if json:
        text = _json_as_yaml(text)
    control = _CONTROL.search(text)
    try:
        if control:
            before = text[: control.start()].split("\n")
            line, column = len(before), len(before[-1]) + 1
            message = f"remove the control character U+{ord(control[0]):04X}."
            raise BadFiles([Problem(path, line, column, message)])
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise BadFiles([_syntax_problem(path, text, error)]) from error
    except RecursionError as error:
        message = "values are nested too deeply; remove some levels."
        raise BadFiles([Problem(path, None, None, message)]) from error
    if root is not None and root.tag != _NULL:
        document.data = document.read(root)
    elif empty is not None:
        raise BadFiles([Problem(path, None, None, f"the file is empty; {empty}.")])
    return document


def _json_as_yaml(text: str) -> str:
    """Return JSON with comments as YAML. Blanks replace comments and tabs, so that all
    positions stay the same.
    """

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith("/"):
            return re.sub(r"[^\n]", " ", match[0])
        return match[0]

    return _JSON_COMMENT.sub(blank, text).replace("\t", " ")


def read_text(path: Path) -> str:
    """Return a file's text without a byte order mark. Raises BadFiles if the file is
    too big, not text, a link out of its folder, or cannot be read.
    """
    try:
        data = read_bytes(path, MAX_BYTES)
        return data.decode("utf-8-sig")
    except OSError as error:
        message = why_unreadable(path, error)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"line {line} is not UTF-8 text; save the file as UTF-8."
    raise BadFiles([Problem(str(path), None, None, message)])


def why_unreadable(path: Path, error: OSError | ValueError) -> str:
    """Return a sentence that says why a path cannot be used."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        reason = getattr(error, "strerror", None) or str(error)
        return f"cannot be read: {reason.lower()}."
    if path.is_symlink():
        return f'this link points to "{path.readlink()}", which does not exist.'
    names = [entry.name for entry in path.parent.glob("*")]
    return "no such file or folder" + did_you_mean(path.name, names)


def _place(mark: Any) -> str:
    return f"{mark.line + 1}:{mark.column + 1}"


def _problem(path: str, mark: Any, message: str) -> Problem:
    """Return a problem at a position, with its message on one line."""
    return Problem(path, mark.line + 1, mark.column + 1, " ".join(message.split()))


def _syntax_problem(path: str, text: str, error: yaml.MarkedYAMLError) -> Problem:
    """Return what is not YAML, and what to write for the usual mistakes."""
    mark, begin = error.problem_mark or error.context_mark, error.context_mark
    assert mark
    [line] = text.splitlines()[mark.line : mark.line + 1] or [""]
    message = f"this is not YAML: {error.problem}."
    if re.match(r" *\t", line):
        message = "a tab indents this line; YAML allows only spaces there."
    elif "${" in line:
        message = 'put quotes around a value with ${key}, such as "--flag=${key}".'
    elif begin and begin.line != mark.line:
        place = f"{error.context} that begins at {_place(begin)}"
        message = f"this is not YAML: {error.problem} {place}."
    return _problem(path, mark, message)
