"""YAML text as plain data that remembers where each value was written.

Scalars stay the text that stands in the file: `1.10` is not turned into 1.1 and `no` not into False. Which type
YAML 1.1 would have given them is kept beside the text, so that whoever wants text can explain the surprise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from triage.model.errors import BadFiles, Problem

Loc = tuple[str | int, ...]
Place = tuple[int, int]

MAX_DEPTH = 40
MAX_VALUES = 20_000

_ENDLESS = re.compile(r'"[^"]{300,}"|\S{300,}')
_PREFIX = "tag:yaml.org,2002:"
_CONTAINERS = {f"{_PREFIX}map", f"{_PREFIX}seq"}
_SCALARS = {f"{_PREFIX}{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")}


class Written(str):
    """A scalar as it stands in the file; `kind` is the type YAML 1.1 gives it: str, int, float, bool, timestamp, …"""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, text: str, kind: str = "str") -> Written:
        """Text as written, without its quotes."""
        written = super().__new__(cls, text)
        written.kind = kind
        return written


@dataclass
class Document:
    """One file's data (dict, list, Written; None for a value left out), the places of its values and keys, and what
    is wrong with it as YAML. `settled` holds the places whose mistake is already told.
    """

    path: str
    data: Any = None
    values: dict[Loc, Place] = field(default_factory=dict)
    keys: dict[Loc, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    settled: set[Loc] = field(default_factory=set)

    def resolve(self, loc: Loc) -> Loc:
        """`loc` without the parts that name no value of the file, such as the branch of a union."""
        known: Loc = ()
        for part in loc:
            if (*known, part) in self.values:
                known = (*known, part)
        return known

    def problem(self, loc: Loc, message: str, *, at_key: bool = False) -> Problem:
        """A problem at the value (or the key) that `loc` leads to; at the file where there is no such place."""
        places = self.keys if at_key and loc in self.keys else self.values
        line, column = places.get(loc, (None, None))
        return Problem(self.path, line, column, _presentable(message))

    def report(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        """Note a problem. One about a value settles its place; one about a key leaves the value to be judged."""
        self.problems.append(self.problem(loc, message, at_key=at_key))
        if not at_key:
            self.settled.add(loc)

    def texts(self) -> Iterator[tuple[Loc, Written]]:
        """Every scalar with its place, in the file's order."""
        yield from _texts(self.data, ())


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


def build_document(path: str, root: yaml.Node) -> Document:
    """The plain data of a composed tree. Duplicate keys, empty values, tags, cycles and floods are problems in it."""
    document = Document(path)
    builder = _Builder(document)
    try:
        document.data = builder.plain(root, (), ())
    except _TooMuchError as error:
        document.data = None
        document.problems = [Problem(path, *_place(error.node), str(error))]
    return document


class _TooMuchError(Exception):
    """The tree goes on beyond the limits; nothing in it is looked at."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass
class _Builder:
    """Walks the tree once; counts values, so that anchors repeated by aliases cannot blow it up."""

    document: Document
    count: int = 0

    def plain(self, node: yaml.Node, loc: Loc, trail: tuple[int, ...]) -> Any:
        self.count += 1
        if id(node) in trail:
            raise _TooMuchError(node, "this value contains itself through an alias; write the values out.")
        if self.count > MAX_VALUES:
            raise _TooMuchError(node, f"the file unfolds to more than {MAX_VALUES} values; write fewer aliases or entries.")
        if len(trail) > MAX_DEPTH:
            raise _TooMuchError(node, f"values are nested more than {MAX_DEPTH} deep; a recipe needs 4.")
        self.document.values[loc] = _place(node)
        if node.tag not in _SCALARS | _CONTAINERS:
            self.document.report(loc, f'the tag "{_short(node.tag)}" has no meaning in a recipe; remove it.')
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
            self.document.report(loc, _empty(text, loc))
            return None
        if "\0" in text:
            self.document.report(loc, "a NUL character cannot be handed to any program; remove the \\0.")
        return Written(text, kind if node.tag in _SCALARS else "str")

    def _mapping(self, node: yaml.MappingNode, loc: Loc, trail: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                message = "a key must be one word, not a list or a mapping (${key} needs quotes around it here)."
                self._refuse_key(key_node, message)
                continue
            key = str(key_node.value)
            inner = (*loc, key)
            if key in data:
                first = self.document.keys[inner]
                message = f'the key "{key}" stands here a second time, first at {first[0]}:{first[1]}; keep one of them.'
                self._refuse_key(key_node, message)
                continue
            self.document.keys[inner] = _place(key_node)
            data[key] = self.plain(value_node, inner, trail)
        return data

    def _refuse_key(self, key: yaml.Node, message: str) -> None:
        self.document.problems.append(Problem(self.document.path, *_place(key), _presentable(message)))


def _place(node: yaml.Node) -> Place:
    """Line and column counted from 1, columns in characters."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def _presentable(message: str) -> str:
    """A message in one line that no quoted value can stretch, break, or fill with terminal escapes."""
    shortened = _ENDLESS.sub(lambda found: f"{found.group()[:100]}…{found.group()[-20:]}", message)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shortened)


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else tag


def _empty(text: str, loc: Loc) -> str:
    subject = f'"{loc[-1]}"' if loc and isinstance(loc[-1], str) else "this entry"
    if text:
        return f'{subject} is {text}, which is YAML for no value; remove it, or write "{text}" in quotes to mean the word.'
    return f"{subject} has no value; give it one or remove it (an unquoted # begins a comment)."


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
