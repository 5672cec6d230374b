"""Read YAML as plain data, and remember where in the file each value is.

A scalar keeps its text in the file: `1.10` does not become 1.1, nor `no` False. The
type that a key has decides what it means.
"""

from __future__ import annotations

import re
from contextlib import suppress
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

_PREFIX = "tag:yaml.org,2002:"
_KINDS = {
    "map",
    "seq",
    "str",
    "int",
    "float",
    "bool",
    "null",
    "timestamp",
    "value",
    "merge",
}
_ENDLESS = re.compile(r'"[^"]{300,}"|\S{300,}')
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

    def problem(self, loc: Loc, message: str, *, at_key: bool = False) -> Problem:
        """Return a problem with the position of the value, or of the key, at `loc`."""
        key, value = self.marks[self.resolve(loc)]
        return _problem(self.path, key if at_key else value, message)

    def resolve(self, loc: Loc) -> Loc:
        """Leave out the parts of a location that are not in the file. Pydantic adds
        such parts, for example for the branch of a union.
        """
        known: Loc = ()
        for part in loc:
            if (*known, part) in self.marks:
                known = (*known, part)
        return known

    def report(self, loc: Loc, message: str, *, at_key: bool = False) -> None:
        """Add a problem."""
        self.problems.append(self.problem(loc, message, at_key=at_key))

    def in_order(self) -> list[Problem]:
        """Return the problems by position, each once."""
        return sorted(
            dict.fromkeys(self.problems),
            key=lambda problem: (problem.line or 0, problem.column or 0),
        )

    def add(
        self,
        node: yaml.Node,
        loc: Loc = (),
        key: yaml.Node | None = None,
        outer: tuple[yaml.Node, ...] = (),
    ) -> Any:
        """Return the data of a node, and report its problems.

        Args:
            node: The node.
            loc: Its location.
            key: The node of its key, if it is a value of a mapping.
            outer: The nodes around it.

        Raises:
            BadFiles: It contains itself, or has too many parts.
        """
        self.marks[loc] = (key or node).start_mark, node.start_mark
        excess = self._excess(node, outer)
        if excess:
            raise BadFiles([self.problem(loc, excess)])
        outer, kind = (*outer, node), node.tag.removeprefix(_PREFIX)
        if kind not in _KINDS:
            tag = node.tag.replace(_PREFIX, "!!")
            self.report(loc, f'the tag "{tag}" has no meaning here; remove it.')
        if isinstance(node, yaml.SequenceNode):
            return [
                self.add(item, (*loc, number), None, outer)
                for number, item in enumerate(node.value)
            ]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node.value, loc, is_null=kind == "null")
        data = {}
        for name, value in node.value:
            problem = self._problem_of_key(name, loc)
            if problem:
                self.problems.append(_problem(self.path, name.start_mark, problem))
            else:
                data[name.value] = self.add(value, (*loc, name.value), name, outer)
        return data

    def _excess(self, node: yaml.Node, outer: tuple[yaml.Node, ...]) -> str | None:
        """Return why a node cannot be read, if it contains itself or has too many
        parts.
        """
        if node in outer:
            return "this value contains itself through an alias; write it out."
        if len(self.marks) > MAX_VALUES or len(outer) > MAX_DEPTH:
            return (
                f"the file expands to more than {MAX_VALUES} values or {MAX_DEPTH} "
                "levels; use fewer aliases or entries."
            )
        return None

    def _problem_of_key(self, key: yaml.Node, loc: Loc) -> str | None:
        """Return the problem with a key of the mapping at `loc`, if it has one."""
        if not isinstance(key, yaml.ScalarNode):
            return (
                "a key must be one word, not a list or a mapping; put quotes around a "
                "${key}."
            )
        if (*loc, key.value) in self.marks:
            first = self.marks[*loc, key.value][0]
            return (
                f'the key "{key.value}" is repeated, first at '
                f"{first.line + 1}:{first.column + 1}; keep one of them."
            )
        return None

    def _scalar(self, text: str, loc: Loc, *, is_null: bool) -> str | None:
        if not loc:
            subject = "the file"
        elif isinstance(loc[-1], int):
            subject = "this entry"
        else:
            subject = f'"{loc[-1]}"'
        if not is_null:
            if "\0" in text:
                self.report(loc, "no program accepts a NUL character; remove the \\0.")
            return text
        if not text:
            self.report(
                loc,
                (
                    f"{subject} has no value; give it one or remove it (an unquoted # "
                    "begins a comment)."
                ),
            )
        elif not self.nulls:
            self.report(
                loc,
                (
                    f'{subject} is {text}, which means "no value" in YAML; remove it, '
                    "or write it in quotes."
                ),
            )
        return None


def read_document(path: Path, empty: str, *, json: bool = False) -> ConfigDocument:
    """Read a file with one YAML document.

    Duplicate keys, empty values, tags, cycles and excessive sizes are problems in the
    document.

    Args:
        path: The file, named in problems as it is given here.
        empty: How to begin such a file, for an empty one.
        json: Whether it is JSON, where `null` is a value and `//` begins a comment.

    Raises:
        BadFiles: The file cannot be read, or it is not YAML.
    """
    text = read_text(path)
    return parse_document(
        str(path), json_as_yaml(text) if json else text, empty, nulls=json
    )


def parse_document(
    path: str, text: str, empty: str, *, nulls: bool = False
) -> ConfigDocument:
    """Parse the text of a file as `read_document` does. With `nulls`, `null` counts as
    a value.
    """
    document = ConfigDocument(path, nulls)
    document.data = document.add(_compose(path, text, empty))
    return document


def json_as_yaml(text: str) -> str:
    """Return JSON with comments as YAML. Blanks replace comments and tabs, so that all
    positions stay the same.
    """

    def blank(match: re.Match[str]) -> str:
        is_comment = match[0].startswith("/")
        return re.sub(r"[^\n]", " ", match[0]) if is_comment else match[0]

    return _JSON_COMMENT.sub(blank, text).replace("\t", " ")


def read_text(path: Path) -> str:
    """Return a file's text without a byte order mark. Raises BadFiles if the file is
    too big, not text, a link out of its folder, or cannot be read.
    """
    try:
        data = read_bytes(path, MAX_BYTES)
        if b"\0" not in data:
            return data.decode("utf-8-sig")
        message = "this is a binary file (it has NUL bytes), not text in UTF-8."
    except OSError as error:
        message = why_unreadable(path, error)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = (
            f"line {line} is not UTF-8 (byte 0x{data[error.start]:02x}); save the "
            "file as UTF-8 text."
        )
    raise BadFiles([Problem(str(path), None, None, message)])


def why_unreadable(path: Path, error: OSError | ValueError) -> str:
    """Return a sentence that says why a path cannot be used."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        reason = getattr(error, "strerror", None) or str(error)
        return f"cannot be read: {reason.lower()}."
    if path.is_symlink():
        return f'this link points to "{path.readlink()}", which does not exist.'
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    return "no such file or folder" + did_you_mean(path.name, names)


def _problem(path: str, mark: Any, message: str) -> Problem:
    """Return a problem at a position. In its message, long words are shortened and
    control characters escaped.
    """
    shortened = _ENDLESS.sub(
        lambda found: f"{found.group()[:100]}…{found.group()[-20:]}", message
    )
    line = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in shortened
    )
    return Problem(path, mark.line + 1, mark.column + 1, line)


def _compose(path: str, text: str, empty: str) -> yaml.Node:
    control = _CONTROL.search(text)
    if control:
        start = control.start()
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        message = (
            f"YAML does not allow the control character U+{ord(control[0]):04X}; "
            "remove it."
        )
        raise BadFiles([Problem(path, line, column, message)])
    try:
        _check_depth(path, text, LOADER)
        root = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as error:
        with suppress(yaml.YAMLError):  # the error is before the deep nesting
            # libyaml stops at 1,000 levels before it returns the first one
            if "nesting depth" in str(error):
                _check_depth(path, text, yaml.SafeLoader)
        raise BadFiles([_syntax_problem(path, text, error)]) from error
    if root is None or root.tag == f"{_PREFIX}null":
        raise BadFiles([Problem(path, None, None, f"the file is empty; {empty}.")])
    return root


def _check_depth(
    path: str, text: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]
) -> None:
    """Raise BadFiles for deep nesting. Composing is recursive and would overflow the
    stack, so events are read, which is not.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MAX_DEPTH:
            message = (
                f"values are nested more than {MAX_DEPTH} levels deep; remove some "
                "levels."
            )
            raise BadFiles([_problem(path, event.start_mark, message)])


def _syntax_problem(path: str, text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or error)
    message = f"this is not YAML: {' '.join(problem.split())}."
    if mark is None:
        return Problem(path, None, None, message)
    line = "".join(text.splitlines()[mark.line : mark.line + 1])
    begin = getattr(error, "context_mark", None)
    if "another document" in message:
        message = "a second document begins here; write each into its own file."
    elif re.match(r" *\t", line):
        message = "a tab indents this line; YAML allows only spaces there."
    elif line[: mark.column + 1].endswith("${"):
        message = (
            "put quotes around a value with ${key} inside [ ] or { }, such as "
            '"--flag=${key}".'
        )
    elif begin and begin.line != mark.line:
        context = getattr(error, "context", None) or ""
        place = f"{begin.line + 1}:{begin.column + 1}"
        message = f"{message[:-1]} {context} that begins at {place}."
    return _problem(path, mark, message)
