"""Update the known failures of recipes, and of the files that recipes name for them, from what was seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from packaging.version import Version

from triage.model.case import Expectation
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.document import LOADER, FileKind, read_text
from triage.recipes.expectations import applies, matches
from triage.recipes.observed import ExpectationChange, LeftCase, ObservedCase, UpdatedFile
from triage.recipes.values import yaml_text

_KIND = FileKind("recipe", "`triage recipe new` writes one to start from")
_PLAIN_KEY = re.compile(r"[A-Za-z][\w./,-]*=[\w./,=-]+|[a-z][a-z0-9-]+")
_DIFFER = "the cases of the recipe differ; name a file for them, `expect: expect.yaml`, and repeat the command"


def updated_expectations(recipe: Path, observed: Sequence[ObservedCase], untested: int) -> UpdatedFile:
    """Update the known failures of a recipe: in its own list, or in the file that it names.

    An entry whose failure is gone ends at the version that was seen, and holds for older versions as before; a new failure
    gets an entry that begins there.

    observed: of the recipe's cases; untested: how many of its cases are not among them.
    """
    root = _compose(read_text(recipe, _KIND))
    written = next((value for key, value in root.value if key.value == "expect"), None)
    if not isinstance(written, yaml.ScalarNode):
        return _update(recipe, {"expect": observed}, untested, shared=True)
    cases = {label_of(entry.case.name): [entry] for entry in observed}
    return _update(recipe.parent / written.value, cases, untested, shared=False)


def label_of(case: str) -> str:
    """The name of a case in an expect file: what its brackets hold, or the recipe's name."""
    return case.partition("[")[2].removesuffix("]") or case


def _update(path: Path, lists: Mapping[str, Sequence[ObservedCase]], untested: int, *, shared: bool) -> UpdatedFile:
    """Update the lists of entries below these keys. shared: each holds for several cases, `untested` of which were not seen."""
    text = read_text(path, _KIND) if path.exists() else ""
    edits = _YamlEdits(text)
    changes: list[ExpectationChange] = []
    left: list[LeftCase] = []
    for key, observed in lists.items():
        entries = edits.entries(key)
        version = observed[0].version
        holding = [(node, item) for node, item in entries if applies(item, version)]
        failures = [entry.failure for entry in observed]
        for node, item in holding:
            if not any(failure and matches(item, failure) for failure in failures) and not (shared and untested):
                closed = version is not None and (item.since is None or Version(item.since) < Version(version))
                edits.close(node, version if closed else None)
                after = f"{_name(item)} until {version}" if closed else None
                changes.append(ExpectationChange(_cases_of(observed), _name(item), after))
        new = [entry for entry in observed if entry.failure and not any(matches(item, entry.failure) for _, item in holding)]
        kinds = {entry.failure.failure_class for entry in new if entry.failure}
        if new and (len(new) < len(observed) or len(kinds) > 1 or (shared and untested)):
            left += [LeftCase(entry.case.name, _DIFFER) for entry in new]
        elif new and new[0].failure:
            edits.append(key, _entry(new[0].failure, version))
            changes.append(ExpectationChange(_cases_of(new), None, new[0].failure.failure_class))
    return UpdatedFile(path, text, edits.result(), tuple(changes), tuple(left))


def _cases_of(observed: Sequence[ObservedCase]) -> str:
    return ", ".join(entry.case.name for entry in observed)


def _name(item: Expectation) -> str:
    return item.failure or f"stage {item.stage}"


def _entry(failure: Failure, version: str | None) -> str:
    stage = {} if failure.stage is Stage.COMPILE else {"stage": str(failure.stage)}
    since = {} if version is None else {"since": version}
    return yaml_text({**stage, "failure": failure.failure_class, **since})


def _compose(text: str) -> yaml.MappingNode:
    node = yaml.compose(text, Loader=LOADER)
    return node if isinstance(node, yaml.MappingNode) else yaml.MappingNode("", [])


@dataclass
class _YamlEdits:
    """Changes to lists in the mapping of a YAML text, which are made together."""

    text: str
    root: yaml.MappingNode = field(init=False)
    _changes: list[tuple[int, int, str]] = field(default_factory=list)
    _removed: list[yaml.Node] = field(default_factory=list)
    _added: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = _compose(self.text)

    def entries(self, key: str) -> list[tuple[yaml.MappingNode, Expectation]]:
        """The entries of a list, with what they say."""
        node = self._list(key)
        return [(item, _expectation(item)) for item in node.value] if node else []

    def close(self, node: yaml.MappingNode, until: str | None) -> None:
        """End an entry at a version; remove it when that is None."""
        if until is None:
            self._removed.append(node)
            return
        fields = {key.value: value for key, value in node.value}
        if "until" in fields:
            self._replace(fields["until"], f'"{until}"')
            return
        end = _end(node.value[-1][1])
        separator = ", " if node.flow_style else f"\n{' ' * node.start_mark.column}"
        if not node.flow_style:
            end = _line_end(self.text, end)
        self._changes.append((end, end, f'{separator}until: "{until}"'))

    def append(self, key: str, entry: str) -> None:
        """Add an entry to a list, which is made when it is not there."""
        self._added.setdefault(key, []).append(entry)

    def result(self) -> str:
        """The text with all changes."""
        tail = ""
        for key in dict.fromkeys([*(key.value for key, _ in self.root.value), *self._added]):
            node, added = self._list(key), self._added.get(key, [])
            if node is None:
                tail += (
                    "".join(
                        [f"{key if _PLAIN_KEY.fullmatch(key) else yaml_text(key)}:\n", *(f"  - {entry}\n" for entry in added)]
                    )
                    if added
                    else ""
                )
            elif added or any(item in self._removed for item in node.value):
                self._edit_list(node, added)
        text = self.text
        # Of two texts for one position, the one that was asked for first comes first.
        for start, end, replacement in sorted(self._changes, key=lambda change: change[0])[::-1]:
            text = text[:start] + replacement + text[end:]
        return text + ("\n" if tail and text and not text.endswith("\n") else "") + tail

    def _edit_list(self, node: yaml.SequenceNode, added: Sequence[str]) -> None:
        kept = [item for item in node.value if item not in self._removed]
        if not kept:
            start, end = node.start_mark.index, _end(node)
            indent = "\n" + " " * (node.start_mark.column if not node.flow_style else 2)
            lines = "".join(f"{indent}- {entry}" for entry in added)
            begin = len(self.text[:start].rstrip())  # behind the colon of the key
            self._changes.append((begin, end, lines or " []"))
            return
        last = node.value[-1]
        if node.flow_style:
            position = _end(last)
            self._changes.append((position, position, "".join(f", {entry}" for entry in added)))
        else:
            position = _line_end(self.text, _end(last))
            indent = "\n" + " " * node.start_mark.column
            self._changes.append((position, position, "".join(f"{indent}- {entry}" for entry in added)))
        for index, item in enumerate(node.value):
            if item in self._removed:
                self._changes.append((*self._span(node, index), ""))

    def _span(self, node: yaml.SequenceNode, index: int) -> tuple[int, int]:
        """Where an entry is, with its dash or its comma."""
        item = node.value[index]
        start, end = item.start_mark.index, _end(item)
        if not node.flow_style:
            return self.text.rfind("\n", 0, start), _line_end(self.text, end)
        if index + 1 < len(node.value):
            return start, int(node.value[index + 1].start_mark.index)
        return _end(node.value[index - 1]), end

    def _list(self, key: str) -> yaml.SequenceNode | None:
        node = next((value for name, value in self.root.value if name.value == key), None)
        return node if isinstance(node, yaml.SequenceNode) else None

    def _replace(self, node: yaml.Node, text: str) -> None:
        self._changes.append((node.start_mark.index, node.end_mark.index, text))


def _expectation(node: yaml.Node) -> Expectation:
    fields = {key.value: value.value for key, value in node.value}
    stage = Stage(fields["stage"]) if "stage" in fields else None
    return Expectation(fields.get("failure"), fields.get("since"), fields.get("until"), fields.get("issue"), stage)


def _end(node: yaml.Node) -> int:
    """The position behind a value, without the comments and blank lines that follow it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        return int(node.end_mark.index)
    return _end(node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1])


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
