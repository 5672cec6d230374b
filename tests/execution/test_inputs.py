from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.execution.damage import do, each_damage
from triage.compilers.base import Importer
from triage.execution.inputs import Inputs, Prepared
from triage.model.case import Case, Input, InputKind, Target
from triage.model.execution import Limits
from triage.model.outcome import Untestable


def case(path: Path, kind: InputKind, **args: str) -> Case:
    return Case(
        "r",
        "r",
        "",
        "iree",
        path,
        Input(path, kind, tuple(args.items())),
        Target("llvm-cpu"),
        limits=Limits(timeout=30),
    )


NO_IMPORTER = Importer("none", ())


def inputs(folder: Path, onnx: Importer = NO_IMPORTER, roots: Sequence[Path] = ()) -> Inputs:
    return Inputs(folder / "made", threading.Event(), fresh=False, onnx=onnx, importers=lambda: roots)


def test_a_generator_is_run_again_when_what_it_imports_changed(tmp_path: Path) -> None:
    script, part = tmp_path / "gen.py", tmp_path / "shapes.py"
    part.write_text("N = 4")
    script.write_text("import shapes; print(f'tensor<{shapes.N}xf32>')")
    first = inputs(tmp_path).prepare(case(script, InputKind.GENERATOR))
    part.write_text("N = 8")
    second = inputs(tmp_path).prepare(case(script, InputKind.GENERATOR))
    assert isinstance(first, Prepared)
    assert isinstance(second, Prepared)
    assert (first.path.read_text(), second.path.read_text()) == ("tensor<4xf32>\n", "tensor<8xf32>\n")
    assert first.digest != second.digest


def test_a_missing_input_is_a_fault_of_the_recipe(tmp_path: Path) -> None:
    answer = inputs(tmp_path).prepare(case(tmp_path / "gone.mlir", InputKind.MLIR))
    assert isinstance(answer, Untestable)
    assert "gone.mlir" in answer.reason


def test_the_importer_of_another_toolchain_is_used_when_ours_is_broken(tmp_path: Path) -> None:
    for name, code in (
        ("broken", "import no_such_module_anywhere"),
        ("whole", "import sys; open(sys.argv[3], 'w').write('imported ' + open(sys.argv[1]).read())"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "an_importer.py").write_text(code)
    (tmp_path / "m.onnx").write_text("model")
    roots = [tmp_path / "broken", tmp_path / "whole"]
    answer = inputs(tmp_path, Importer("an_importer", ("onnx",)), roots).prepare(case(tmp_path / "m.onnx", InputKind.ONNX))
    assert isinstance(answer, Prepared), answer
    assert answer.path.read_text() == "imported model"
    assert not list((tmp_path / "made").glob(".making-*"))


@each_damage
@pytest.mark.parametrize("suffix", [".mlir", ".sha256"])
def test_a_damaged_cached_input_is_generated_again(tmp_path: Path, damage: str, suffix: str) -> None:
    script = tmp_path / "gen.py"
    script.write_text("import sys; print('tensor<4xf32>'); open(__file__ + '.calls', 'a').write('x')")
    calls = tmp_path / "gen.py.calls"
    first = inputs(tmp_path).prepare(case(script, InputKind.GENERATOR))
    assert isinstance(first, Prepared)
    assert inputs(tmp_path).prepare(case(script, InputKind.GENERATOR)) == first
    assert calls.read_text() == "x"
    do(damage, first.path.with_suffix(suffix))
    for _ in range(2):
        assert inputs(tmp_path).prepare(case(script, InputKind.GENERATOR)) == first
        assert first.path.read_text() == "tensor<4xf32>\n"
        assert calls.read_text() == "xx"
