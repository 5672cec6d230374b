"""Edit lists of texts in JSON files as text: comments, order, commas and indentation of everything else stay."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import yaml

from triage.model.errors import BadFiles, Problem
from triage.recipes.document import LOADER, json_as_yaml

_WIDTH = 100  # columns; a list on one line becomes one entry a line when it is wider


@dataclass(frozen=True, slots=True)
class ListEdit:
    """Entries to remove from a list and to add to it: in order where the list is sorted, else at its end."""

    remove: Collection[str] = ()
    add: Collection[str] = ()


def edit_lists(path: str, text: str, edits: Mapping[str, ListEdit]) -> str:
    """Return the text with the lists of these keys of its mapping edited. A list that is not there is added.

    Raises:
        BadFiles: comments stand between entries that share a line.
    """
    root = yaml.compose(json_as_yaml(text), Loader=LOADER)
    assert isinstance(root, yaml.MappingNode)
    nodes = {key.value: (key, value) for key, value in root.value}
    changes: list[tuple[int, int, str]] = []
    for name, edit in edits.items():
        if name in nodes and (edit.remove or edit.add):
            _, node = nodes[name]
            start, end = node.start_mark.index, node.end_mark.index
            changes.append((start, end, _edited(path, text, node, edit)))
        elif edit.add:
            last, _ = root.value[-1]  # a new key before it needs no other comma
            indent = _indent(text, last.start_mark.index)
            start = last.start_mark.index
            changes.append((start, start, f"{json.dumps(name)}: {_lines(sorted(edit.add), indent)},\n{indent}"))
    for start, end, replacement in sorted(changes, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _edited(path: str, text: str, node: yaml.SequenceNode, edit: ListEdit) -> str:
    """The list from its opening bracket to its closing one."""
    start, end = node.start_mark.index, node.end_mark.index
    rows = [_Row(line) for line in text[start + 1 : end - 1].split("\n")]
    first = node.start_mark.line
    for item in node.value:
        row = rows[item.start_mark.line - first]
        if row.item is not None or row is rows[0]:
            return _rewritten(path, text, node, edit)
        begin = item.start_mark.column
        row.split(item.value, begin, begin + item.end_mark.index - item.start_mark.index)
    items = [row for row in rows if row.item is not None]
    if not items or not all(row.comma for row in items[:-1]):
        return _rewritten(path, text, node, edit)
    trailing, values = items[-1].comma, [row.item or "" for row in items]
    is_sorted, before = values == sorted(values), items[0].before
    rows = [row for row in rows if row.item is None or row.item not in edit.remove]
    for value in sorted(set(edit.add) - set(values)):
        places = [index for index, row in enumerate(rows) if row.item is not None]
        present = [rows[index].item or "" for index in places]
        at = bisect_left(present, value) if is_sorted else len(present)
        row = _Row(before, value, json.dumps(value, ensure_ascii=False), behind="\r" if items[0].behind.endswith("\r") else "")
        rows.insert(places[at - 1] + 1 if at else places[0] if places else len(rows) - 1, row)
    items = [row for row in rows if row.item is not None]
    for row in items:
        row.comma = trailing or row is not items[-1]
    return f"[{chr(10).join(map(str, rows))}]"


@dataclass
class _Row:
    """A line of a list: an entry with what stands before and behind it, or anything else (in `before`)."""

    before: str
    item: str | None = None
    literal: str = ""
    comma: bool = False
    behind: str = ""

    def split(self, value: str, begin: int, end: int) -> None:
        """Make it the line of an entry, which is at these columns."""
        line, rest = self.before, self.before[end:]
        self.before, self.item, self.literal = line[:begin], value, line[begin:end]
        self.comma = rest.lstrip().startswith(",")
        self.behind = rest.lstrip()[1:] if self.comma else rest

    def __str__(self) -> str:
        return f"{self.before}{self.literal}{',' if self.comma else ''}{self.behind}"


def _rewritten(path: str, text: str, node: yaml.SequenceNode, edit: ListEdit) -> str:
    """The list written again: one that is empty or has several entries on a line."""
    start, end = node.start_mark.index, node.end_mark.index
    if text[start:end].replace("\t", " ") != json_as_yaml(text)[start:end]:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        message = "the comments of this list have no clear place; write each entry on a line of its own."
        raise BadFiles([Problem(path, line, column, message)])
    values = [item.value for item in node.value]
    kept = [value for value in values if value not in edit.remove]
    new = sorted(set(edit.add) - set(values))
    kept = sorted([*kept, *new]) if values == sorted(values) else [*kept, *new]
    on_line = json.dumps(kept, ensure_ascii=False)
    if not kept or (values and "\n" not in text[start:end] and node.start_mark.column + len(on_line) < _WIDTH):
        return on_line
    return _lines(kept, _indent(text, start))


def _lines(values: list[str], indent: str) -> str:
    """A list with an entry a line, in a line with this indentation."""
    inner = indent * 2 or "  "
    return "[\n" + ",\n".join(f"{inner}{json.dumps(value, ensure_ascii=False)}" for value in values) + f"\n{indent}]"


def _indent(text: str, index: int) -> str:
    """The indentation of the line with this position."""
    line = text[text.rfind("\n", 0, index) + 1 : index]
    return line[: len(line) - len(line.lstrip())]
