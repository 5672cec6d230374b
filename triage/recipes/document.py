"""YAML text as plain data with the position of each value.

Scalars keep the text in the file: `1.10` does not become 1.1, nor `no` False. The type that YAML 1.1 would give them is
kept beside the text, so that a message can explain it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from triage.model.errors import BadFiles, Problem
from triage.recipes.suggestions import did_you_mean

Loc = tuple[str | int, ...]
Position = tuple[int, int]  # line and column, from 1; columns count characters

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 20_000

_ENDLESS = re.compile(r'"[^"]{300,}"|\S{300,}')
_PREFIX = "tag:yaml.org,2002:"
_CONTAINERS = {f"{_PREFIX}map", f"{_PREFIX}seq"}
_SCALARS = {f"{_PREFIX}{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")}


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of configuration file. noun: what messages call it; start: how to begin one, for an empty file."""

    noun: str
    start: str


class Written(str):
    """A scalar as written in the file; `kind` is its YAML 1.1 type: str, int, float, bool, timestamp, …"""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, text: str, kind: str = "str") -> Written:
        """Text as written, without quotes."""
        written = super().__new__(cls, text)
        written.kind = kind
        return written


@dataclass
class ConfigDocument:
    """One file. data: dict, list, Written, or None for an empty value; values, keys: the positions of both; problems: what is
    wrong with it; settled: values that already have a problem; nulls: whether `null` is a value, as in JSON.
    """

    path: str
    kind: FileKind
    data: Any = None
    values: dict[Loc, Position] = field(default_factory=dict)
    keys: dict[Loc, Position] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    settled: set[Loc] = field(default_factory=set)
    nulls: bool = False

    def resolve(self, loc: Loc) -> Loc:
        """`loc` without parts that are not in the file, such as the branch of a union."""
        known: Loc = ()
        for part in loc:
            if (*known, part) in self.values:
                known = (*known, part)
        return known

    def problem(self, loc: Loc, message: str, *, at_key: bool = False) -> Problem:
        """A problem at the value or the key of `loc`; without a position when the file has no such value."""
        positions = self.keys if at_key and loc in self.keys else self.values
        line, column = positions.get(loc, (None, None))
        return Problem(self.path, line, column, _presentable(message))

    def report(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        """Add a problem. A problem of a value settles it; after a problem of a key its value is still checked."""
        self.problems.append(self.problem(loc, message, at_key=at_key))
        if not at_key:
            self.settled.add(loc)

    def texts(self) -> Iterator[tuple[Loc, Written]]:
        """Every scalar with its location, in the file's order."""
        yield from _texts(self.data, ())

    def typed(self) -> Any:
        """The data with scalars of the types that YAML 1.1 gives them."""
        return _typed(self.data)


def _texts(data: Any, loc: Loc) -> Iterator[tuple[Loc, Written]]:
    match data:
        case Written():
            yield loc, data
        case dict():
            for key, value in data.items():
                yield from _texts(value, (*loc, key))
        case list():
            for index, value in enumerate(data):
                yield from _texts(value, (*loc, index))


def _typed(data: Any) -> Any:
    match data:
        case Written(kind="str"):
            return str(data)
        case Written():
            return _yaml_value(data)
        case dict():
            return {key: _typed(value) for key, value in data.items()}
        case list():
            return [_typed(value) for value in data]
        case _:
            return data


def _yaml_value(text: Written) -> Any:
    """The value that YAML 1.1 gives a scalar; the text itself where there is no such value, or none that can be printed."""
    try:
        value = yaml.safe_load(text)
        str(value)
    except (ValueError, OverflowError, yaml.YAMLError):
        return str(text)
    return value


def read_text(path: Path, kind: FileKind) -> str:
    """The file's text without a byte order mark. BadFiles when it is too big, not text, or cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _refused(path, f"the file has {size / (1 << 20):.1f} MiB; a {kind.noun} may have 1 MiB.")
        data = path.read_bytes()
    except OSError as error:
        raise _refused(path, why_unreadable(path, error)) from error
    if b"\0" in data:
        raise _refused(path, f"this is a binary file (it has NUL bytes); a {kind.noun} is YAML text in UTF-8.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise _refused(path, f"line {line} is not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8 text.") from error


def why_unreadable(path: Path, error: OSError | ValueError) -> str:
    """A sentence for a path that cannot be used."""
    match error:
        case FileNotFoundError() | NotADirectoryError() if path.is_symlink():
            return f'this link points to "{path.readlink()}", which does not exist.'
        case FileNotFoundError() | NotADirectoryError():
            return "no such file or folder" + did_you_mean(path.name, siblings(path))
        case PermissionError():
            return "no permission to read this; check its mode and its owner."
        case OSError(errno=errno.ELOOP):
            return "this link leads back to itself."
        case _:
            return f"cannot be read: {getattr(error, 'strerror', None) or error}."


def siblings(path: Path) -> list[str]:
    """Names in the folder of a path; empty when it cannot be listed."""
    try:
        return sorted(entry.name for entry in os.scandir(path.parent))
    except OSError:
        return []


def _refused(path: Path, message: str) -> BadFiles:
    return BadFiles([Problem(str(path), None, None, message)])


def read_document(path: str, text: str, kind: FileKind, *, nulls: bool = False) -> ConfigDocument:
    """Parse one YAML document; `path` names it in problems. BadFiles when the text is not YAML at all.

    Duplicate keys, empty values, tags, cycles and excessive sizes are problems in the document.
    """
    root = _compose(path, text, kind)
    document = ConfigDocument(path, kind, nulls=nulls)
    try:
        document.data = _Builder(document).plain(root, (), ())
    except _TooMuchError as error:
        document.data = None
        document.problems = [Problem(path, *_position(error.node), str(error))]
    return document


# A text, or a comment outside of texts.
_JSON_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*+"|\'(?:[^\'\\\n]|\\.)*+\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def read_json5(path: Path, kind: FileKind) -> ConfigDocument:
    """Read a JSON file that may have comments and trailing commas; the rest as `read_text` and `read_document`."""
    return read_document(str(path), json_as_yaml(read_text(path, kind)), kind, nulls=True)


def json_as_yaml(text: str) -> str:
    """JSON with comments as YAML, with blanks instead of comments and tabs, so that every position stays."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match[0].startswith("/") else match[0]

    return _JSON_COMMENT.sub(blank, text).replace("\t", " ")


class _TooMuchError(Exception):
    """The tree exceeds a limit; nothing in it is checked."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass
class _Builder:
    """Walks the tree once. It counts values, because aliases can multiply them."""

    document: ConfigDocument
    count: int = 0

    def plain(self, node: yaml.Node, loc: Loc, trail: tuple[int, ...]) -> Any:
        self.count += 1
        if id(node) in trail:
            raise _TooMuchError(node, "this value contains itself through an alias; write the values out.")
        if self.count > MAX_VALUES:
            raise _TooMuchError(node, f"the file expands to more than {MAX_VALUES} values; use fewer aliases or entries.")
        if len(trail) > MAX_DEPTH:
            raise _TooMuchError(node, f"values are nested more than {MAX_DEPTH} levels deep; remove some levels.")
        self.document.values[loc] = _position(node)
        if node.tag not in _SCALARS | _CONTAINERS:
            self.document.report(loc, f'the tag "{_short(node.tag)}" has no meaning in a {self.document.kind.noun}; remove it.')
        match node:
            case yaml.MappingNode():
                return self._mapping(node, loc, (*trail, id(node)))
            case yaml.SequenceNode():
                return [self.plain(item, (*loc, index), (*trail, id(node))) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node, loc)

    def _scalar(self, node: yaml.Node, loc: Loc) -> Written | None:
        text = str(node.value)
        kind = node.tag.removeprefix(_PREFIX)
        if kind == "null":
            if not (self.document.nulls and text == "null"):
                self.document.report(loc, _empty(text, loc))
            return None
        if "\0" in text:
            self.document.report(loc, "no program accepts a NUL character; remove the \\0.")
        return Written(text, kind if node.tag in _SCALARS else "str")

    def _mapping(self, node: yaml.MappingNode, loc: Loc, trail: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                message = "a key must be one word, not a list or a mapping; put quotes around a ${key}."
                self._refuse_key(key_node, message)
                continue
            key = str(key_node.value)
            inner = (*loc, key)
            if key in data:
                first = self.document.keys[inner]
                message = f'the key "{key}" is repeated, first at {first[0]}:{first[1]}; keep one of them.'
                self._refuse_key(key_node, message)
                continue
            self.document.keys[inner] = _position(key_node)
            data[key] = self.plain(value_node, inner, trail)
        return data

    def _refuse_key(self, key: yaml.Node, message: str) -> None:
        self.document.problems.append(Problem(self.document.path, *_position(key), _presentable(message)))


def _position(node: yaml.Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _presentable(message: str) -> str:
    """A message on one line; quoted values are shortened and control characters escaped."""
    shortened = _ENDLESS.sub(lambda found: f"{found.group()[:100]}…{found.group()[-20:]}", message)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shortened)


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else tag


def _empty(text: str, loc: Loc) -> str:
    subject = f'"{loc[-1]}"' if loc and isinstance(loc[-1], str) else "this entry"
    if text:
        return f'{subject} is {text}, which means "no value" in YAML; remove it, or write "{text}" in quotes for the word.'
    return f"{subject} has no value; give it one or remove it (an unquoted # begins a comment)."


# libyaml is ten times faster, but not every PyYAML has it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def _compose(path: str, text: str, kind: FileKind) -> yaml.Node:
    control = _CONTROL.search(text)
    if control is not None:
        code = f"U+{ord(control.group()):04X}"
        raise BadFiles([_at(path, text, control.start(), f"YAML does not allow the control character {code}; remove it.")])
    try:
        _refuse_depth(path, text)
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise BadFiles([_syntax(path, text, error, kind)]) from error
    except yaml.YAMLError as error:
        raise BadFiles([Problem(path, None, None, f"this is not YAML: {_one_line(str(error))}.")]) from error
    if root is None:
        raise BadFiles([Problem(path, None, None, f"the file is empty; {kind.start}.")])
    return root


def _refuse_depth(path: str, text: str) -> None:
    """Composing is recursive, and deeply nested brackets would overflow the stack; reading events is not."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line, column = (mark.line + 1, mark.column + 1) if (mark := event.start_mark) else (None, None)
            message = f"values are nested more than {MAX_DEPTH} levels deep; remove some levels."
            raise BadFiles([Problem(path, line, column, message)])


def _syntax(path: str, text: str, error: yaml.MarkedYAMLError, kind: FileKind) -> Problem:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(path, None, None, f"this is not YAML: {_one_line(str(error))}.")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    message = _advice(line, mark.column, str(error.problem or ""), kind) or _plain_report(error)
    return Problem(path, mark.line + 1, mark.column + 1, message)


def _advice(line: str, column: int, problem: str, kind: FileKind) -> str | None:
    """What to write, for frequent mistakes; None for others."""
    here = line[column : column + 1]
    if "another document" in problem:
        return f"a second document begins here; write each {kind.noun} into its own file."
    if here == "\t" or "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab indents this line; YAML allows only spaces there."
    if here == "{" and line[:column].endswith("$"):
        return 'put quotes around a value with ${key} inside [ ] or { }, such as "--flag=${key}".'
    if "mapping values are not allowed" in problem:
        return "a second colon, or a key with the wrong indentation: quote a value that contains `: `, or align the keys."
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
