"""Read how to run a program from files: flag files of `iree-run-module`, and folders with the test data of ONNX models."""

from __future__ import annotations

from pathlib import Path

from triage.compilers.values import TENSOR_PROTO, located
from triage.model.case import RunSpec
from triage.model.errors import BadFiles, Problem
from triage.recipes.document import read_text


def read_flagfile(path: Path) -> RunSpec:
    """The values, function, device and other options in a flag file. Files in it are relative to its folder.

    Raises:
        BadFiles: with every mistake, by line and column.
    """
    values: dict[str, list[str]] = {"input": [], "expected_output": []}
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
        elif name in values:
            try:
                values[name].append(located(text, path.parent))
            except ValueError as error:
                problems.append(Problem(str(path), number, column + line.find("=") + 1, str(error)))
        elif name in ("function", "device") and name not in single:
            single[name] = text
        else:
            flags.append(line)
    if problems:
        raise BadFiles(problems)
    inputs, expected = map(tuple, values.values())
    return RunSpec(single.get("device"), single.get("function"), inputs, expected, tuple(flags))


def read_data_folder(folder: Path) -> RunSpec:
    """The values in a folder with `input_0.pb`, `output_0.pb` and so on. BadFiles unless each number has one file."""
    inputs, expected = _numbered(folder, "input"), _numbered(folder, "output")
    if not expected:
        message = f"this is not a folder of test data: it has no output_0{TENSOR_PROTO} to compare with."
        raise BadFiles([Problem(str(folder), None, None, message)])
    return RunSpec(inputs=inputs, expected=expected)


def _numbered(folder: Path, role: str) -> tuple[str, ...]:
    files = [path for path in folder.glob(f"{role}_[0-9]*") if path.suffix in (TENSOR_PROTO, ".npy")]
    values = []
    for number in range(len(files)):
        found = [path for path in files if path.stem == f"{role}_{number}"]
        if len(found) != 1:
            message = (
                f"{len(files)} files are called {role}_…, and {len(found)} of them {role}_{number}: give each number one file."
            )
            raise BadFiles([Problem(str(folder), None, None, message)])
        values.append(f"@{found[0].absolute()}")
    return tuple(values)
