"""The matrix of a recipe: its combinations, and the placeholders that they fill."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from triage.recipes.document import ConfigDocument, Written
from triage.recipes.files import MAX_CASES
from triage.recipes.values import closest, did_you_mean

FILE = "file"
"""The key of a case whose input is one of the files of a pattern."""
SECTIONS = ("input", "args", "flags", "target", "env")
"""Where ${key} is replaced for every family; in flags only the text, not the bounds."""

_OPENED = re.compile(r"\$\{([\w-]*)")
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")

Choice = tuple[tuple[str, str], ...]


def choices(document: ConfigDocument, sections: Sequence[str]) -> Iterator[tuple[Choice, dict[str, Any]]]:
    """Yield every combination in the file's order, the last key changing fastest, and the data with its values filled in.

    What is wrong with the placeholders is reported. Without a matrix there is one empty combination.
    """
    matrix = document.data.get("matrix", {})
    keys = list(matrix) if isinstance(matrix, dict) else None
    _check_placeholders(document, keys, sections)
    valid = {key: values for key, values in (matrix.items() if keys else ()) if _is_choice(values)}
    count = prod(map(len, valid.values()))
    if count > MAX_CASES:
        document.report(("matrix",), f"the matrix has {count} combinations; the limit is {MAX_CASES}.", at_key=True)
        valid = {}
    for values in product(*valid.values()):
        choice = dict(zip(valid, map(str, values), strict=True))
        filled = {key: _fill(value, choice) if key in sections else value for key, value in document.data.items()}
        yield tuple(choice.items()), filled


def case_name(recipe: str, choice: Choice) -> str:
    """Return `recipe`, or `recipe[key=value,...]`."""
    return f"{recipe}[{','.join(f'{key}={value}' for key, value in choice)}]" if choice else recipe


def _is_choice(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, Written) for value in values)


def _fill(data: Any, choice: Mapping[str, str]) -> Any:
    """The data with the placeholders of a choice replaced; unknown ones stay."""
    if isinstance(data, dict):
        return {key: _fill(value, choice) for key, value in data.items()}
    if isinstance(data, list):
        return [_fill(value, choice) for value in data]
    if not isinstance(data, Written) or "${" not in data:
        return data
    return Written(_PLACEHOLDER.sub(lambda found: choice.get(found[1], found[0]), data))


def _check_placeholders(document: ConfigDocument, keys: Collection[str] | None, sections: Sequence[str]) -> None:
    """Report placeholders that are not matrix keys or are outside of the sections, and matrix keys that nothing uses."""
    used: set[str] = set()
    for loc, text in document.texts():
        if "${" not in text:
            continue
        if not loc or loc[0] not in sections or (loc[0] == "flags" and loc[-1] in {"since", "until"}):
            document.report(loc, f'"{text}": placeholders are replaced only in {", ".join(sections)}.')
            continue
        if keys is None:
            continue
        # A mistyped placeholder uses the key that it means.
        used.update(name if name in keys else closest(name, keys) or name for name in _OPENED.findall(text))
        unknown = next((name for name in _PLACEHOLDER.findall(text) if name not in keys), None)
        if unknown is not None:
            known = f"The matrix has {', '.join(keys)}." if keys else "The recipe has no matrix."
            document.report(loc, f'"${{{unknown}}}" is not a matrix key{did_you_mean(unknown, keys)} {known}')
        elif "${" in _PLACEHOLDER.sub("", text):
            document.report(loc, f'"{text}" has a ${{ that is not closed; write ${{key}}.')
    for key in keys or ():
        if key not in used:
            where = f"write ${{{key}}} in {', '.join(sections)}, or remove the key."
            document.report(("matrix", key), f'nothing uses the matrix key "{key}": {where}', at_key=True)
