"""Test data of ONNX models: folders of tensors."""

from __future__ import annotations

import re
from pathlib import Path

from triage.compilers.values import TENSOR_PROTO
from triage.model.case import RunSpec
from triage.model.errors import BadFiles, Problem

_NAME = re.compile(rf"(?P<role>input|output)_(?P<number>\d+)(?:\{TENSOR_PROTO}|\.npy)\Z")


def read_data_folder(folder: Path) -> RunSpec:
    """The values in a folder with `input_0.pb`, `output_0.pb` and so on.

    Raises:
        BadFiles: there is no such folder, no output, or a number is missing or repeated.
    """
    files: dict[str, dict[int, Path]] = {"input": {}, "output": {}}
    problems: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if match := _NAME.match(path.name):
            other = files[match["role"]].setdefault(int(match["number"]), path)
            if other != path:
                problems.append(f"{other.name} and {path.name} are the same value; remove one.")
    for role, numbered in files.items():
        missing = sorted(set(range(len(numbered))) - set(numbered))
        if missing:
            problems.append(f"there is no {role}_{missing[0]}{TENSOR_PROTO}, but values with higher numbers.")
    if not folder.is_dir():
        problems.append("there is no such folder of test data beside the input.")
    elif not files["output"]:
        problems.append(f"the folder has no output_0{TENSOR_PROTO} to compare with.")
    if problems:
        raise BadFiles([Problem(str(folder), None, None, problem) for problem in problems])
    inputs, expected = (tuple(f"@{path.absolute()}" for _, path in sorted(files[role].items())) for role in ("input", "output"))
    return RunSpec(inputs=inputs, expected=expected)
