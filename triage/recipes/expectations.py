"""Decide which known failures and flags apply to a version, and edit lists of known
failures in files.

A range [since, until) names releases. A nightly such as 3.5.0rc20250604 is built
between 3.4.0 and 3.5.0, and a change "since 3.5.0" appeared in one of these nightlies.
Therefore a nightly, like any other pre-release or local build, counts as the release it
leads to: inside `since: "3.5.0"` and outside `until: "3.5.0"`. A bound that names a
nightly or a post-release itself is compared exactly.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

import yaml
from packaging.version import Version

from triage.model.case import Case, Expectation, Flag
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Stage
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.recipes.document import LOADER, json_as_yaml, read_text
from triage.recipes.values import parse_version, yaml_text

_WIDTH = 120  # columns; a list on one line gets a line for each entry when it is wider
_PLAIN_KEY = re.compile(r"[A-Za-z][\w./,-]*=[\w./,=-]+|[a-z][a-z0-9-]+")
_DIFFER = (
    "the cases of the recipe differ; name a file for them, `expect: expect.yaml`, and "
    "repeat the command"
)

TextChange = tuple[int, int, str]
"""An edit of a text: start, end, and the text that replaces what is between them."""


def expectation_for(
    case: Case, version: str | None, failure: Failure | None = None
) -> Expectation | None:
    """Return the first expectation that applies to a version and, if there is a
    failure, names it.

    To an unknown version (None, or text that is not a version), only expectations
    without bounds apply: a failure must not be excused by a guess.
    """
    for item in case.expect:
        is_named = failure is None or matches(item, failure)
        if is_named and applies(item, version):
            return item
    return None


def applies(item: Expectation, version: str | None) -> bool:
    """Return whether an expectation applies to a version. To an unknown version, it
    applies only if it has no bounds.
    """
    has_bounds = item.since is not None or item.until is not None
    return _is_between(item.since, item.until, version, if_unknown=not has_bounds)


def flag_applies(flag: Flag, version: str | None) -> bool:
    """Return whether a flag is given to a version.

    An unknown version counts as newer than every release, as most local builds are: it
    gets flags without `until`. If it is older, the compiler reports the unknown flag,
    and the case is untestable.
    """
    return _is_between(flag.since, flag.until, version, if_unknown=flag.until is None)


def applied_flags(case: Case, version: str | None) -> list[str]:
    """Return the flags of a case that are given to a version, see `flag_applies`."""
    return [flag.text for flag in case.flags if flag_applies(flag, version)]


def matches(item: Expectation, failure: Failure) -> bool:
    """Return whether an expectation names a failure. An expectation names a class or a
    family, a stage, or both.
    """
    names = (None, failure.failure_class, failure.family)
    return item.failure in names and item.stage in (None, failure.stage)


def expected_class(case: Case) -> str | None:
    """Return the first class or family of failures that a case expects, on whatever
    version.
    """
    return next((item.failure for item in case.expect if item.failure), None)


def _is_between(
    since: str | None, until: str | None, version: str | None, *, if_unknown: bool
) -> bool:
    """Return whether a version is in [since, until). `if_unknown` is the answer for an
    unknown version.
    """
    parsed = parse_version(version or "")
    if parsed is None:
        return if_unknown
    if since and _is_before(parsed, Version(since)):
        return False
    return until is None or _is_before(parsed, Version(until))


def _is_before(version: Version, bound: Version) -> bool:
    """Return whether a version is older than a bound. If the bound is a release,
    candidates and nightlies count as the release they lead to.
    """
    if bound.public == bound.base_version:
        version = Version(version.base_version)
    return version < bound


@dataclass(frozen=True, slots=True)
class ObservedCase:
    """How a case ended on a version."""

    case: Case
    version: str | None
    """PEP 440, if it is known."""
    failure: Failure | None
    since: str | None = None
    """The oldest version from which on all known versions fail in this way (default:
    `version`).
    """


@dataclass(frozen=True, slots=True)
class ExpectationChange:
    """A known failure of a case that is added, removed or changed."""

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
    """A file of known failures, before and after its update."""

    path: Path
    old: str = field(metadata=UNPRINTED)
    new: str = field(metadata=UNPRINTED)
    changes: tuple[ExpectationChange, ...] = ()
    left: tuple[LeftCase, ...] = field(default=(), metadata=UNPRINTED)
    """The cases whose known failures are not updated."""

    @in_json
    def diff(self) -> str:
        """The changes as a unified diff."""
        name = str(self.path)
        old, new = self.old.splitlines(), self.new.splitlines()
        return "\n".join(
            unified_diff(old, new, f"{name} (old)", f"{name} (new)", lineterm="")
        )


@dataclass(frozen=True, slots=True)
class ExpectationUpdate:
    """The files of known failures that were updated to the results of a toolchain."""

    toolchain: Revision
    files: Sequence[UpdatedFile]
    left: Sequence[LeftCase]


def label_of(case: str) -> str:
    """Return the name of a case in a file of known failures: the text in its brackets,
    or else the recipe's name.
    """
    return case.partition("[")[2].removesuffix("]") or case


def updated_expectations(
    recipe: Path, observed: Sequence[ObservedCase], untested: int
) -> UpdatedFile:
    """Update the known failures of a recipe, in the recipe or in the file that it
    names.

    If a known failure is gone, its entry ends at the observed version. A new failure
    gets an entry that begins with the oldest version that is known to have it.

    Args:
        recipe: The file of the recipe.
        observed: Cases of the recipe.
        untested: How many cases of the recipe are not in `observed`.
    """
    file = _values(read_text(recipe)).get("expect")
    if not isinstance(file, yaml.ScalarNode):
        return _update(recipe, {"expect": observed}, untested)
    path = recipe.parent / file.value
    return _update(
        path, {label_of(entry.case.name): [entry] for entry in observed}, untested=0
    )


def _update(
    path: Path, lists: Mapping[str, Sequence[ObservedCase]], untested: int
) -> UpdatedFile:
    """Update the list under each key of a file to the cases that were observed. A list
    may be for further cases, of which `untested` were not observed.
    """
    old = read_text(path) if path.exists() else ""
    text = old
    if old and not old.endswith("\n"):
        text = f"{old}\n"
    nodes = _values(text)
    changes: list[ExpectationChange] = []
    left: list[LeftCase] = []
    edits: list[TextChange] = []
    for key, observed in lists.items():
        node = nodes.get(key)
        items = node.value if isinstance(node, yaml.SequenceNode) else []
        ended = _EndedEntries.among(text, items, observed, whole=not untested)
        changes += ended.changes
        new = [
            seen
            for seen in observed
            if seen.failure
            and not any(matches(one, seen.failure) for one in ended.known)
        ]
        classes = {seen.failure.failure_class for seen in new if seen.failure}
        added = []
        if new and (untested or len(new) < len(observed) or len(classes) > 1):
            left += [LeftCase(seen.case.name, _DIFFER) for seen in new]
        elif new:
            names = ", ".join(seen.case.name for seen in observed)
            added = [_new_entry(new)]
            changes.append(ExpectationChange(names, None, classes.pop()))
        if isinstance(node, yaml.SequenceNode) and (added or ended.replaced):
            at_end = [(len(items), entry) for entry in added]
            edits.append(_list_change(path, text, node, ended.replaced, at_end))
        elif added:
            title = key if _PLAIN_KEY.fullmatch(key) else yaml_text(key)
            edits.append((len(text), len(text), f"{title}:\n  - {added[0]}\n"))
    new_text = _with_changes(text, edits) if edits else old
    return UpdatedFile(path, old, new_text, tuple(changes), tuple(left))


@dataclass
class _EndedEntries:
    """The entries of a list that apply to a version, with the changes of those that end
    there.
    """

    known: list[Expectation] = field(default_factory=list)
    replaced: dict[int, str | None] = field(default_factory=dict)
    """Position of an entry -> its new text, or None to remove it."""
    changes: list[ExpectationChange] = field(default_factory=list)

    @classmethod
    def among(
        cls,
        text: str,
        items: Sequence[yaml.MappingNode],
        observed: Sequence[ObservedCase],
        *,
        whole: bool,
    ) -> _EndedEntries:
        """Compare the entries of a list with the cases that were observed. Only if
        these are the `whole` list, a failure that was not observed is gone.
        """
        found, version = cls(), observed[0].version
        names = ", ".join(seen.case.name for seen in observed)
        for index, item in enumerate(items):
            entry = _entry_of(item)
            if not applies(entry, version):
                continue
            found.known.append(entry)
            failures = [seen.failure for seen in observed if seen.failure]
            if not whole or any(matches(entry, failure) for failure in failures):
                continue
            begins_here = version is None or (
                entry.since is not None and Version(entry.since) >= Version(version)
            )
            name = entry.failure or f"stage {entry.stage}"
            if begins_here:
                found.replaced[index] = None
                found.changes.append(ExpectationChange(names, name, None))
            else:
                found.replaced[index] = _closed(text, item, str(version))
                until = f"{name} until {version}"
                found.changes.append(ExpectationChange(names, name, until))
        return found


def _entry_of(item: yaml.MappingNode) -> Expectation:
    fields = {name.value: value.value for name, value in item.value}
    stage = Stage(fields["stage"]) if "stage" in fields else None
    bounds = (fields.get("since"), fields.get("until"))
    return Expectation(fields.get("failure"), *bounds, stage=stage)


def _new_entry(seen: Sequence[ObservedCase]) -> str:
    """Return the text of an entry for the failure that these cases share."""
    failure = seen[0].failure
    assert failure
    entry = {"failure": failure.failure_class}
    if failure.stage is not Stage.COMPILE:
        entry = {"stage": str(failure.stage), **entry}
    begins = [Version(one.since or one.version) for one in seen if one.version]
    if begins:
        entry["since"] = str(max(begins))
    return yaml_text(entry)


def _values(text: str) -> dict[str, yaml.Node]:
    """Return the values of the mapping in a text, by their keys."""
    root = yaml.compose(text, Loader=LOADER)
    if isinstance(root, yaml.MappingNode):
        return {key.value: value for key, value in root.value}
    return {}


def _closed(text: str, entry: yaml.MappingNode, until: str) -> str:
    """Return the text of an entry that ends at a version."""
    start, end = entry.start_mark.index, _end_of(entry)
    for key, value in entry.value:
        if key.value == "until":
            return (
                f'{text[start : value.start_mark.index]}"{until}"'
                f"{text[value.end_mark.index : end]}"
            )
    last = _end_of(entry.value[-1][1])
    if entry.flow_style:
        between = ", "
    else:
        between = "\n" + " " * entry.start_mark.column
    return f'{text[start:last]}{between}until: "{until}"{text[last:end]}'


def edited_json_lists(
    path: Path, text: str, edits: Mapping[str, tuple[Collection[str], Collection[str]]]
) -> str:
    """Return a JSON text with lists of its mapping edited: in order if a list is
    sorted, else at its end.

    `edits` has by the key of the list the entries to remove and those to add. A list
    that is not there is added. Raises BadFiles if comments stand between entries that
    share a line.
    """
    root = yaml.compose(json_as_yaml(text), Loader=LOADER)
    assert isinstance(root, yaml.MappingNode)
    lists = {key.value: value for key, value in root.value}
    changes: list[TextChange] = []
    for name, (removed, added) in edits.items():
        new = {entry: json.dumps(entry, ensure_ascii=False) for entry in sorted(added)}
        if name in lists:
            values = [item.value for item in lists[name].value]
            gone = {
                index: None for index, value in enumerate(values) if value in removed
            }
            is_sorted = values == sorted(values)
            at = [
                (bisect_left(values, entry) if is_sorted else len(values), new[entry])
                for entry in new
                if entry not in values
            ]
            if at or gone:
                changes.append(_list_change(path, text, lists[name], gone, at))
        elif new:
            # a key in front of the last one needs no other comma
            start = root.value[-1][0].start_mark.index
            indent = text[text.rfind("\n", 0, start) + 1 : start]
            entries = ",".join(f"\n{indent * 2}{entry}" for entry in new.values())
            changes.append(
                (start, start, f"{json.dumps(name)}: [{entries}\n{indent}],\n{indent}")
            )
    return _with_changes(text, changes)


def _with_changes(text: str, changes: Sequence[TextChange]) -> str:
    """Return the text with all changes. Insertions at one position keep their order."""
    parts, done = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[0]):
        parts += [text[done:start], new]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _list_change(
    path: Path,
    text: str,
    node: yaml.SequenceNode,
    replaced: Mapping[int, str | None],
    added: Sequence[tuple[int, str]],
) -> TextChange:
    """Return the change of a text that edits a list. Comments above an entry belong to
    it, except above the first entry.

    Args:
        path: The file.
        text: Its text.
        node: The list.
        replaced: Index of an entry -> its new text, or None to remove it.
        added: New entries, each with the index of the entry before which it is put.
    """
    items, in_brackets = node.value, bool(node.flow_style)
    old = [
        replaced.get(index, text[item.start_mark.index : _end_of(item)])
        for index, item in enumerate(items)
    ]
    lines = [item.start_mark.line for item in items]
    if in_brackets:
        lines.append(node.start_mark.line)
    has_own_lines = items and len(set(lines)) == len(lines)
    # YAML needs brackets around nothing
    if has_own_lines and (in_brackets or any(old) or added):
        return _long_list_change(text, node, old, added)
    entries = [(index, 1, new) for index, new in enumerate(old) if new]
    entries += [(index, 0, new) for index, new in added]
    return _short_list_change(path, text, node, [new for *_, new in sorted(entries)])


def _long_list_change(
    text: str,
    node: yaml.SequenceNode,
    old: Sequence[str | None],
    added: Sequence[tuple[int, str]],
) -> TextChange:
    """Edit a list that has each entry on a line of its own. `old` has the texts of its
    entries, or None for those to remove.
    """
    items, in_brackets = node.value, bool(node.flow_style)
    newline = "\n"
    if "\r\n" in text:
        newline = "\r\n"
    begin = done = text.rfind("\n", 0, items[0].start_mark.index) + 1
    prefix = text[begin : items[0].start_mark.index]  # the dash of YAML, too
    blocks = [(index, 0, prefix + new, newline) for index, new in added]
    comma = False
    for index, (item, new) in enumerate(zip(items, old, strict=True)):
        after = _line_end(text, _end_of(item)) + 1
        behind = text[_end_of(item) : after].rstrip("\r\n") + newline
        comma = in_brackets and behind.lstrip().startswith(",")
        if new is not None:
            before = text[done : item.start_mark.index] + new
            blocks.append((index, 1, before, behind.lstrip()[1:] if comma else behind))
        done = after
    blocks.sort()
    last = len(blocks) - 1
    if comma:  # behind the last one, too
        last += 1
    written = [
        before + "," * (in_brackets and place < last) + behind
        for place, (*_, before, behind) in enumerate(blocks)
    ]
    return begin, min(done, len(text)), "".join(written)


def _short_list_change(
    path: Path, text: str, node: yaml.SequenceNode, entries: Sequence[str]
) -> TextChange:
    """Write a list again that is or becomes empty, or has several entries on a line."""
    start, end, line = node.start_mark.index, _end_of(node), f"[{', '.join(entries)}]"
    if not node.flow_style:
        # behind the colon of the key
        return len(text[:start].rstrip()), end, f" {line}"
    if text[start:end].replace("\t", " ") != json_as_yaml(text)[start:end]:
        message = (
            "the comments of this list have no clear place; write each entry on a "
            "line of its own."
        )
        raise BadFiles(
            [
                Problem(
                    str(path),
                    node.start_mark.line + 1,
                    node.start_mark.column + 1,
                    message,
                )
            ]
        )
    if node.start_mark.column + len(line) <= _WIDTH:
        return start, end, line
    indent = re.match(r"[ \t]*", text[text.rfind("\n", 0, start) + 1 :])[0]  # type: ignore[index]
    lines = (f"\n{indent * 2 or '  '}{entry}" for entry in entries)
    return start, end, f"[{','.join(lines)}\n{indent}]"


def _end_of(node: yaml.Node) -> int:
    """Return the position behind a value. PyYAML's own counts the comments and blank
    lines that follow it.
    """
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end_of(last[1] if isinstance(node, yaml.MappingNode) else last)


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
