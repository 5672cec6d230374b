"""Find the first value of a program that is wrong, and start a reduction there.

The key insight: intermediate values can be seen when the program returns them. On the
good toolchain that changes nothing, so one run gives all right values, which become the
inputs of smaller programs. On the bad toolchain it may hide the failure, since it keeps
operations from being fused. Then the first wrong value is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from triage.execution.compare import number_text
from triage.mlir import Operation, Value
from triage.model.case import Reference
from triage.recipes.run_values import read_value, value_type
from triage.reduce.frontends.mlir_operations import cuts_around
from triage.reduce.frontends.mlir_program import MlirProgram, cut, pieces
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase
from triage.reduce.result import WrongValue
from triage.reduce.runs import RunTest, run_of
from triage.toolchains.home import temporary_folder

_NAME = re.compile(r"\s*(%[\w.$#-]+)(?::\d+)?\s*=")


@dataclass
class FirstWrong:
    """The search for the first wrong value of a program in MLIR."""

    test: RunTest
    source: Path
    """The text that the program was read from."""
    value: WrongValue | None = None
    """The first wrong value, once it is found."""

    def find_first_wrong_value(self, problem: ReductionProblem) -> None:
        """Keep as little as possible around the first wrong value."""
        start = problem.current
        function, observable = _observable_operations(start)
        wrong = self.wrong_operation(start)
        if function is None or wrong is None or len(observable) < 2:
            return
        until = cut(start, function, observable[: observable.index(wrong) + 1])
        cuts = filter(None, [*cuts_around(start, function, [wrong]), until])
        size = start.program.size
        problem.take_first(each for each in cuts if each.program.size < size)

    def wrong_operation(self, candidate: ReducedCase) -> Operation | None:
        """Return the operation whose result is the first wrong value, and set `value`;
        None if none is found.
        """
        function, observable = _observable_operations(candidate)
        if function is None:
            return None
        makers = {value: each for each in observable for value in each.results}
        values = list(makers)
        for number, value in enumerate(values):
            value.origin = ("value", number)
        traced = cut(candidate, function, observable, values)
        if traced is None:
            return None
        good, results_by = self.test.references[0], self.test.results_by
        with temporary_folder() as folder:
            right = results_by(traced, good, folder)
            if right is None or len(right) != len(values):
                return None
            for value, text in zip(values, right, strict=True):
                self.test.values.keep(value.origin, text)
            wrong = results_by(traced, Reference(), folder)
            difference = None
            if wrong and len(wrong) == len(right):
                difference = self.test.first_difference(wrong, right)
            if wrong is None or difference is None:
                self.test.notes.append(
                    "with its intermediate values returned the program is right, so "
                    "that the first wrong value is not known"
                )
                return None
            index, numbers = difference
            operation, element = makers[values[index]], int(numbers["element"])
            self.value = WrongValue(
                name=self._name(operation),
                operation=(operation.attribute("name") or "").strip('"')
                or operation.name,
                actual=number_text(read_value(wrong[index]), element),
                expected=number_text(read_value(right[index]), element),
                mismatches=int(numbers["mismatches"]),
                elements=int(numbers["elements"]),
            )
        return operation

    def _name(self, operation: Operation) -> str | None:
        """Return the name of the operation's result in the source, if it is a text."""
        line = operation.line
        if line is None or self.source.suffix != ".mlir":
            return None
        lines = self.source.read_text("utf-8", "replace").splitlines()
        if not 0 < line <= len(lines):
            return None
        match = _NAME.match(lines[line - 1])
        return match and match[1]


def _observable_operations(
    candidate: ReducedCase,
) -> tuple[Operation | None, list[Operation]]:
    """Return the function that is run, and its operations whose results it could
    return; None and none if the program is not one in MLIR, or has no such function.
    """
    if not isinstance(candidate.program, MlirProgram):
        return None, []
    function = candidate.program.function(run_of(candidate).function)
    observable = pieces(function) if function else []
    return function, [each for each in observable if all(map(_is_value, each.results))]


def _is_value(value: Value) -> bool:
    """Return whether a value is an array whose sizes are known."""
    array_type = value_type(value.type)
    return array_type is not None and None not in array_type.shape
