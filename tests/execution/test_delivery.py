"""Jobs as data: files go by digest and arrive as they were."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from triage.execution.delivery import RemoteJob, received_facts, sent_facts, unpacked_case, with_paths
from triage.model.case import Case, Input, InputKind, RunSpec, Target
from triage.model.errors import EnvironmentFailure


def case_in(folder: Path) -> Case:
    for name in ("a.mlir", "x.npy", "w.irpa", "rules.yaml"):
        (folder / name).write_text(f"content of {name}")
    run = RunSpec(inputs=(f"2xf32=@{folder}/x.npy", "4xi32=1 2 3 4"), parameters=(("model", folder / "w.irpa"),))
    source = Input(folder / "a.mlir", InputKind.MLIR)
    return Case("a", "a", "", "iree", folder / "a.yaml", source, Target("llvm-cpu"), rules=folder / "rules.yaml", run=run)


def job_of(case: Case) -> tuple[RemoteJob, dict[str, bytes]]:
    contents: dict[str, bytes] = {}

    def sent(path: Path) -> Path:
        digest = sha256(path.read_bytes()).hexdigest()
        contents[digest] = path.read_bytes()
        return Path("/", digest, path.name)

    return RemoteJob(with_paths(case, sent), "iree", "3.2.0", "identity", fresh=False), contents


def test_the_files_of_a_case_arrive_by_digest(tmp_path: Path) -> None:
    case = case_in(tmp_path)
    job, contents = job_of(case)
    assert str(tmp_path) not in repr(replace(job.case, source=Path()))
    arrived = unpacked_case(pickle.loads(pickle.dumps(job)), contents, tmp_path / "there")
    assert arrived.input.path.read_bytes() == case.input.path.read_bytes()
    assert arrived.run is not None
    assert Path(arrived.run.inputs[0].partition("@")[2]).read_text() == "content of x.npy"
    assert arrived.run.inputs[1] == "4xi32=1 2 3 4"
    assert arrived.run.parameters[0][1].name == "w.irpa"
    assert arrived.rules is not None
    assert arrived.rules.read_text() == "content of rules.yaml"
    assert {path.name for path in (tmp_path / "there").iterdir()} == set(contents)


def test_a_file_that_was_damaged_on_its_way_is_refused(tmp_path: Path) -> None:
    job, contents = job_of(case_in(tmp_path))
    with pytest.raises(EnvironmentFailure, match="damaged"):
        unpacked_case(job, dict.fromkeys(contents, b"other"), tmp_path / "there")


def test_a_file_that_is_too_large_to_send_is_used_where_it_is(tmp_path: Path) -> None:
    case = case_in(tmp_path)
    job = RemoteJob(case, "iree", "3.2.0", "identity", fresh=False)
    assert unpacked_case(job, {}, tmp_path / "there") == case
    case.input.path.unlink()
    with pytest.raises(EnvironmentFailure, match="all machines see"):
        unpacked_case(job, {}, tmp_path / "there")


def test_facts_name_the_files_of_the_client(tmp_path: Path) -> None:
    case = case_in(tmp_path)
    job, contents = job_of(case)
    home = tmp_path / 'a "quoted" home'
    arrived = unpacked_case(job, contents, home)
    printed = json.dumps({"stderr": f"{arrived.input.path}:1:2: error: it fails"}, ensure_ascii=False)
    sent = sent_facts(printed, home)
    assert str(home) not in json.loads(sent)["stderr"]
    files = {arrived.input.path.parent.name: case.input.path}
    assert json.loads(received_facts(sent, files)) == {"stderr": f"{case.input.path}:1:2: error: it fails"}
