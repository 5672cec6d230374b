"""The recipe keys `run` and `bench`: how to run a compiled program, and the results
that it must compute. Files may say the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from triage.model.case import Case, InputKind, RunSpec
from triage.model.checks import DescribedKeys, file_key
from triage.model.errors import BadFiles, Problem
from triage.recipes.document import read_text
from triage.recipes.recipe import Recipe, is_pattern, locate
from triage.recipes.run_values import TENSOR_PROTO, located

_TOLERANCE = re.compile(
    r"--expected_(f16|f32|f64|bf16)_threshold=([\d.]+(?:e[+-]?\d+)?)f?\Z"
)
_Run = Annotated[RunSpec, DescribedKeys()]


@dataclass(frozen=True, kw_only=True)
class RunnableRecipe(Recipe):
    """A program that is compiled, and then run or measured."""

    run: _Run | None = file_key(
        None,
        "Run what was compiled and compare its results.",
        {"inputs": ["4xf32=1"]},
    )
    bench: tuple[_Run, ...] = file_key(
        (), "Functions that `triage bench` measures.", [{"function": "prefill"}]
    )

    def mistakes(self, kind: InputKind) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(kind)
        if self.run is not None:
            yield from self._mistakes_of(self.run)
        labels = [entry.label for entry in self.bench]
        for entry in self.bench:
            if entry.function is None or entry != RunSpec(
                entry.device,
                entry.function,
                entry.inputs,
                flags=entry.flags,
                name=entry.name,
            ):
                yield (
                    "bench",
                    "a benchmark has a `function`, and no keys but name, inputs, "
                    "device and flags.",
                )
            if labels.count(entry.label) > 1:
                yield (
                    "bench",
                    f'{labels.count(entry.label)} benchmarks are called "'
                    f'{entry.label}": give each a `name` of its own.',
                )

    def _mistakes_of(self, run: RunSpec) -> Iterator[tuple[str, str]]:
        reference = run.reference
        if self.phase not in (None, "end"):
            yield (
                "phase",
                "a compile that stops early cannot be run; remove `phase` or `run`.",
            )
        if run.data is not None and (run.inputs or run.expected or run.flagfile):
            yield (
                "run",
                "the values are those of a folder and written here; remove `data` or "
                "the others.",
            )
        if reference is None:
            return
        if run.expected:
            yield (
                "run",
                "the results are expected from a reference and from files; remove one "
                "of them.",
            )
        is_plain = reference.toolchain is None and reference.flags is None
        if reference.onnxruntime != is_plain:
            yield (
                "run",
                "a reference needs another toolchain or other flags, or it is "
                "onnxruntime, which has neither: write `{toolchain: 3.12.0}`.",
            )
        if reference.onnxruntime and not self.input.endswith(".onnx"):
            yield (
                "run",
                "onnxruntime runs only ONNX models; name an .onnx file under `input`, "
                "or another reference.",
            )

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run and its benchmarks."""
        return replace(case, run=self._run_of(case, folder), benchmarks=self.bench)

    def _run_of(self, case: Case, folder: Path) -> RunSpec | None:
        """Return how a case is run, if it is. The values of the data folder, of the
        flagfile and of the recipe follow each other.
        """
        run = self.run
        if run and run.flagfile:
            run = _joined(read_flagfile(locate(folder, run.flagfile)), run)
        if run and run.data is not None:
            place = case.input.path.parent / run.data
            if is_pattern(self.input) and not place.is_dir():
                return None
            run = _joined(read_data_folder(place), run)
        return run


def _joined(first: RunSpec, run: RunSpec) -> RunSpec:
    """Return a run with the values of another in front of its own."""
    return replace(
        run,
        device=run.device or first.device,
        function=run.function or first.function,
        inputs=first.inputs + run.inputs,
        expected=first.expected + run.expected,
        flags=first.flags + run.flags,
        tolerances=tuple(dict(first.tolerances + run.tolerances).items()),
    )


def read_flagfile(path: Path) -> RunSpec:
    """Read a file with an option of the runtime's program on each line. Paths in it are
    relative to its folder. Raises BadFiles with every mistake.
    """
    values: dict[str, list[str]] = defaultdict(list)
    single: dict[str, str] = {}
    flags: list[str] = []
    problems: list[Problem] = []
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.strip()
        name, _, text = line.lstrip("-").partition("=")
        if not line or line.startswith("#"):
            continue
        try:
            if name in ("input", "expected_output"):
                values[name].append(located(text, path.parent))
            elif name in ("function", "device"):
                single[name] = text
            else:
                flags.append(line)
        except ValueError as error:
            problems.append(Problem(str(path), number, raw.find(text) + 1, str(error)))
    if problems:
        raise BadFiles(problems)
    others, tolerances = without_tolerances(flags)
    return RunSpec(
        device=single.get("device"),
        function=single.get("function"),
        inputs=tuple(values["input"]),
        expected=tuple(values["expected_output"]),
        flags=others,
        tolerances=tolerances,
    )


def without_tolerances(
    flags: Sequence[str],
) -> tuple[tuple[str, ...], tuple[tuple[str, float], ...]]:
    """Return the flags that set no tolerance, and the tolerances of the others by
    element type.
    """
    others: list[str] = []
    tolerances: dict[str, float] = {}
    for flag in flags:
        match = _TOLERANCE.match(flag)
        if match:
            tolerances[match[1]] = float(match[2])
        else:
            others.append(flag)
    return tuple(others), tuple(tolerances.items())


def read_data_folder(folder: Path) -> RunSpec:
    """Return the values in a folder with `input_0.pb`, `output_0.pb` and so on. Raises
    BadFiles if a number has no file or several, or if there is no output.
    """
    inputs, expected = _numbered(folder, "input"), _numbered(folder, "output")
    if not expected:
        message = "this is not a folder of test data: it has no output_0.pb."
        raise BadFiles([Problem(str(folder), None, None, message)])
    return RunSpec(inputs=inputs, expected=expected)


def _numbered(folder: Path, role: str) -> tuple[str, ...]:
    paths = [
        path.absolute()
        for path in folder.glob(f"{role}_[0-9]*")
        if path.suffix in (TENSOR_PROTO, ".npy")
    ]
    by_name = {path.stem: path for path in paths}
    names = [f"{role}_{number}" for number in range(len(paths))]
    if by_name.keys() != set(names):
        message = f"the files {role}_… are not numbered from 0, one for each number."
        raise BadFiles([Problem(str(folder), None, None, message)])
    return tuple(f"@{by_name[name]}" for name in names)
