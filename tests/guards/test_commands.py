"""The JSON of commands, for a compiler of a few lines and for released ones; exit codes;
how small reductions are; statuses of ONNX operators.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from tests.conftest import ROOT, Asked, Triage
from tests.fake_releases import command_recipe, install, recipe, repository
from tests.guards import golden
from tests.reduce import large_models

COMMANDS = yaml.safe_load(Path(__file__).with_name("commands.yaml").read_text())
REDUCTIONS = json.loads((golden.FOLDER / "reductions.json").read_text())
EXPECTED = "expect: [{failure: shared-memory-overflow}]"
real = pytest.mark.real
slow = pytest.mark.slow


def words_of(line: str, inputs: Path, tmp_path: Path) -> list[object]:
    """Return the words of a command on the files of a folder."""
    words = line.replace("TMP", str(tmp_path)).split()
    return [inputs / word if (inputs / word).exists() else word for word in words]


def check(asked: Asked, name: str, command: Any, inputs: Path, tmp_path: Path) -> Any:
    words = words_of(command["command"], inputs, tmp_path)
    answer = asked(*words, code=command.get("code", 0))
    shape = command.get("shape", words[0])
    golden.check(name, answer, shape, inputs, tmp_path)
    return words


@pytest.mark.usefixtures("with_releases")
@pytest.mark.parametrize("name", COMMANDS["fake"])
def test_a_command(asked: Asked, workplace: Path, tmp_path: Path, name: str) -> None:
    command, inputs = COMMANDS["fake"][name], tmp_path / "inputs"
    inputs.mkdir()
    for case, program in command.get("programs", {}).items():
        expect = EXPECTED if case in command.get("expected", ()) else ""
        recipe(inputs, case, program, expect)
    for log, text in command.get("logs", {}).items():
        (inputs / log).write_text(text)
    install(tmp_path / "built", 5)
    if "repo" in command["command"]:
        project = repository(tmp_path / "repo", 16, install(tmp_path / "base", 0))
        (workplace / "triage.yaml").write_text(project)
    if "first" in command:
        asked(*words_of(command["first"], inputs, tmp_path), code=1)
    words = check(asked, name, command, inputs, tmp_path)
    if name == "run-fake":
        again = asked(*words, code=1)
        assert all(result["cached"] for result in again["results"])
    if name == "nightly-fake":
        out = tmp_path / "out"
        stored = json.loads((out / "nightly.json").read_text())
        golden.check(name, stored, "nightly", tmp_path)
        assert {"nightly.md", "nightly.xml"} <= {path.name for path in out.iterdir()}


def test_reduce(asked: Asked, home: Path, tmp_path: Path) -> None:
    lines = "\n".join(f"line {number}" for number in range(40))
    path = command_recipe(tmp_path, "long", f"{lines}\nbreaks-3\n{lines}")
    built = install(tmp_path / "built", 5)
    answer = asked("reduce", path, "-t", f"path:{built}", "--out", tmp_path / "out")
    golden.check("reduce-fake", answer, "reduce", tmp_path)
    written = {path.name for path in Path(answer["reproducer"]).iterdir()}
    assert {"recipe.yaml", "reproducer.json", "README.md", "repro.sh"} <= written


@pytest.mark.parametrize(("code", "line"), COMMANDS["codes"])
def test_exit_codes(
    triage: Triage, home: Path, tmp_path: Path, code: int, line: str
) -> None:
    install(tmp_path / "built", 5)
    recipe(tmp_path, "good", "fine")
    recipe(tmp_path, "bad", "breaks-3")
    recipe(tmp_path, "flagged", "fine", "flags: [--iree-nothing-of-the-kind]")
    done = triage(*words_of(line, tmp_path, tmp_path))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@real
@pytest.mark.parametrize(
    "name",
    [*COMMANDS["real"], *(pytest.param(name, marks=slow) for name in COMMANDS["slow"])],
)
def test_a_command_on_released_compilers(
    asked: Asked, shared_home: Path, tmp_path: Path, name: str
) -> None:
    command = (COMMANDS["real"] | COMMANDS["slow"])[name]
    check(asked, name, command, ROOT / "recipes", tmp_path)


@real
def test_bench(triage: Triage, shared_home: Path) -> None:
    path = ROOT / "recipes" / "row-sum.yaml"
    options = ("-t", "3.10.0", "-t", "3.13.0", "--time", "1s", "--format", "json")
    answer = json.loads(triage("bench", path, *options).stdout)
    golden.check("bench", answer, "bench")
    verdicts = {row["verdict"] for row in answer["results"]}
    assert verdicts <= {None, "slower", "faster", "the same", "too noisy"}


@real
@slow
@pytest.mark.parametrize("known", REDUCTIONS)
def test_a_reduction_is_as_small_with_as_few_compiles(
    asked: Asked, shared_home: Path, tmp_path: Path, known: str
) -> None:
    """golden/reductions.json has the final lines and the compiles with one job, which
    may grow by a tenth.
    """
    name, _, sizes = known.partition(" of sizes ")
    model = large_models.model(name, 1000, sizes=int(sizes or 1))
    (tmp_path / "model.mlir").write_text(model)
    path = tmp_path / "recipe.yaml"
    path.write_text(large_models.recipe(name, "model.mlir"))
    pattern = large_models.PATTERNS[name]
    words = ["-t", pattern.bad, "--out", tmp_path / "out", "--jobs", "1"]
    words += ["--good", pattern.good] if pattern.good else []
    answer = asked("reduce", path, *words)
    limits, compiles = REDUCTIONS[known], answer["oracle_calls"]
    text = Path(answer["reproducer"], "input.mlir").read_text()
    lines = sum(bool(line.strip()) for line in text.splitlines())
    assert lines <= limits["lines"]
    assert compiles <= 1.1 * limits["compiles"]


def write_operators(folder: Path) -> None:
    """Write every tenth of the operator tests in `onnx`, as models with test data."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in collect_testcases(None)}
    names = [name for name in sorted(cases) if not name.endswith("_expanded")]
    for name in names[::10]:
        data = folder / name / "test_data_set_0"
        data.parent.mkdir(parents=True)
        onnx.save(cases[name].model, data.parent / "model.onnx")
        values = {
            f"{kind}_{number}": value
            for kind, some in zip(
                ("input", "output"), cases[name].data_sets[0], strict=True
            )
            for number, value in enumerate(some)
        }
        kinds = np.ndarray | np.generic | onnx.TensorProto
        if not all(isinstance(value, kinds) for value in values.values()):
            continue  # it is only compiled
        data.mkdir()
        for file, value in values.items():
            if not isinstance(value, onnx.TensorProto):
                value = onnx.numpy_helper.from_array(np.asarray(value))
            (data / f"{file}.pb").write_bytes(value.SerializeToString())


@real
@slow
def test_statuses_of_onnx_operators(
    triage: Triage, shared_home: Path, tmp_path: Path
) -> None:
    write_operators(tmp_path / "models")
    path = tmp_path / "ops.yaml"
    path.write_text(
        "name: ops\ninput: models/*/model.onnx\ntarget: {backend: llvm-cpu}\nrun: {data: test_data_set_0}\n"
    )
    done = triage("run", path, "-t", "3.13.0", "--format", "json")
    statuses = {}
    for result in json.loads(done.stdout)["results"]:
        failure = result["failure"] or {"stage": "", "class": ""}
        name = result["case"].removeprefix("ops[file=test_").removesuffix("]")
        text = f"{result['status']} {failure['stage']} {failure['class']}"
        statuses[name] = text.strip()
    golden.check("onnx-operators", statuses, "any")
