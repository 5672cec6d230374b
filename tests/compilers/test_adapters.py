"""How the adapters find and call compilers, and what they read, without a compiler: the
spellings of IREE's releases, wheels of Triton, HLO and values of XLA.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.conftest import ROOT
from tests.mlir.printed_ir import read
from tests.programs import write_program
from tests.values import ELEMENTS, Element, value
from triage.classify.rules import read_yaml
from triage.compilers.base import KernelSpec
from triage.compilers.iree.adapter import Iree, IreeKernels, IreeRunner
from triage.compilers.registry import load_cases
from triage.compilers.repro_script import comparison_code, python_array
from triage.compilers.triton.adapter import Triton
from triage.compilers.xla import worker
from triage.compilers.xla.adapter import Xla
from triage.compilers.xla.hlo_text import generic_form
from triage.execution.plan import missing_backend
from triage.mlir.fingerprint import PrintedModule
from triage.model.case import Case, Input, InputKind, RunSpec, Target
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.processes.sealing import Seal
from triage.recipes.run_values import file_value, read_value, type_name

DATA = ROOT / "tests" / "data" / "compilers"
IREE = read_yaml(DATA / "iree.yaml")
XLA = read_yaml(DATA / "xla.yaml")
HLO = (DATA / "reduce.hlo").read_text()


def case_of(family: str, target: Target, **fields: Any) -> Case:
    path = Input(Path("m.mlir"), InputKind.OTHER)
    return Case("r", "r", "", family, Path("r.yaml"), path, target, **fields)


@pytest.mark.parametrize("row", IREE["options"])
def test_what_a_recipe_asks_is_named_in_each_releases_spelling(row: Any) -> None:
    case = case_of("iree", Target(**row["target"]), phase=row.get("phase"))
    backends = frozenset({"rocm", "cuda", "llvm-cpu"})
    known = Capabilities(backends, ("flow", "stream", "vm"), frozenset(row["flags"]))
    program = Path("/tc/iree-compile")
    compiler = Toolchain(
        "iree", Revision("x"), "id", Path("/tc"), program, known, "3.9.0"
    )
    answer = missing_backend(case, compiler) or Iree().invocation(case, compiler)
    if isinstance(answer, NoAnswer):
        assert answer.cause == row["cause"]
    else:
        assert list(answer.options) == row["options"]


@pytest.mark.parametrize("folder", ["tools/", "bin/", ""])
def test_the_binary_is_found_in_every_layout(tmp_path: Path, folder: str) -> None:
    inner = "iree/compiler/_mlir_libs/iree-compile"
    for place in (
        f"{folder}iree-compile",
        f"lib/python3.11/site-packages/{inner}",
        inner,
    ):
        program = write_program(tmp_path / place, "\x7fELF")
        assert Iree().locate(tmp_path) == program
        assert Iree().locate(program) == program


def test_the_kernels_of_an_extracted_program_and_how_each_is_measured_alone() -> None:
    assert IreeKernels().kernels_in(IREE["extracted"]) == [
        ("k", "--benchmark_filter=^BM_k_elf_a/"),
        ("k-2", "--benchmark_filter=^BM_k_elf_b/"),
    ]
    assert IreeKernels().kernels_in("module {}") == []


@pytest.mark.parametrize("answer", IREE["startup"])
def test_what_the_runtime_cannot_do_says_nothing_about_the_compiler(
    answer: list[str],
) -> None:
    stderr, cause, reason = answer
    failure = IreeRunner().startup_failure(stderr)
    assert (failure and failure.cause) == cause
    assert failure is None or reason in failure.reason


@pytest.mark.parametrize("are", ["same", "different"])
def test_spellings_of_one_thing_are_equal_and_nothing_else(are: str) -> None:
    module = '"builtin.module"() ({{\n{}\n}}) : () -> ()'
    for pair in IREE[are]:
        texts = [module.format(text.strip()) for text in pair]
        old, new = [read(text, Iree().vocabulary).whole for text in texts]
        is_same = old.same_as(new) and old.same_operations(new)
        assert is_same is (are == "same"), pair


def test_a_wheel_of_triton_for_a_python_that_is_not_here_is_untestable(
    tmp_path: Path,
) -> None:
    for name in ("_C/libtriton.so", "__init__.py", "compiler/compiler.py"):
        write_program(tmp_path / "triton" / name, "__version__ = '3.2.0'\n")
    wheel = tmp_path / "triton-3.2.0+git0123456789.dist-info" / "WHEEL"
    write_program(wheel, "Wheel-Version: 1.0\nTag: cp399-cp399-any\n")
    triton, program = Triton(), Triton().locate(tmp_path)
    assert program
    known = triton.describe(program, Seal(()))
    assert (known.version, known.commit) == ("3.2.0+git0123456789", "0123456789")
    nightly = Revision("nightly")
    toolchain = Toolchain(
        "triton", nightly, "id", tmp_path, program, known.capabilities
    )
    spec = KernelSpec(None, {"x": "*fp16"}, {}, {"x": {"divisibility": 16}}, {})
    case = case_of("triton", Target("cuda", "sm_90"), spec=spec)
    reason = "nightly needs Python 3.99, and none is installed here"
    assert triton.invocation(case, toolchain) == NoAnswer(Cause.TOOLCHAIN, reason)


def test_names_layouts_and_metadata_of_hlo_do_not_count_but_types_and_attributes_do() -> (
    None
):
    def program(*changes: tuple[str, str]) -> PrintedModule:
        text = HLO
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return read(generic_form(text), Xla().vocabulary)

    plain = program()
    assert plain.functions["main"].operations == {"hlo.reduce": 1, "hlo.add": 1}
    names = ("region_0.3", "region_7.21"), ("reduce.7", "sum"), ("%", "")
    others = ("{1,0}", "{0,1}"), ('"sum"', '"other"')
    assert program(*names, *others).whole == plain.whole
    assert program(("f32[4,8]", "f32[4,16]")).whole != plain.whole
    assert 'dimensions = "{1}"' in generic_form(HLO)


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
        given, read = eval(python_array(text), names), worker.argument_of(text, None)
        path = tmp_path / f"0.{type_name(read)}.bin"
        worker.write_result(path, read)
        for array in (given, read, read_value(file_value(path))):
            assert array.dtype == element.dtype
            assert array.tobytes() == element.array.tobytes()
        expected = value(element, element.result, way, tmp_path, "result")
        lines = comparison_code(RunSpec(expected=(expected,)))
        exec(lines, {**names, "results": [element.result]})
        with pytest.raises(AssertionError):
            exec(lines, {**names, "results": [off]})
    if "npy" not in element.ways:
        with pytest.raises(TypeError):
            worker.write_result(tmp_path / "0.npy", element.array)


@pytest.mark.parametrize("written", XLA["values"])
def test_the_worker_reads_values_as_recipes_write_them(
    written: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a=b.npy", np.arange(3, dtype=np.int32))
    text, name, elements = written
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    array = worker.argument_of(text, dtype)
    assert (array.tolist(), array.dtype) == (elements, dtype)


@pytest.mark.parametrize("keys", XLA["scripts"])
def test_a_python_file_is_a_script_unless_a_function_is_called(
    tmp_path: Path, keys: str
) -> None:
    (tmp_path / "f.py").touch()
    start = "name: r\ncompiler: xla\ninput: f.py\ntarget: {backend: cpu}"
    (tmp_path / "r.yaml").write_text(f"{start}\n{keys}\n")
    [case] = load_cases([tmp_path / "r.yaml"])
    assert Xla().runs_script(case) is XLA["scripts"][keys]
