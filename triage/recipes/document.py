"""YAML text as plain data that knows where each value is.

Scalars keep the text in the file: `1.10` does not become 1.1, nor `no` False. The type that YAML 1.1 would give them is
kept next to the text, so that a message can explain it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from triage.model.errors import BadFiles, Problem
from triage.recipes.values import did_you_mean

Loc = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 20_000

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml is ten times faster, but not every PyYAML has it."""

_PREFIX = "tag:yaml.org,2002:"
_KINDS = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp", "value", "merge"}
_ENDLESS = re.compile(r'"[^"]{300,}"|\S{300,}')
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_JSON_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*+"|\'(?:[^\'\\\n]|\\.)*+\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


class Written(str):
    """A scalar as written in the file, without quotes."""

    __slots__ = ("kind",)
    kind: str  # its YAML 1.1 type: str, int, float, bool, timestamp

    def __new__(cls, text: str, kind: str = "str") -> Written:
        """Mark the text with a type."""
        written = super().__new__(cls, text)
        written.kind = kind
        return written


@dataclass
class ConfigDocument:
    """One file, and what is wrong with it."""

    path: str
    root: yaml.Node
    data: Any = None  # dict, list, Written, or None for an empty value
    problems: list[Problem] = field(default_factory=list)
    nulls: bool = False  # whether `null` is a value, as in JSON
    size: int = 0  # how many values the data has

    def problem(self, loc: Loc, message: str, *, at_key: bool = False) -> Problem:
        """Return a problem at the value or the key of `loc`. Parts that are not in the file are skipped."""
        key, value, _ = self._entry(loc)
        return _problem(self.path, (key if at_key else value).start_mark, message)

    def resolve(self, loc: Loc) -> Loc:
        """Return a location without the parts that are not in the file, such as the branch of a union."""
        return self._entry(loc)[2]

    def report(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        """Add a problem."""
        self.problems.append(self.problem(loc, message, at_key=at_key))

    def in_order(self) -> list[Problem]:
        """Return the problems by position, each once."""
        return sorted(dict.fromkeys(self.problems), key=lambda problem: (problem.line or 0, problem.column or 0))

    def _entry(self, loc: Loc) -> tuple[yaml.Node, yaml.Node, Loc]:
        """The nodes of a key and its value, twice the same node for an entry of a list; and the parts that are there."""
        key = value = self.root
        known: Loc = ()
        for part in loc:
            entries: list[Any] = []
            if isinstance(value, yaml.MappingNode):
                entries = [entry for entry in value.value if entry[0].value == part]
            elif isinstance(value, yaml.SequenceNode) and isinstance(part, int):
                entries = [(item, item) for item in value.value[part : part + 1]]
            if entries:
                (key, value), known = entries[0], (*known, part)
        return key, value, known


def read_document(path: Path, empty: str, *, json: bool = False) -> ConfigDocument:
    """Read a file with one YAML document.

    Duplicate keys, empty values, tags, cycles and excessive sizes are problems in the document.

    Args:
        path: The file, named in problems as it is given here.
        empty: How to begin such a file, for an empty one.
        json: Whether it is JSON, where `null` is a value and `//` begins a comment.

    Raises:
        BadFiles: The file cannot be read, or it is not YAML.
    """
    text = read_text(path)
    return parse_document(str(path), json_as_yaml(text) if json else text, empty, nulls=json)


def parse_document(path: str, text: str, empty: str, *, nulls: bool = False) -> ConfigDocument:
    """Parse the text of a file as `read_document` does. nulls: whether `null` is a value."""
    document = ConfigDocument(path, _compose(path, text, empty), nulls=nulls)
    document.data = _plain(document, document.root, "the file", ())
    return document


def json_as_yaml(text: str) -> str:
    """Return JSON with comments as YAML, with blanks instead of comments and tabs, so that every position stays."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match[0].startswith("/") else match[0]

    return _JSON_COMMENT.sub(blank, text).replace("\t", " ")


def read_text(path: Path) -> str:
    """Return the file's text without a byte order mark. BadFiles if it is too big, not text, or cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            message = "the file is too big; it may have 1 MiB."
        elif b"\0" in data:
            message = "this is a binary file (it has NUL bytes), not text in UTF-8."
        else:
            return data.decode("utf-8-sig")
    except OSError as error:
        message = why_unreadable(path, error)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"line {line} is not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8 text."
    raise BadFiles([Problem(str(path), None, None, message)])


def why_unreadable(path: Path, error: OSError | ValueError) -> str:
    """Return a sentence for a path that cannot be used."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if path.is_symlink():
            return f'this link points to "{path.readlink()}", which does not exist.'
        return "no such file or folder" + did_you_mean(path.name, siblings(path))
    return f"cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}."


def siblings(path: Path) -> list[str]:
    """Return the names in the folder of a path; none if it cannot be listed."""
    try:
        return sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return []


def _plain(document: ConfigDocument, node: yaml.Node, subject: str, outer: tuple[yaml.Node, ...]) -> Any:
    """The data of a node. What is wrong with it is reported; subject: what messages call it."""

    def refuse(place: yaml.Node, message: str) -> None:
        document.problems.append(_problem(document.path, place.start_mark, message))

    _check_size(document, node, outer)
    kind = node.tag.removeprefix(_PREFIX)
    if kind not in _KINDS:
        name = f"!!{kind}" if node.tag.startswith(_PREFIX) else node.tag
        refuse(node, f'the tag "{name}" has no meaning here; remove it.')
    if kind == "null":
        if node.value and not document.nulls:
            meaning = f'is {node.value}, which means "no value" in YAML'
            refuse(node, f'{subject} {meaning}; remove it, or write "{node.value}" in quotes for the word.')
        elif not node.value:
            refuse(node, f"{subject} has no value; give it one or remove it (an unquoted # begins a comment).")
        return None
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, item, "this entry", (*outer, node)) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        if "\0" in node.value:
            refuse(node, "no program accepts a NUL character; remove the \\0.")
        return Written(node.value, kind if kind in _KINDS else "str")
    data: dict[str, Any] = {}
    marks: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            refuse(key, "a key must be one word, not a list or a mapping; put quotes around a ${key}.")
        elif key.value in data:
            first = f"{marks[key.value].line + 1}:{marks[key.value].column + 1}"
            refuse(key, f'the key "{key.value}" is repeated, first at {first}; keep one of them.')
        else:
            marks[key.value] = key.start_mark
            data[key.value] = _plain(document, value, f'"{key.value}"', (*outer, node))
    return data


def _check_size(document: ConfigDocument, node: yaml.Node, outer: tuple[yaml.Node, ...]) -> None:
    """Raise BadFiles for a node that contains itself, or when aliases have multiplied the values."""
    document.size += 1
    message = None
    if node in outer:
        message = "this value contains itself through an alias; write it out."
    elif document.size > MAX_VALUES or len(outer) > MAX_DEPTH:
        message = f"the file expands to more than {MAX_VALUES} values or {MAX_DEPTH} levels; use fewer aliases or entries."
    if message:
        raise BadFiles([_problem(document.path, node.start_mark, message)])


def _problem(path: str, mark: Any, message: str) -> Problem:
    """A problem at a mark, on one line: quoted values are shortened and control characters escaped."""
    shortened = _ENDLESS.sub(lambda found: f"{found.group()[:100]}…{found.group()[-20:]}", message)
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shortened)
    return Problem(path, mark.line + 1, mark.column + 1, line)


def _compose(path: str, text: str, empty: str) -> yaml.Node:
    control = _CONTROL.search(text)
    if control is not None:
        start = control.start()
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        message = f"YAML does not allow the control character U+{ord(control[0]):04X}; remove it."
        raise BadFiles([Problem(path, line, column, message)])
    try:
        # Composing is recursive, and deeply nested brackets would overflow the stack; reading events is not.
        depth = 0
        for event in yaml.parse(text, Loader=LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                message = f"values are nested more than {MAX_DEPTH} levels deep; remove some levels."
                raise BadFiles([_problem(path, event.start_mark, message)])
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise BadFiles([_syntax(path, text, error)]) from error
    except yaml.YAMLError as error:
        raise BadFiles([Problem(path, None, None, f"this is not YAML: {' '.join(str(error).split())}.")]) from error
    if root is None or root.tag == f"{_PREFIX}null":
        raise BadFiles([Problem(path, None, None, f"the file is empty; {empty}.")])
    return root


def _syntax(path: str, text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark, start = error.problem_mark or error.context_mark, error.context_mark
    problem = " ".join(str(error.problem or error).split())
    if mark is None:
        return Problem(path, None, None, f"this is not YAML: {problem}.")
    line = "".join(text.splitlines()[mark.line : mark.line + 1])
    here = line[mark.column : mark.column + 1]
    if "another document" in problem:
        message = "a second document begins here; write each into its own file."
    elif here == "\t" or re.match(r" *\t", line):
        message = "a tab indents this line; YAML allows only spaces there."
    elif here == "{" and line[: mark.column].endswith("$"):
        message = 'put quotes around a value with ${key} inside [ ] or { }, such as "--flag=${key}".'
    elif "mapping values are not allowed" in problem:
        message = "a second colon, or a key with the wrong indentation: quote a value that contains `: `, or align the keys."
    elif here and here in "@`%":
        message = f'a value cannot begin with {here}; put it in quotes, such as "{here}…".'
    else:
        begins = f" that begins at {start.line + 1}:{start.column + 1}" if start and start.line != mark.line else ""
        message = f"this is not YAML: {problem} {error.context or ''}".rstrip() + f"{begins}."
    return _problem(path, mark, message)
