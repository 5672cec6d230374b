"""Jobs as data: files go by digest and arrive as they were."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import IO

import pytest

from triage.execution.delivery import (
    DeliveredFiles,
    RemoteJob,
    received_facts,
    remove_unused,
    sent_facts,
    unpacked_case,
    with_paths,
)
from triage.model.case import Case, Input, InputKind, RunSpec, Target
from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import write_whole
from triage.toolchains.install_cache import USE


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

    return RemoteJob(with_paths(case, sent), "iree", "3.2.0", fresh=False, files=tuple(contents)), contents


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


def test_facts_name_the_files_of_the_client(tmp_path: Path) -> None:
    case = case_in(tmp_path)
    job, contents = job_of(case)
    home = tmp_path / 'a "quoted" home'
    for folder in (home, home / "trials" / "1-x"):
        arrived = unpacked_case(job, contents, folder)
        printed = json.dumps({"stderr": f"{arrived.input.path}:1:2: error: it fails"}, ensure_ascii=False)
        sent = sent_facts(printed, home)
        assert str(home) not in json.loads(sent)["stderr"]
        files = {path.parent.name: case.input.path for path in [arrived.input.path]}
        assert json.loads(received_facts(sent, files)) == {"stderr": f"{case.input.path}:1:2: error: it fails"}


def delivered(folder: Path, *names: str) -> dict[str, Path]:
    """Deliver 1000 bytes under each name, the first one the longest ago; return the folders by name."""
    folders: dict[str, Path] = {}
    for number, name in enumerate(names):
        folders[name] = folder / sha256(name.encode()).hexdigest()
        write_whole(folders[name] / "a.mlir", bytes(1000))
        (folders[name] / USE).touch()
        os.utime(folders[name] / USE, (number, number))
    return folders


def left(folders: dict[str, Path]) -> str:
    return "".join(name for name, folder in folders.items() if folder.exists())


def test_files_that_were_not_used_for_the_longest_time_are_removed(tmp_path: Path) -> None:
    folders = delivered(tmp_path, *"abcdef")
    (tmp_path / "trials").mkdir()
    assert remove_unused(tmp_path, keep=4000) == 2
    assert left(folders) == "cdef"
    assert remove_unused(tmp_path, before=3.5) == 2
    assert left(folders) == "ef"
    assert {path.name for path in tmp_path.iterdir()} == {"trials", *(folders[name].name for name in "ef")}


def test_files_of_a_job_stay_while_it_runs(tmp_path: Path) -> None:
    job, contents = job_of(case_in(tmp_path))
    folder = tmp_path / "delivered"
    folders = delivered(folder, "old")
    files = DeliveredFiles(folder, most=1)
    stop = threading.Event()
    with files.case(job, contents, stop) as case:
        assert remove_unused(folder, keep=0) == 1
        assert left(folders) == ""
        assert case.input.path.read_text() == "content of a.mlir"
    assert not case.input.path.exists(), "the job itself makes room after its end"
    with files.case(job, contents, stop) as case, DeliveredFiles(folder, most=1).case(job, contents, stop):
        assert case.input.path.read_text() == "content of a.mlir"
    assert not case.input.path.exists()


def test_files_that_came_back_while_others_were_removed_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = delivered(tmp_path, "a")["a"]
    lock = fcntl.flock

    def lock_late(file: IO[bytes], kind: int) -> None:
        shutil.rmtree(folder)  # another process was faster, and a job of a third one brings the files again
        delivered(tmp_path, "a")
        lock(file, kind)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    assert remove_unused(tmp_path, keep=0) == 0
    assert (folder / "a.mlir").exists()


def test_jobs_find_their_files_while_others_remove_them(tmp_path: Path) -> None:
    job, contents = job_of(case_in(tmp_path))
    stop = threading.Event()

    def read(_: int) -> bool:
        with DeliveredFiles(tmp_path / "delivered", most=1).case(job, contents, stop) as case:
            return case.input.path.read_text() == "content of a.mlir"

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))
