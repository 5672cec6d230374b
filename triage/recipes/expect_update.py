"""Update the known failures of recipes, and of the files that recipes name for them, from what was seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from packaging.version import Version

from triage.model.case import Expectation
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.document import LOADER, read_text
from triage.recipes.edits import Change, apply, edit_list, end_of, line_end
from triage.recipes.expectations import ExpectationChange, LeftCase, ObservedCase, UpdatedFile, applies, label_of, matches
from triage.recipes.values import yaml_text

_PLAIN_KEY = re.compile(r"[A-Za-z][\w./,-]*=[\w./,=-]+|[a-z][a-z0-9-]+")
_DIFFER = "the cases of the recipe differ; name a file for them, `expect: expect.yaml`, and repeat the command"


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
        return _update(recipe, {"expect": observed}, untested, shared=True)
    cases = {label_of(entry.case.name): [entry] for entry in observed}
    return _update(recipe.parent / file.value, cases, untested, shared=False)


def _update(path: Path, lists: Mapping[str, Sequence[ObservedCase]], untested: int, *, shared: bool) -> UpdatedFile:
    """Update the lists below these keys. shared: each holds for several cases, `untested` of which were not seen."""
    text = read_text(path) if path.exists() else ""
    nodes, closed, edited = _values(text), list[Change](), dict[str, tuple[set[int], list[str]]]()
    changes: list[ExpectationChange] = []
    left: list[LeftCase] = []
    for key, observed in lists.items():
        node, version = nodes.get(key), observed[0].version
        items = node.value if isinstance(node, yaml.SequenceNode) else []
        entries = [_expectation(item) for item in items]
        holding = {index for index, entry in enumerate(entries) if applies(entry, version)}
        kept, failures = set(range(len(items))), [seen.failure for seen in observed if seen.failure]
        for index in sorted(holding):
            entry, name = entries[index], entries[index].failure or f"stage {entries[index].stage}"
            if any(matches(entry, failure) for failure in failures) or (shared and untested):
                continue
            ends = version is not None and (entry.since is None or Version(entry.since) < Version(version))
            if ends:
                closed.append(_closed(text, items[index], str(version)))
            else:
                kept.remove(index)
            changes.append(ExpectationChange(_names(observed), name, f"{name} until {version}" if ends else None))
        new = [
            seen for seen in observed if seen.failure and not any(matches(entries[index], seen.failure) for index in holding)
        ]
        edited[key] = kept, added = kept, list[str]()
        if new and (len(new) < len(observed) or len(_classes(new)) > 1 or (shared and untested)):
            left += [LeftCase(seen.case.name, _DIFFER) for seen in new]
        elif new and new[0].failure:
            added.append(_entry(new[0].failure, version))
            changes.append(ExpectationChange(_names(new), None, new[0].failure.failure_class))
    updated = apply(text, closed)
    nodes, edits = _values(updated), list[Change]()
    for key, (kept, added) in edited.items():
        node = nodes.get(key)
        if isinstance(node, yaml.SequenceNode) and (added or len(kept) < len(node.value)):
            edits.append(edit_list(str(path), updated, node, kept, [(len(node.value), entry) for entry in added]))
        elif added:
            before = "" if not updated or updated.endswith("\n") or edits else "\n"
            name = key if _PLAIN_KEY.fullmatch(key) else yaml_text(key)
            edits.append((len(updated), len(updated), f"{before}{name}:\n  - {added[0]}\n"))
    return UpdatedFile(path, text, apply(updated, edits), tuple(changes), tuple(left))


def _values(text: str) -> dict[str, yaml.Node]:
    """The values of the mapping in a text, by their keys."""
    root = yaml.compose(text, Loader=LOADER)
    return {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}


def _names(observed: Sequence[ObservedCase]) -> str:
    return ", ".join(seen.case.name for seen in observed)


def _classes(observed: Sequence[ObservedCase]) -> set[str]:
    return {seen.failure.failure_class for seen in observed if seen.failure}


def _entry(failure: Failure, version: str | None) -> str:
    stage = {} if failure.stage is Stage.COMPILE else {"stage": str(failure.stage)}
    since = {} if version is None else {"since": version}
    return yaml_text({**stage, "failure": failure.failure_class, **since})


def _expectation(node: yaml.Node) -> Expectation:
    fields = {key.value: value.value for key, value in node.value}
    stage = Stage(fields["stage"]) if "stage" in fields else None
    return Expectation(fields.get("failure"), fields.get("since"), fields.get("until"), fields.get("issue"), stage)


def _closed(text: str, node: yaml.MappingNode, until: str) -> Change:
    """The change that ends an entry at a version."""
    old = next((value for key, value in node.value if key.value == "until"), None)
    if old:
        return old.start_mark.index, old.end_mark.index, f'"{until}"'
    end = end_of(node.value[-1][1])
    if node.flow_style:
        return end, end, f', until: "{until}"'
    end = line_end(text, end)
    return end, end, f'\n{" " * node.start_mark.column}until: "{until}"'
