"""The matrix of a recipe: its combinations, and the placeholders that they fill."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from triage.recipes.document import ConfigDocument, Loc, Written
from triage.recipes.suggestions import closest, did_you_mean

MAX_CASES = 4096
FILE = "file"  # the key of a case whose input is one of the files of a pattern

# Where ${key} is replaced for every family; in flags only the text, not the bounds.
SECTIONS = ("input", "args", "flags", "target", "env")

_OPENED = re.compile(r"\$\{([\w-]*)")
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")

Choice = tuple[tuple[str, str], ...]


def has_placeholder(text: str) -> bool:
    """Whether `text` contains a placeholder."""
    return "${" in text


@dataclass(frozen=True, slots=True)
class Matrix:
    """The valid part of a file's matrix. keys: as written, None when it is not a mapping; values: of the keys with a list of
    scalars, in the file's order.
    """

    keys: tuple[str, ...] | None = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_matrix(data: Mapping[str, Any]) -> Matrix:
    """The matrix in a file's data, without its invalid parts."""
    matrix = data.get("matrix", {})
    if not isinstance(matrix, dict):
        return Matrix(keys=None)
    sound = {key: values for key, values in matrix.items() if _is_choice(values)}
    return Matrix(tuple(matrix), {key: [str(value) for value in values] for key, values in sound.items()})


def _is_choice(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, Written) for value in values)


def choices(matrix: Mapping[str, Sequence[str]]) -> Iterator[Choice]:
    """Every combination in the file's order, the last key changing fastest; one empty choice without a matrix."""
    for values in product(*matrix.values()):
        yield tuple(zip(matrix, values, strict=True))


def case_name(recipe: str, choice: Choice) -> str:
    """`recipe`, or `recipe[key=value,...]`."""
    return f"{recipe}[{','.join(f'{key}={value}' for key, value in choice)}]" if choice else recipe


def fill(data: Mapping[str, Any], choice: Choice, sections: Sequence[str] = SECTIONS) -> dict[str, Any]:
    """The file's data with the placeholders of one choice replaced in `sections`; unknown ones stay."""
    if not choice:
        return dict(data)
    values = dict(choice)

    def replace(text: Written) -> Written:
        filled = _PLACEHOLDER.sub(lambda found: values.get(found.group(1), found.group()), text)
        return text if filled == text else Written(filled)

    return {key: _map_texts(value, replace) if key in sections else value for key, value in data.items()}


def _map_texts(data: Any, change: Callable[[Written], Written]) -> Any:
    match data:
        case Written():
            return change(data)
        case dict():
            return {key: _map_texts(value, change) for key, value in data.items()}
        case list():
            return [_map_texts(value, change) for value in data]
        case _:
            return data


def check_placeholders(document: ConfigDocument, keys: Sequence[str] | None, sections: Sequence[str] = SECTIONS) -> None:
    """Report placeholders that are not matrix keys or are outside of `sections`, and matrix keys that nothing uses.

    keys: None when they are unknown; then only the sections are checked.
    """
    used: set[str] = set()
    for loc, text in document.texts():
        if not has_placeholder(text):
            continue
        if not _fillable(loc, sections):
            document.report(loc, f'"{text}": placeholders are replaced only in {_listed(sections)}.')
            continue
        if keys is None:
            continue
        names = _PLACEHOLDER.findall(text)
        # A mistyped placeholder uses the key it means.
        used.update(name if name in keys else closest(name, keys) or name for name in _OPENED.findall(text))
        _check_text(document, loc, text, names, keys)
    for key in keys or ():
        if key not in used:
            where = f"write ${{{key}}} in {_listed(sections, 'or')}, or remove the key."
            document.report(("matrix", key), f'nothing uses the matrix key "{key}": {where}', at_key=True)


def _check_text(document: ConfigDocument, loc: Loc, text: str, names: Sequence[str], keys: Sequence[str]) -> None:
    unknown = next((name for name in names if name not in keys), None)
    if unknown is not None:
        known = f" The matrix has {_listed(keys)}." if keys else " The recipe has no matrix."
        document.report(loc, f'"${{{unknown}}}" is not a matrix key{did_you_mean(unknown, keys)}{known}')
    elif has_placeholder(_PLACEHOLDER.sub("", text)):
        document.report(loc, f'"{text}" has a ${{ that is not closed; write ${{key}}.')


def check_product(document: ConfigDocument, matrix: Mapping[str, Sequence[str]]) -> bool:
    """Whether the matrix is small enough to expand; reported when it is not."""
    count = prod(len(values) for values in matrix.values())
    if count > MAX_CASES:
        document.report(("matrix",), f"the matrix has {count} combinations; the limit is {MAX_CASES}.", at_key=True)
        return False
    return True


def _fillable(loc: Loc, sections: Sequence[str]) -> bool:
    if not loc or loc[0] not in sections:
        return False
    return not (loc[0] == "flags" and loc[-1] in {"since", "until"})


def _listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} {words[-1]}"
