"""Known failures and flags: which apply to a version, and how lists of known failures in files change.

A range [since, until) names releases. A nightly such as 3.5.0rc20250604 is built between 3.4.0 and 3.5.0, and a change
"since 3.5.0" appeared in one of these nightlies. Therefore a nightly, like any other pre-release or local build, counts
as the release it leads to: inside `since: "3.5.0"` and outside `until: "3.5.0"`. A bound that names a nightly or a
post-release itself is compared exactly.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import yaml
from packaging.version import InvalidVersion, Version

from triage.model.case import Case, Expectation, Flag
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.recipes.document import LOADER, json_as_yaml, read_text
from triage.recipes.values import yaml_text

_WIDTH = 120  # columns; a list on one line gets a line for each entry when it is wider
_PLAIN_KEY = re.compile(r"[A-Za-z][\w./,-]*=[\w./,=-]+|[a-z][a-z0-9-]+")
_DIFFER = "the cases of the recipe differ; name a file for them, `expect: expect.yaml`, and repeat the command"

TextChange = tuple[int, int, str]
"""Replace the text between two positions."""


def expectation_for(case: Case, version: str | None, failure: Failure | None = None) -> Expectation | None:
    """Return the first expectation that holds for a version; with a failure, the first that also names it.

    For an unknown version (None, or text that is not a version) only those without bounds hold: a failure must not be
    excused by a guess.
    """
    holding = (item for item in case.expect if applies(item, version))
    return next((item for item in holding if failure is None or matches(item, failure)), None)


def applies(item: Expectation, version: str | None) -> bool:
    """Return whether an expectation holds for a version."""
    return _holds(item.since, item.until, version, unknown=item.since is None and item.until is None)


def flag_applies(flag: Flag, version: str | None) -> bool:
    """Return whether a flag is given to a version.

    An unknown version counts as newer than every release, as most local builds are: it gets flags without `until`. If it is
    older, the compiler reports the unknown flag, and the case is untestable.
    """
    return _holds(flag.since, flag.until, version, unknown=flag.until is None)


def matches(item: Expectation, failure: Failure) -> bool:
    """Return whether an expectation names the failure: its stage, and its class or family, where these are given."""
    return item.failure in (None, failure.failure_class, failure.family) and item.stage in (None, failure.stage)


def _holds(since: str | None, until: str | None, version: str | None, *, unknown: bool) -> bool:
    parsed = _parsed(version or "")
    if parsed is None:
        return unknown
    return not (since and _is_before(parsed, Version(since))) and (until is None or _is_before(parsed, Version(until)))


def _is_before(version: Version, bound: Version) -> bool:
    """Compare by the release, unless the bound names more than one."""
    return (version if bound.public != bound.base_version else Version(version.base_version)) < bound


@lru_cache(maxsize=256)
def _parsed(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


@dataclass(frozen=True, slots=True)
class ObservedCase:
    """What a case did."""

    case: Case
    version: str | None
    """PEP 440, if it is known."""
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ExpectationChange:
    """A change of what is expected of a case: a list or an entry of the file."""

    case: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class LeftCase:
    """A case whose known failures stay as they are, and why."""

    case: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpdatedFile:
    """A file with its changes."""

    path: Path
    old: str
    new: str
    changes: tuple[ExpectationChange, ...] = ()
    left: tuple[LeftCase, ...] = ()
    """Cases that it cannot describe."""

    JSON_KEYS: ClassVar = {"old": None, "new": None, "left": None}
    JSON_PROPERTIES: ClassVar = ("diff",)

    @property
    def diff(self) -> str:
        """The changes as a unified diff."""
        name = str(self.path)
        old, new = self.old.splitlines(), self.new.splitlines()
        return "\n".join(unified_diff(old, new, f"{name} (old)", f"{name} (new)", lineterm=""))


@dataclass(frozen=True, slots=True)
class ExpectationUpdate:
    """Files with known failures as the results of a toolchain change them."""

    toolchain: Revision
    files: Sequence[UpdatedFile]
    left: Sequence[LeftCase]
    written: bool
    """False with `--dry-run`."""


def label_of(case: str) -> str:
    """Return the name of a case in a file of known failures: what its brackets hold, or the recipe's name."""
    return case.partition("[")[2].removesuffix("]") or case


def updated_expectations(recipe: Path, observed: Sequence[ObservedCase], untested: int) -> UpdatedFile:
    """Update the known failures of a recipe: in its own list, or in the file that it names.

    An entry whose failure is gone ends at the version that was seen, and holds for older versions as before; a new failure
    gets an entry that begins there.

    Args:
        recipe: The recipe's file.
        observed: What its cases did.
        untested: How many of its cases are not among them.
    """
    file = _values(read_text(recipe)).get("expect")
    if not isinstance(file, yaml.ScalarNode):
        return _update(recipe, {"expect": observed}, untested)
    path = recipe.parent / file.value
    return _update(path, {label_of(entry.case.name): [entry] for entry in observed}, untested=0)


def _update(path: Path, lists: Mapping[str, Sequence[ObservedCase]], untested: int) -> UpdatedFile:
    """Update the lists below these keys. A list may hold for several cases, `untested` of which were not seen."""
    old = text = read_text(path) if path.exists() else ""
    nodes = _values(text)
    changes: list[ExpectationChange] = []
    left: list[LeftCase] = []
    for key, observed in lists.items():
        node, version, names = nodes.get(key), observed[0].version, ", ".join(seen.case.name for seen in observed)
        items = node.value if isinstance(node, yaml.SequenceNode) else []
        entries = [_expectation(item) for item in items]
        known = [entry for entry in entries if applies(entry, version)]
        kept, closed = list(range(len(items))), []
        for index, entry in enumerate(entries):
            is_seen = any(seen.failure and matches(entry, seen.failure) for seen in observed)
            if entry not in known or untested or is_seen:
                continue
            name = entry.failure or f"stage {entry.stage}"
            ends = version is not None and (entry.since is None or Version(entry.since) < Version(version))
            if ends:
                closed.append(_closed(text, items[index], str(version)))
            else:
                kept.remove(index)
            changes.append(ExpectationChange(names, name, f"{name} until {version}" if ends else None))
        if closed:
            text = _with_changes(text, closed)
            nodes = _values(text)
        new = [seen for seen in observed if seen.failure and not any(matches(entry, seen.failure) for entry in known)]
        failures = {seen.failure.failure_class: seen.failure for seen in new if seen.failure}
        added = None
        if new and (untested or len(new) < len(observed) or len(failures) > 1):
            left += [LeftCase(seen.case.name, _DIFFER) for seen in new]
        elif new:
            [(name, failure)] = failures.items()
            stage = {} if failure.stage is Stage.COMPILE else {"stage": str(failure.stage)}
            added = yaml_text({**stage, "failure": name, **({"since": version} if version else {})})
            changes.append(ExpectationChange(names, None, name))
        node = nodes.get(key)
        if isinstance(node, yaml.SequenceNode) and (added or len(kept) < len(items)):
            text = _with_changes(text, [_list_change(path, text, node, kept, [(len(items), added)] if added else [])])
            nodes = _values(text)
        elif added:
            text += "" if not text or text.endswith("\n") else "\n"
            text += f"{key if _PLAIN_KEY.fullmatch(key) else yaml_text(key)}:\n  - {added}\n"
    return UpdatedFile(path, old, text, tuple(changes), tuple(left))


def _values(text: str) -> dict[str, yaml.Node]:
    """Return the values of the mapping in a text, by their keys."""
    root = yaml.compose(text, Loader=LOADER)
    return {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}


def _expectation(node: yaml.Node) -> Expectation:
    fields = {key.value: value.value for key, value in node.value}
    stage = Stage(fields["stage"]) if "stage" in fields else None
    return Expectation(fields.get("failure"), fields.get("since"), fields.get("until"), stage=stage)


def _closed(text: str, node: yaml.MappingNode, until: str) -> TextChange:
    """Return the change that ends an entry at a version."""
    old = next((value for key, value in node.value if key.value == "until"), None)
    if old:
        return old.start_mark.index, old.end_mark.index, f'"{until}"'
    end = _end_of(node.value[-1][1])
    if node.flow_style:
        return end, end, f', until: "{until}"'
    end = _line_end(text, end)
    return end, end, f'\n{" " * node.start_mark.column}until: "{until}"'


def edited_json_lists(path: Path, text: str, edits: Mapping[str, tuple[Collection[str], Collection[str]]]) -> str:
    """Return a JSON text with lists of its mapping edited: in order if a list is sorted, else at its end.

    Args:
        path: Of the file, for an error.
        text: The file, perhaps with comments.
        edits: By the key of the list, the entries to remove and those to add. A list that is not there is added.

    Raises:
        BadFiles: Comments stand between entries that share a line.
    """
    root = yaml.compose(json_as_yaml(text), Loader=LOADER)
    assert isinstance(root, yaml.MappingNode)
    lists = {key.value: value for key, value in root.value}
    changes: list[TextChange] = []
    for name, (removed, added) in edits.items():
        new = {entry: json.dumps(entry, ensure_ascii=False) for entry in sorted(added)}
        if name in lists:
            values = [item.value for item in lists[name].value]
            kept = [index for index, value in enumerate(values) if value not in removed]
            is_sorted = values == sorted(values)
            at = [
                (bisect_left(values, entry) if is_sorted else len(values), new[entry]) for entry in new if entry not in values
            ]
            if at or len(kept) < len(values):
                changes.append(_list_change(path, text, lists[name], kept, at))
        elif new:
            start = root.value[-1][0].start_mark.index  # a key in front of the last one needs no other comma
            indent = text[text.rfind("\n", 0, start) + 1 : start]
            entries = ",".join(f"\n{indent * 2}{entry}" for entry in new.values())
            changes.append((start, start, f"{json.dumps(name)}: [{entries}\n{indent}],\n{indent}"))
    return _with_changes(text, changes)


def _with_changes(text: str, changes: Sequence[TextChange]) -> str:
    """Return the text with changes. Of two insertions at one position, the first one given comes first."""
    parts, done = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[0]):
        parts += [text[done:start], new]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _list_change(
    path: Path, text: str, node: yaml.SequenceNode, kept: Collection[int], added: Sequence[tuple[int, str]]
) -> TextChange:
    """Return the change that edits a list. Comments above an entry, except the first, belong to it.

    kept: the numbers of the entries that stay; added: new entries, each with the number of the entry that it comes in front of.
    """
    lines = [node.start_mark.line if node.flow_style else -1, *(item.start_mark.line for item in node.value)]
    emptied = not (kept or added or node.flow_style)  # YAML needs brackets then
    if emptied or len(lines) == 1 or len(set(lines)) < len(lines):
        return _short_list_change(path, text, node, kept, added)
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = done = text.rfind("\n", 0, node.value[0].start_mark.index) + 1
    prefix = text[begin : node.value[0].start_mark.index]  # the dash of YAML, too
    comma, entries = False, [(index, 0, prefix + entry, newline) for index, entry in added]
    for index, item in enumerate(node.value):
        end = _end_of(item)
        after = _line_end(text, end) + 1
        behind = text[end:after].rstrip("\r\n") + newline
        comma = bool(node.flow_style) and behind.lstrip().startswith(",")
        if index in kept:
            entries.append((index, 1, text[done:end], behind.lstrip()[1:] if comma else behind))
        done = after
    entries.sort()
    written = [before + "," * bool(node.flow_style) + behind for *_, before, behind in entries]
    if entries and node.flow_style and not comma:  # the last one had none
        written[-1] = entries[-1][2] + entries[-1][3]
    return begin, min(done, len(text)), "".join(written)


def _short_list_change(
    path: Path, text: str, node: yaml.SequenceNode, kept: Collection[int], added: Sequence[tuple[int, str]]
) -> TextChange:
    """Return the list written again: one that is or becomes empty, or has several entries on a line."""
    start, end = node.start_mark.index, _end_of(node)
    if node.flow_style and text[start:end].replace("\t", " ") != json_as_yaml(text)[start:end]:
        message = "the comments of this list have no clear place; write each entry on a line of its own."
        raise BadFiles([Problem(str(path), node.start_mark.line + 1, node.start_mark.column + 1, message)])
    old = [(index, 1, text[item.start_mark.index : _end_of(item)]) for index, item in enumerate(node.value) if index in kept]
    entries = [entry for *_, entry in sorted([*old, *((index, 0, entry) for index, entry in added)])]
    line = f"[{', '.join(entries)}]"
    if not node.flow_style:
        return len(text[:start].rstrip()), end, f" {line}"  # behind the colon of the key
    if node.start_mark.column + len(line) <= _WIDTH:
        return start, end, line
    indent = re.match(r"[ \t]*", text[text.rfind("\n", 0, start) + 1 :])[0]  # type: ignore[index]
    return start, end, "[" + ",".join(f"\n{indent * 2 or '  '}{entry}" for entry in entries) + f"\n{indent}]"


def _end_of(node: yaml.Node) -> int:
    """Return the position behind a value, without the comments and blank lines that follow it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    return _end_of(node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1])


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
