"""Read the flag files of `iree-run-module`: one option a line."""

from __future__ import annotations

from pathlib import Path

from triage.compilers.values import located
from triage.model.case import RunSpec
from triage.model.errors import BadFiles, Problem
from triage.recipes.document import read_text

_VALUES = {"input": "inputs", "expected_output": "expected"}


def read_flagfile(path: Path) -> RunSpec:
    """The values, function, device and other options in a flag file. Files in it are relative to its folder.

    Raises:
        BadFiles: with every mistake, by line and column.
    """
    values: dict[str, list[str]] = {"inputs": [], "expected": []}
    single: dict[str, str] = {}
    flags: list[str] = []
    problems: list[Problem] = []
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, _, text = line.lstrip("-").partition("=")
        column = raw.index(line) + 1
        if not line.startswith("-"):
            message = f'"{line}" is not an option: write one a line, such as --input=2x3xf32=@input_0.bin.'
            problems.append(Problem(str(path), number, column, message))
        elif name in _VALUES:
            column += line.index("=") + 1 if "=" in line else 0
            try:
                values[_VALUES[name]].append(located(text, path.parent))
            except ValueError as error:
                problems.append(Problem(str(path), number, column, str(error)))
        elif name in ("function", "device") and name not in single:
            single[name] = text
        else:
            flags.append(line)
    if problems:
        raise BadFiles(problems)
    return RunSpec(
        device=single.get("device"),
        function=single.get("function"),
        inputs=tuple(values["inputs"]),
        expected=tuple(values["expected"]),
        flags=tuple(flags),
    )
