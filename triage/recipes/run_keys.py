"""The recipe keys `run` and `bench`: how to run a compiled program, and the results
that it must compute. Files may say the same.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.model.case import BenchKeys, Case, Reference, RunKeys, RunSpec
from triage.model.errors import BadFiles, Problem
from triage.model.fields import file_key
from triage.recipes.document import read_text
from triage.recipes.recipe import Recipe, is_pattern, locate
from triage.recipes.run_values import TENSOR_PROTO, with_located_file

_TOLERANCE = re.compile(
    r"--expected_(f16|f32|f64|bf16)_threshold=([\d.]+(?:e[+-]?\d+)?)f?\Z"
)


@dataclass(frozen=True, kw_only=True)
class RunnableRecipe(Recipe):
    """A program that is compiled, and then run or measured."""

    run: RunKeys | None = file_key(
        None, "Run what was compiled and compare its results.", {"inputs": ["4xf32=1"]}
    )
    bench: tuple[BenchKeys, ...] = file_key(
        (), "Functions that `triage bench` measures.", [{"function": "prefill"}]
    )

    def mistakes(self) -> Iterator[tuple[str, str]]:
        labels = Counter(entry.label for entry in self.bench)
        if labels and max(labels.values()) > 1:
            yield "bench", "several have one name: give each a `name` of its own."
        if not self.run:
            return
        if self.phase not in (None, "end"):
            yield "phase", "a compile that stops early has nothing to run; remove one."
        reference = self.run.reference
        if reference and self.run.expected:
            yield "run", "a reference has the expected results, too; remove one."
        if reference == Reference():
            yield (
                "run",
                "a reference needs another toolchain or other flags: write "
                "`{toolchain: 3.12.0}`.",
            )

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run and its benchmarks. The values of the flagfile,
        of the data folder and of the recipe follow each other.
        """
        run = RunSpec(**vars(self.run)) if self.run else None
        if run and run.flagfile:
            run = joined_runs(read_flagfile(locate(folder, run.flagfile)), run)
        if run and run.data is not None:
            data = case.input.path.parent / run.data
            if is_pattern(self.input) and not data.is_dir():
                run = None
            else:
                run = joined_runs(_read_data_folder(data), run)
        benchmarks = tuple(RunSpec(**vars(entry)) for entry in self.bench)
        return replace(case, run=run, benchmarks=benchmarks)


def joined_runs(first: RunSpec, run: RunSpec) -> RunSpec:
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
    problems: list[Problem] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        name, _, text = line.strip().lstrip("-").partition("=")
        if name not in ("input", "expected_output", "function", "device"):
            name = "flags"
            text = line.strip()
        elif name not in ("function", "device"):
            try:
                text = with_located_file(text, path.parent)
            except ValueError as error:
                column = line.find("=") + 2
                problems.append(Problem(str(path), number, column, str(error)))
        if text and not text.startswith("#"):
            values[name].append(text)
    if problems:
        raise BadFiles(problems)
    flags, tolerances = without_tolerances(values["flags"])
    return RunSpec(
        device=" ".join(values["device"][-1:]) or None,
        function=" ".join(values["function"][-1:]) or None,
        inputs=tuple(values["input"]),
        expected=tuple(values["expected_output"]),
        flags=flags,
        tolerances=tolerances,
    )


def without_tolerances(
    flags: Sequence[str],
) -> tuple[tuple[str, ...], tuple[tuple[str, float], ...]]:
    """Return the flags that set no tolerance, and the tolerances of the others by
    element type.
    """
    matches = [(flag, _TOLERANCE.match(flag)) for flag in flags]
    others = tuple(flag for flag, match in matches if not match)
    tolerances = {match[1]: float(match[2]) for _, match in matches if match}
    return others, tuple(tolerances.items())


def _read_data_folder(folder: Path) -> RunSpec:
    """Return the values in a folder with `input_0.pb`, `output_0.pb` and so on. Raises
    BadFiles if a number has no file or several, or if there is no output.
    """
    values: dict[str, tuple[str, ...]] = {}
    for role in ("input", "output"):
        paths = [
            path.absolute()
            for path in folder.glob(f"{role}_[0-9]*")
            if path.suffix in (TENSOR_PROTO, ".npy")
        ]
        by_name = {path.stem: f"@{path}" for path in paths}
        names = [f"{role}_{number}" for number in range(len(paths))]
        if by_name.keys() != set(names) or (role == "output" and not names):
            message = (
                f"test data needs the files {role}_0.pb and so on, one a number from 0."
            )
            raise BadFiles([Problem(str(folder), None, None, message)])
        values[role] = tuple(by_name[name] for name in names)
    return RunSpec(inputs=values["input"], expected=values["output"])
