from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.execution.damage import do, each_damage
from triage.classify import packaged_rules
from triage.compilers.base import Importer
from triage.execution.cache import Evidence
from triage.execution.inputs import FailedImport, Inputs, Prepared
from triage.execution.judge import judge_import
from triage.execution.onnx_import import OnnxImporters
from triage.model.case import Case, Input, InputKind, Target
from triage.model.execution import Limits, Stage
from triage.model.outcome import Untestable
from triage.model.revision import Capabilities, Revision, Toolchain


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
# Appends a line to `runs` in its own folder whenever it is started.
IMPORTER = """
import sys, pathlib
pathlib.Path(__file__).parents[1].joinpath("runs").open("a").write("started\\n")
class OnnxImportError(Exception): pass
def parse_arguments(words): return words
def main(words):
    text = open(words[0]).read()
    if "bad" in text: raise ValueError("cannot import this")
    if "strange" in text: raise OnnxImportError("unknown element type 25")
    if "crash" in text: import os; os.abort()
    open(words[2], "w").write("imported " + text)
if __name__ == "__main__": main(sys.argv[1:])
"""


def inputs(folder: Path, onnx: Importer = NO_IMPORTER, roots: Sequence[Path] = (), *, fresh: bool = False) -> Inputs:
    stop = threading.Event()
    importers = OnnxImporters(onnx, lambda: roots, stop, lambda: None)
    return Inputs(folder / "made", stop, fresh=fresh, onnx=importers, evidence=Evidence(folder / "evidence.db"))


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


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an importer."""
    root = tmp_path / "root"
    (root / "an_importer").mkdir(parents=True)
    (root / "an_importer" / "__init__.py").write_text("")
    (root / "an_importer" / "__main__.py").write_text(IMPORTER)
    return root


def toolchain(identity: str) -> Toolchain:
    return Toolchain("iree", Revision(identity), identity, Path(), Path(), Capabilities())


def model(folder: Path, name: str, text: str) -> Case:
    (folder / name).write_text(text)
    return case(folder / name, InputKind.ONNX)


ONNX = Importer("an_importer", ("onnx",), ("an_importer/*.py",))


def test_one_process_imports_many_models_for_a_toolchain(tmp_path: Path, package: Path) -> None:
    made = inputs(tmp_path, ONNX)
    for number in range(3):
        answer = made.prepare(model(tmp_path, f"{number}.onnx", f"model {number}"), toolchain("a"), package)
        assert isinstance(answer, Prepared)
        assert answer.path.read_text() == f"imported model {number}"
    assert (package / "runs").read_text().splitlines() == ["started"]
    made.prepare(model(tmp_path, "0.onnx", "model 0"), toolchain("b"), package)
    made.close()
    again = inputs(tmp_path, ONNX)
    assert isinstance(again.prepare(model(tmp_path, "0.onnx", "model 0"), toolchain("a"), package), Prepared)
    assert len((package / "runs").read_text().splitlines()) == 1
    (package / "an_importer" / "__main__.py").write_text(IMPORTER.replace("imported", "changed"))
    changed = inputs(tmp_path, ONNX)
    answer = changed.prepare(model(tmp_path, "0.onnx", "model 0"), toolchain("a"), package)
    assert isinstance(answer, Prepared)
    assert answer.path.read_text() == "changed model 0"
    changed.close()


@pytest.mark.parametrize("text", ["bad", "strange", "crash"])
def test_a_failed_import_is_recorded(tmp_path: Path, package: Path, text: str) -> None:
    made = inputs(tmp_path, ONNX)
    bad = model(tmp_path, "bad.onnx", text)
    answer = made.prepare(bad, toolchain("a"), package)
    assert isinstance(answer, FailedImport)
    assert [answer.cached, made.prepare(bad, toolchain("a"), package)] == [False, replace(answer, cached=True)]
    outcome = judge_import(answer.execution, packaged_rules())
    assert (outcome.failure.stage, outcome.failure.failure_class == "import-error") == (Stage.IMPORT, text != "crash")
    assert isinstance(made.prepare(model(tmp_path, "good.onnx", "good"), toolchain("a"), package), Prepared)
    made.close()
    runs = (package / "runs").read_text()
    again = inputs(tmp_path, ONNX).prepare(bad, toolchain("a"), package)
    assert isinstance(again, FailedImport)
    assert again.cached
    assert judge_import(again.execution, packaged_rules()).failure == outcome.failure
    assert (package / "runs").read_text() == runs
    assert isinstance(inputs(tmp_path, ONNX, fresh=True).prepare(bad, toolchain("a"), package), FailedImport)
    assert len((package / "runs").read_text()) > len(runs)


def test_without_any_importer_that_runs_nothing_is_recorded(tmp_path: Path, package: Path) -> None:
    (package / "an_importer" / "__main__.py").write_text("import no_such_module_anywhere")
    answer = inputs(tmp_path, ONNX).prepare(model(tmp_path, "m.onnx", "m"), toolchain("a"), package)
    assert isinstance(answer, Untestable)
    assert Evidence(tmp_path / "evidence.db").last_number() == 0
