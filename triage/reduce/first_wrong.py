"""Find the first value of a program that is wrong, and start a reduction there.

The key insight: intermediate values can be seen when the program returns them. On the
good toolchain that changes nothing, so one run gives all right values, which become the
inputs of smaller programs. On the bad toolchain it may hide the failure, since it keeps
operations from being fused. Then the program is ended earlier and earlier instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triage.execution.run_task import number_text
from triage.mlir import Operation, Value
from triage.model.case import Reference
from triage.recipes.run_values import read_value, value_type
from triage.reduce.frontends.mlir_operations import cuts_around
from triage.reduce.frontends.mlir_program import MlirProgram, cut, pieces
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase
from triage.reduce.result import WrongValue
from triage.reduce.runs import RunOracle, run_of
from triage.toolchains.home import temporary_folder

_NAME = re.compile(r"\s*(%[\w.$#-]+)(?::\d+)?\s*=")
_BAD = Reference()  # the bad toolchain, with the case's own flags


@dataclass
class FirstWrong:
    """The search for the first wrong value of a program in MLIR."""

    oracle: RunOracle
    source: Path
    """The text that the program was read from."""
    found: WrongValue | None = field(default=None)

    def first_wrong_value(
        self, candidate: ReducedCase, test: InterestingnessTest
    ) -> ReducedCase:
        """Keep as little as possible around the first wrong value."""
        function, observable = self._observable_operations(candidate)
        wrong = self.wrong_operation(candidate)
        if function is None or wrong is None or len(observable) < 2:
            return candidate
        cuts = [*cuts_around(candidate, function, [wrong])]
        before = cut(candidate, function, observable[: observable.index(wrong) + 1])
        cuts += [before] if before else []
        smaller = [each for each in cuts if each.program.size < candidate.program.size]
        return test.first(smaller) or candidate

    def wrong_operation(self, candidate: ReducedCase) -> Operation | None:
        """Return the operation whose result is the first wrong value, and set `found`;
        None if none is found.
        """
        function, observable = self._observable_operations(candidate)
        if function is None:
            return None
        with temporary_folder() as folder:
            return self._first_wrong_operation(candidate, function, observable, folder)

    def _observable_operations(
        self, candidate: ReducedCase
    ) -> tuple[Operation | None, list[Operation]]:
        """Return the function that is run, and its operations whose results it could
        return; None and none if the program is not one in MLIR, or has no such
        function.
        """
        program = candidate.program
        if not isinstance(program, MlirProgram):
            return None, []
        function = program.function(run_of(candidate).function)
        observable = pieces(function) if function else []
        return function, [
            each for each in observable if all(map(_is_value, each.results))
        ]

    def _first_wrong_operation(
        self,
        candidate: ReducedCase,
        function: Operation,
        observable: Sequence[Operation],
        folder: Path,
    ) -> Operation | None:
        """Let both toolchains return all intermediate values, and compare them. Return
        the operation of the first wrong one, or None.
        """
        makers = {value: each for each in observable for value in each.results}
        for number, value in enumerate(makers):
            value.origin = ("value", number)
        values = list(makers)
        traced = cut(candidate, function, observable, values)
        if traced is None:
            return None
        reference = self.oracle.references[0]
        right = self.oracle.results_by(traced, reference, folder / "right")
        if right is None or len(right) != len(values):
            return None
        for value, text in zip(values, right, strict=True):
            self.oracle.values.keep(value.origin, text)
        wrong = self.oracle.results_by(traced, _BAD, folder / "wrong")
        difference = None
        if wrong is not None and len(wrong) == len(right):
            difference = self.oracle.first_difference(wrong, right)
        if wrong is not None and difference is not None:
            index, numbers = difference
            operation = makers[values[index]]
            self.found = self._wrong_value(
                operation, wrong[index], right[index], numbers
            )
            return operation
        self.oracle.notes.append(
            "with its intermediate values returned the program is right, so that the "
            "first wrong value was looked for by ending the program earlier"
        )
        return self._bisect_end(candidate, function, observable, folder)

    def _bisect_end(
        self,
        candidate: ReducedCase,
        function: Operation,
        observable: Sequence[Operation],
        folder: Path,
    ) -> Operation | None:
        """Bisect the number of operations after which a result is wrong, by ending the
        program earlier. Return the last of them; None if no result is wrong.
        """
        low, high = 0, len(observable)
        ended = cut(candidate, function, observable)
        if not ended or not self._note_difference(
            ended, observable[-1], folder / "whole"
        ):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            ended = cut(candidate, function, observable[:middle])
            if ended and self._note_difference(
                ended, observable[middle - 1], folder / f"{middle}"
            ):
                high = middle
            else:
                low = middle
        return observable[high - 1]

    def _note_difference(
        self, ended: ReducedCase, last: Operation, folder: Path
    ) -> bool:
        """Return whether a result of a program is wrong; if so, set `found`, with the
        program's last operation.
        """
        reference = self.oracle.references[0]
        right = self.oracle.results_by(ended, reference, folder / "right")
        wrong = self.oracle.results_by(ended, _BAD, folder / "wrong") if right else None
        if right is None or wrong is None or len(right) != len(wrong):
            return False
        difference = self.oracle.first_difference(wrong, right)
        if difference is None:
            return False
        index, numbers = difference
        self.found = self._wrong_value(last, wrong[index], right[index], numbers)
        return True

    def _wrong_value(
        self, operation: Operation, wrong: str, right: str, numbers: dict[str, float]
    ) -> WrongValue:
        element = int(numbers["element"])
        shown = [number_text(read_value(text), element) for text in (wrong, right)]
        kind = (operation.attribute("name") or "").strip('"') or operation.name
        return WrongValue(
            name=self._name(operation),
            operation=kind,
            actual=shown[0],
            expected=shown[1],
            mismatches=int(numbers["mismatches"]),
            elements=int(numbers["elements"]),
        )

    def _name(self, operation: Operation) -> str | None:
        """Return the name of the operation's result in the source, if it is a text."""
        line = operation.line
        if line is None or self.source.suffix != ".mlir":
            return None
        lines = self.source.read_text("utf-8", "replace").splitlines()
        match = _NAME.match(lines[line - 1]) if 0 < line <= len(lines) else None
        return match[1] if match else None


def _is_value(value: Value) -> bool:
    """Return whether a value is an array whose sizes are known."""
    found = value_type(value.type)
    return found is not None and None not in found.shape
