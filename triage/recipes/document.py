"""Read YAML files as plain data with positions, and check them with pydantic.

A scalar keeps its text in the file: `1.10` does not become 1.1, nor `no` False. The
type that a key has decides what it means, and describes it to editors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_origin

import yaml
from pydantic_core import ValidationError, __version__
from yaml.reader import ReaderError

from triage.model.content import cached_in_file, read_bytes
from triage.model.errors import BadFiles, Problem
from triage.model.fields import Check, as_pairs, fits
from triage.model.fields import Text as Text
from triage.recipes.values import did_you_mean, why_unreadable, yaml_text

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_core import ErrorDetails, SchemaValidator

Loc = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

# Pydantic would read the metadata of all installed packages in search of its plugins.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
MAX_BYTES = 1 << 20
_PROGRAM = Path(__file__).parents[1]
MAX_DEPTH = 40
MAX_VALUES = 20_000

_NULL = "tag:yaml.org,2002:null"
_ADVICE = "indent by spaces, and put quotes around a value with special characters"
_JSON_STRING_OR_COMMENT = re.compile(
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

    def report(self, loc: Loc, message: str, *, at_key: bool = False) -> Problem:
        """Add a problem at the position of the value, or of the key, at `loc`."""
        key, value = self.marks[self.resolve(loc)]
        problem = _problem(self.path, key if at_key else value, message)
        self.problems.append(problem)
        return problem

    def resolve(self, loc: Loc) -> Loc:
        """Leave out the parts of a location that are not in the file. Pydantic adds
        such parts, for example for the branch of a union.
        """
        loc_in_file: Loc = ()
        for part in loc:
            if (*loc_in_file, part) in self.marks:
                loc_in_file = (*loc_in_file, part)
        return loc_in_file

    def in_order(self) -> list[Problem]:
        """Return the problems by position, each once."""
        return sorted(set(self.problems))

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
            raise BadFiles([self.report(loc, message)])
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
            name = key.value
            if isinstance(name, str) and name not in data:
                data[name] = self.read(value, (*loc, name), key)
                continue
            message = "a key must be one word; put quotes around a ${key}."
            if isinstance(name, str):
                first = position_text(self.marks[*loc, name][0])
                message = f'the key "{name}" is repeated, first at {first}; keep one.'
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
    name = str(path)
    text = read_text(path)
    document = ConfigDocument(name, nulls=json)
    if json:
        text = _json_as_yaml(text)
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        context = ""
        if error.context_mark:
            begin = position_text(error.context_mark)
            context = f" {error.context} that begins at {begin}"
        message = f"this is not YAML: {error.problem}{context}; {_ADVICE}."
        raise BadFiles([_problem(name, error.problem_mark, message)]) from error
    except ReaderError as error:
        before = text.encode()[: error.position].decode().split("\n")
        line = len(before)
        column = len(before[-1]) + 1
        raise BadFiles([Problem(name, line, column, f"{error.reason}.")]) from error
    if root is not None and root.tag != _NULL:
        document.data = document.read(root)
    elif empty is not None:
        raise BadFiles([Problem(name, None, None, f"the file is empty; {empty}.")])
    return document


def _json_as_yaml(text: str) -> str:
    """Return JSON with comments as YAML. Blanks replace comments and tabs, so that all
    positions stay the same.
    """

    def blank_comment(match: re.Match[str]) -> str:
        if match[0].startswith("/"):
            return re.sub(r"[^\n]", " ", match[0])
        return match[0]

    return _JSON_STRING_OR_COMMENT.sub(blank_comment, text).replace("\t", " ")


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


def position_text(mark: yaml.Mark) -> str:
    """Return `line:column`, which count from 1."""
    return f"{mark.line + 1}:{mark.column + 1}"


def _problem(path: str, mark: Any, message: str) -> Problem:
    """Return a problem at a position, with its message on one line."""
    return Problem(path, mark.line + 1, mark.column + 1, " ".join(message.split()))


Content = TypeVar("Content")
STRICT: ConfigDict = {"extra": "forbid", "allow_inf_nan": False}
"""For the mapping of a file, whose keys are the fields of a class. A message about a
key shows the first example of its field.
"""


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    return value


def _as_mapping(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value)
    return value


OneOrMore = Check(_as_list, reads=Text | list[Text], is_first=True)
"""Lets one text stand for a list of one."""
Texts = Annotated[tuple[Text, ...], OneOrMore]
_NAME_ADVICE = (
    '"{text}" cannot be set: write a name of letters, digits and _, but not TMPDIR.'
)
_Name = Annotated[str, fits(r"(?!TMPDIR$)[A-Za-z_][A-Za-z0-9_]*", _NAME_ADVICE)]
_VARIABLES = Check(_as_mapping, list[_Name] | dict[_Name, str], is_first=True)
Variables = Annotated[
    tuple[tuple[str, str | None], ...],
    Check(as_pairs, Annotated[dict[_Name, str | None], _VARIABLES]),
]
"""Environment variables with their values: in a file a list of names to pass on, whose
values are None, or a mapping of names to values.
"""


def validate_document(
    document: ConfigDocument,
    kind: type[Content],
    data: Any = None,
    context: object = None,
) -> Content | None:
    """Return the content of a file. If it has mistakes, add them to the document and
    return None.

    Args:
        document: The file.
        kind: The type of its content.
        data: Is checked in place of the document's data, with the same positions.
        context: Is passed to the checks.
    """
    hashable: Any = kind
    if data is None:
        data = document.data
    try:
        content: Content = schema_of(hashable).validate_python(data, context=context)
    except ValidationError as error:
        _report(error, document, kind)
        return None
    if document.problems:
        return None
    return content


@cache
def schema_of(kind: Any) -> SchemaValidator:
    """Return pydantic's validator of a type. That of a class is stored in a file,
    because building it takes longer than most commands. Any module of triage may define
    a part of it.
    """
    if get_origin(kind) is not None:
        return _build_schema(kind)
    files = sorted(_PROGRAM.rglob("*.py"))
    name = f"{kind.__module__}.{kind.__name__}.{__version__}"
    return cached_in_file(name, files, partial(_build_schema, kind))


def _build_schema(kind: Any) -> SchemaValidator:
    from pydantic_core import SchemaValidator

    return SchemaValidator(_without_metadata(_adapter(kind).core_schema))


def _without_metadata(schema: Any) -> Any:
    """Return a schema without what only editors need, which cannot be pickled."""
    if isinstance(schema, list):
        return list(map(_without_metadata, schema))
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_metadata(value)
        for key, value in schema.items()
        if key != "metadata"
    }


def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # slow to import

    if get_origin(kind) is None:  # a class has its own configuration
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=STRICT)


def content_of(document: ConfigDocument, kind: type[Content]) -> Content:
    """Return the content of a file. Raises BadFiles with every mistake."""
    content = validate_document(document, kind)
    if content is None:
        raise BadFiles(document.in_order())
    return content


def _report(error: ValidationError, document: ConfigDocument, kind: Any) -> None:
    """Report pydantic's errors, except those of values that have problems of their own:
    empty ones and those with placeholders.
    """
    for details in error.errors(include_url=False):
        loc = document.resolve(details["loc"])
        value = details["input"]
        type_ = details["type"]
        at_key = type_ == _UNKNOWN_KEY or details["loc"][-1:] == ("[key]",)
        is_empty = value is None and not document.nulls
        has_placeholder = (
            loc and isinstance(value, str) and "${" in value and not at_key
        )
        if is_empty or has_placeholder:
            continue
        if type_ == "missing":
            loc = (*loc, details["loc"][-1])
        document.report(loc, _message(details, loc, kind), at_key=at_key)


def _message(details: ErrorDetails, loc: Loc, kind: Any) -> str:
    """Return a sentence that says what is wrong, and what to write."""
    value = details["input"]
    names = [part for part in loc if isinstance(part, str)]
    keys = _keys_of(kind)
    advice = "."
    key = names[-1] if names else ""
    for name in names:
        examples = keys.get(name, {}).get("examples")
        if examples:  # of the innermost key that has one
            advice = f": write `{name}: {yaml_text(examples[0])}`."
    shape = f'"{value}"'
    if isinstance(value, list | Mapping):
        shape = "a mapping" if isinstance(value, Mapping) else "a list"
    noun = _NOUNS.get(details["type"].partition("_")[0])
    default = details["msg"].replace("Input should be", "{key} must be") + "{advice}"
    if noun:
        default = "{key} must be {noun}, not {shape}{advice}"
    return _SENTENCES.get(details["type"], default).format(
        error=details.get("ctx", {}).get("error"),
        key=f'"{key}"' if key else "the file",
        noun=noun,
        shape=shape,
        advice=advice,
        guess=did_you_mean(key, keys.keys() - {key}),
    )


_UNKNOWN_KEY = "unexpected_keyword_argument"
# pydantic's type of an error -> what is said of it
_SENTENCES = {
    "value_error": "{error}",
    "missing": "the key {key} is missing{advice}",
    _UNKNOWN_KEY: "{key} is not a key here{guess}",
}
# the beginning of the type of other errors -> what the value must be
_NOUNS = {
    "string": "a single value",
    **dict.fromkeys(("list", "tuple"), "a list"),
    **dict.fromkeys(("dict", "dataclass"), "a mapping"),
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
}


@cache
def _keys_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schemas of all keys that a file may have, at whatever place; of a
    name that several have, that of the outermost.
    """
    schema = _adapter(kind).json_schema()
    keys: dict[str, Any] = {}
    for part in (*schema.get("$defs", {}).values(), schema):
        keys |= part.get("properties", {})
    return keys
