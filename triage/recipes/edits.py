"""Edit lists in YAML files and in JSON files with comments, as text: everything else stays as it is."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import yaml

from triage.model.errors import BadFiles, Problem
from triage.recipes.document import LOADER, json_as_yaml

_WIDTH = 120  # columns; a list on one line gets a line for each entry when it is wider

Change = tuple[int, int, str]
"""Replace the text between two positions."""


@dataclass(frozen=True, slots=True)
class ListEdit:
    """Entries to remove from a list and to add to it: in order if the list is sorted, else at its end."""

    remove: Collection[str] = ()
    add: Collection[str] = ()


def apply(text: str, changes: Sequence[Change]) -> str:
    """Return the text with changes. Of two insertions at one position, the first one given comes first."""
    parts, done = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[0]):
        parts += [text[done:start], new]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def edit_json_lists(path: str, text: str, edits: Mapping[str, ListEdit]) -> str:
    """Return a JSON text with the lists of these keys of its mapping edited. A list that is not there is added.

    Raises:
        BadFiles: Comments stand between entries that share a line.
    """
    root = yaml.compose(json_as_yaml(text), Loader=LOADER)
    assert isinstance(root, yaml.MappingNode)
    lists = {key.value: value for key, value in root.value}
    changes: list[Change] = []
    for name, edit in edits.items():
        new = {entry: json.dumps(entry, ensure_ascii=False) for entry in sorted(edit.add)}
        if name in lists:
            values = [item.value for item in lists[name].value]
            kept = [index for index, value in enumerate(values) if value not in edit.remove]
            is_sorted = values == sorted(values)
            places = {entry: bisect_left(values, entry) if is_sorted else len(values) for entry in new if entry not in values}
            if places or len(kept) < len(values):
                added = [(place, new[entry]) for entry, place in places.items()]
                changes.append(edit_list(path, text, lists[name], kept, added))
        elif new:
            start = root.value[-1][0].start_mark.index  # a key in front of the last one needs no other comma
            indent = text[text.rfind("\n", 0, start) + 1 : start]
            entries = ",".join(f"\n{indent * 2}{entry}" for entry in new.values())
            changes.append((start, start, f"{json.dumps(name)}: [{entries}\n{indent}],\n{indent}"))
    return apply(text, changes)


def edit_list(path: str, text: str, node: yaml.SequenceNode, kept: Collection[int], added: Sequence[tuple[int, str]]) -> Change:
    """Return the change that edits a list. Comments above an entry, except the first, belong to it.

    Args:
        path: Of the file, for an error.
        text: The file.
        node: The list.
        kept: The numbers of the entries that stay.
        added: New entries as text, each with the number of the entry that it comes in front of.

    Raises:
        BadFiles: Comments stand between entries that share a line.
    """
    lines = [node.start_mark.line if node.flow_style else -1, *(item.start_mark.line for item in node.value)]
    emptied = not (kept or added or node.flow_style)  # YAML needs brackets then
    if emptied or len(lines) == 1 or len(set(lines)) < len(lines):
        return _on_one_line(path, text, node, kept, added)
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = done = text.rfind("\n", 0, node.value[0].start_mark.index) + 1
    prefix = text[begin : node.value[0].start_mark.index]  # the dash of YAML, too
    comma, entries = False, []
    for index, item in enumerate(node.value):
        end = end_of(item)
        after = line_end(text, end) + 1
        before, behind = text[done:end], text[end:after].rstrip("\r\n") + newline
        comma = bool(node.flow_style) and behind.lstrip().startswith(",")
        if index in kept:
            entries.append((index, 1, before, behind.lstrip()[1:] if comma else behind))
        done = after
    entries = sorted([*entries, *((index, 0, prefix + entry, newline) for index, entry in added)])
    written = [before + "," * bool(node.flow_style) + behind for *_, before, behind in entries]
    if entries and node.flow_style and not comma:  # the last one had none
        written[-1] = entries[-1][2] + entries[-1][3]
    return begin, min(done, len(text)), "".join(written)


def _on_one_line(
    path: str, text: str, node: yaml.SequenceNode, kept: Collection[int], added: Sequence[tuple[int, str]]
) -> Change:
    """The list written again: one that is or becomes empty, or has several entries on a line."""
    start, end = node.start_mark.index, end_of(node)
    if node.flow_style and text[start:end].replace("\t", " ") != json_as_yaml(text)[start:end]:
        message = "the comments of this list have no clear place; write each entry on a line of its own."
        raise BadFiles([Problem(path, node.start_mark.line + 1, node.start_mark.column + 1, message)])
    old = ((index, 1, text[item.start_mark.index : end_of(item)]) for index, item in enumerate(node.value) if index in kept)
    entries = [entry for *_, entry in sorted([*old, *((index, 0, entry) for index, entry in added)])]
    line = f"[{', '.join(entries)}]"
    if not node.flow_style:
        return len(text[:start].rstrip()), end, f" {line}"  # behind the colon of the key
    if node.start_mark.column + len(line) <= _WIDTH:
        return start, end, line
    line = text[text.rfind("\n", 0, start) + 1 : start]
    indent = line[: len(line) - len(line.lstrip())]
    return start, end, "[" + ",".join(f"\n{indent * 2 or '  '}{entry}" for entry in entries) + f"\n{indent}]"


def end_of(node: yaml.Node) -> int:
    """Return the position behind a value, without the comments and blank lines that follow it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    return end_of(node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1])


def line_end(text: str, position: int) -> int:
    """Return the end of the line with this position."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end
