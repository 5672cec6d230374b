"""The XLA adapter, the reader of HLO and the script of a reproducer, without a jaxlib."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.conftest import Triage
from tests.mlir.printed_ir import read as read_ir
from tests.values import ELEMENTS, Element, value
from triage.compilers.registry import load_cases
from triage.compilers.repro_script import comparison, python_array
from triage.compilers.xla import worker
from triage.compilers.xla.adapter import Xla
from triage.compilers.xla.hlo_text import generic_form
from triage.mlir.fingerprint import PrintedModule
from triage.model.case import RunSpec, Target
from triage.recipes.run_values import file_value, read_value

HLO = """HloModule jit_f, entry_computation_layout={(f32[4,8]{1,0})->f32[4]{0}}

%region_0.3 (a.4: f32[], b.5: f32[]) -> f32[] {
  %a.4 = f32[] parameter(0)
  %b.5 = f32[] parameter(1)
  ROOT %add.6 = f32[] add(%a.4, %b.5)
}

ENTRY %main.9 (x.1: f32[4,8]) -> f32[4] {
  %x.1 = f32[4,8]{1,0} parameter(0), metadata={op_name="x"}
  %zero.2 = f32[] constant(0)
  ROOT %reduce.7 = f32[4]{0} reduce(%x.1, %zero.2), dimensions={1}, to_apply=%region_0.3, metadata={op_name="sum" source_line=3}
}
"""


def read(text: str) -> PrintedModule:
    return read_ir(generic_form(text), Xla().vocabulary)


def test_names_layouts_and_metadata_of_hlo_do_not_count_but_types_and_attributes_do() -> (
    None
):
    program = read(HLO)
    assert program.functions["main"].operations == {"hlo.reduce": 1, "hlo.add": 1}
    renamed = (
        HLO.replace("region_0.3", "region_7.21")
        .replace("reduce.7", "sum")
        .replace("%", "")
    )
    assert (
        read(renamed.replace("{1,0}", "{0,1}").replace('"sum"', '"other"')).whole
        == program.whole
    )
    assert read(HLO.replace("f32[4,8]", "f32[4,16]")).whole != program.whole
    assert 'dimensions = "{1}"' in generic_form(HLO)


def recipe(folder: Path, text: str) -> Path:
    (folder / "p.mlir").touch()
    (folder / "f.py").touch()
    (folder / "r.yaml").write_text(
        f"name: r\nsummary: s\ncompiler: xla\ntarget: {{backend: cpu}}\n{text}\n"
    )
    return folder / "r.yaml"


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_reproducers_and_the_worker_keep_every_type_exactly(
    element: Element, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a reproducer on values run here; jaxlib is in `tests/real`."""
    monkeypatch.chdir(tmp_path)
    names = {"nan": np.nan, "inf": np.inf, "np": np, "ml_dtypes": ml_dtypes}
    off = element.result.copy()
    off[0] = element.array[0]
    for way in element.ways:
        text = value(element, element.array, way, tmp_path, "argument")
        given, read = eval(python_array(text), names), worker.value(text, "")
        path = tmp_path / f"0.{worker.mlir_type(read)}.bin"
        worker.write_result(path, read)
        for array in (given, read, read_value(file_value(path))):
            assert array.dtype == element.dtype
            assert array.tobytes() == element.array.tobytes()
        expected = value(element, element.result, way, tmp_path, "result")
        lines = comparison(RunSpec(expected=(expected,)))
        exec(lines, {**names, "results": [element.result]})
        with pytest.raises(AssertionError):
            exec(lines, {**names, "results": [off]})
    if "npy" not in element.ways:
        with pytest.raises(TypeError):
            worker.write_result(tmp_path / "0.npy", element.array)


@pytest.mark.parametrize(
    ("text", "element", "elements"),
    [
        ("2x2xf32=1 2 3 4", "f32", [[1, 2], [3, 4]]),
        ("3xi64=9007199254740993", "s64", [9007199254740993] * 3),
        ("2xi1=true false", "pred", [True, False]),
        ("2x2xi8", "s8", [[0, 0], [0, 0]]),
        ("9007199254740993", "s64", 9007199254740993),
        ("-1.5e3", "f8e5m2", -1536),
        ("@a=b.npy", "s32", [0, 1, 2]),
    ],
)
def test_the_worker_reads_values_as_recipes_write_them(
    text: str,
    element: str,
    elements: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a=b.npy", np.arange(3, dtype=np.int32))
    array = worker.value(text, element)
    assert array.tolist() == elements
    assert array.dtype == worker.numpy_type(element)


def test_a_recipe_is_started_from_a_script_and_from_hlo(
    triage: Triage, workplace: Path
) -> None:
    (workplace / "f.py").write_text("import jax\n\nprint(jax.jit(abs)(-1))\n")
    assert triage("recipe", "new", "r.yaml", "--input", "f.py").returncode == 0
    [case] = load_cases([workplace / "r.yaml"])
    assert (case.compiler, Xla().runs_script(case)) == ("xla", True)
    assert triage("recipe", "new", "s.yaml", "--input", "f.py:absent").returncode == 2
    (workplace / "p.hlo").write_text(HLO)
    assert triage("recipe", "new", "p.yaml", "--input", "p.hlo").returncode == 0
    assert load_cases([workplace / "p.yaml"])[0].target == Target("cpu")


@pytest.mark.parametrize(
    ("keys", "is_script"),
    [
        ("", True),
        ("run: {expected: ['1xf64=7']}", True),
        ("run: {inputs: ['4xf32=1']}", False),
        ("args: {n: 4}", False),
    ],
)
def test_a_python_file_is_a_script_unless_a_function_is_called(
    tmp_path: Path, keys: str, is_script: bool
) -> None:
    [case] = load_cases([recipe(tmp_path, f"input: f.py\n{keys}")])
    assert Xla().runs_script(case) is is_script
