"""A program is rewritten for the first sizes with which it is valid."""

from __future__ import annotations

import pytest

from triage.remedy.static_shapes import with_static_shapes

PROGRAM = """"builtin.module"() ({
  "func.func"() <{function_type = (TYPE) -> TYPE, sym_name = "f"}> ({
  ^bb0(%arg0: TYPE):
    "func.return"(%arg0) : (TYPE) -> ()
  }) : () -> ()
}) : () -> ()
""".replace("TYPE", "tensor<?x4xf32>")


class RefusingReader:
    """Stands where a `Reader` stands: reads all programs but some with other sizes."""

    def __init__(self, *sizes: int) -> None:
        self.refused = [f"tensor<{size}x4" for size in sizes]

    def text_after_passes(self, text: str, passes: object) -> str | None:
        return None if any(size in text for size in self.refused) else text


@pytest.mark.parametrize(("refused", "size"), [((), 64), ((64,), 128)])
def test_the_first_valid_sizes_are_taken(refused: tuple[int, ...], size: int) -> None:
    made = with_static_shapes(RefusingReader(*refused), PROGRAM)  # type: ignore[arg-type]
    assert made is not None
    program, sizes = made
    assert f"(tensor<{size}x4xf32>) -> (tensor<{size}x4xf32>)" in program
    assert sizes == f"unknown dimensions of the arguments set to {size}"


def test_a_program_that_is_never_valid_stays() -> None:
    sizes = (1 << power for power in range(20))
    assert with_static_shapes(RefusingReader(*sizes), PROGRAM) is None  # type: ignore[arg-type]
