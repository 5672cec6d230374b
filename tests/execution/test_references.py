"""Results of a reference, with shell scripts in place of a compiler and of the program that runs what it writes."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.execution.no_importer import inputs_without_importer
from tests.execution.test_prober import COMPILER, COMPILES, FAILS, HANGS, Laboratory, ScriptFamily, lab_toolchain, no_download
from triage.compilers.base import Runner
from triage.compilers.iree.runner import IreeRunner
from triage.execution.cache import Evidence
from triage.execution.prober import Prober
from triage.execution.result_files import intact_results, keep_results
from triage.model.case import Case, Reference, RunSpec
from triage.model.outcome import Compiled, Untestable

RUNS = 'echo "result[0]: x"; for word; do case $word in --output=@*) cp "$here/result.npy" "${word#--output=@}";; esac; done'
WAITS_AND_COMPILES = f'cat "$here/gate" > /dev/null; {COMPILES}'


class ScriptRunner(IreeRunner):
    """Runs the script `program` beside the compiler, whatever its format."""

    def program(self, root: Path) -> Path | None:
        return root / "program"


class RunningFamily(ScriptFamily):
    def runner(self) -> Runner:
        return ScriptRunner()


@pytest.fixture
def lab(tmp_path: Path) -> Laboratory:
    (tmp_path / "m.mlir").write_text("module {}")
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    np.save(tmp_path / "result.npy", np.ones(2, dtype="f4"))
    program(tmp_path, RUNS)
    return Laboratory(tmp_path, prober(tmp_path), Evidence(tmp_path / "evidence.db"), threading.Event())


def program(folder: Path, step: str) -> None:
    (folder / "program").write_text(f'#!/bin/sh\nhere=$(dirname "$0")\necho run >> "$here/program-runs"\n{step}\n')
    (folder / "program").chmod(0o755)


def prober(folder: Path) -> Prober:
    """A prober as another process with the same home has it."""
    return Prober(
        folder,
        {"script": RunningFamily()},
        Evidence(folder / "evidence.db"),
        inputs_without_importer(folder),
        threading.Event(),
        runtime=lambda toolchain, _: toolchain.root,
        toolchain_of=lambda _rev, _family: lab_toolchain(folder),
        download=no_download,
    )


def results(prober: Prober, case: Case, folder: Path | None = None) -> tuple[str, ...] | Untestable:
    return prober.reference_results(case, lab_toolchain(case.source.parent), Reference("1.0.0"), folder=folder)


def running(lab: Laboratory) -> Case:
    return replace(lab.case(), run=RunSpec())


def test_a_known_result_is_not_compared_again(lab: Laboratory) -> None:
    """The program of this release overlooks NaN, so that a right result is saved and compared a second time."""
    lab.plan(COMPILES)
    case = replace(lab.case(), run=RunSpec(expected=(f"@{lab.folder / 'result.npy'}",)))
    first = lab.prober.probe(case, lab.toolchain)
    assert isinstance(first.outcome, Compiled)
    runs = (lab.folder / "program-runs").read_text()
    assert len(runs.splitlines()) == 3
    known = prober(lab.folder).probe(case, lab.toolchain)
    assert (known.cached, known.outcome) == (True, first.outcome)
    assert (lab.folder / "program-runs").read_text() == runs


def test_two_that_need_a_reference_compute_it_once(lab: Laboratory) -> None:
    lab.plan(WAITS_AND_COMPILES, COMPILES)
    os.mkfifo(lab.folder / "gate")
    case = running(lab)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(results, lab.prober, case)
        with (lab.folder / "gate").open("wb"):  # waits until the first one compiles
            second = pool.submit(results, prober(lab.folder), case)
        assert first.result() == second.result()
    assert len(lab.runs) == 1


@pytest.mark.parametrize("checked", [False, True])
def test_a_reference_that_does_not_compile_is_remembered(lab: Laboratory, checked: bool) -> None:
    folder = lab.folder / "kept" if checked else None
    lab.plan(FAILS)
    first = results(lab.prober, running(lab), folder)
    assert isinstance(first, Untestable)
    assert results(prober(lab.folder), running(lab), folder) == first
    assert len(lab.runs) == 1


@pytest.mark.parametrize("step", ["exit 1", "kill -SEGV $$"])
def test_a_reference_that_does_not_run_is_remembered(lab: Laboratory, step: str) -> None:
    lab.plan(COMPILES)
    program(lab.folder, step)
    first = results(lab.prober, running(lab))
    assert isinstance(first, Untestable)
    assert results(prober(lab.folder), running(lab)) == first
    assert len(lab.runs) == 1


def test_results_that_depend_on_unwritten_memory_are_remembered(lab: Laboratory) -> None:
    np.save(lab.folder / "other.npy", np.zeros(2, dtype="f4"))
    program(lab.folder, f'[ -n "$MALLOC_PERTURB_" ] && mv "$here/other.npy" "$here/result.npy"\n{RUNS}')
    lab.plan(COMPILES)
    first = results(lab.prober, running(lab), lab.folder / "kept")
    assert isinstance(first, Untestable)
    assert results(prober(lab.folder), running(lab), lab.folder / "kept") == first
    assert len(lab.runs) == 1


def test_a_reference_that_reaches_its_time_limit_is_tried_again(lab: Laboratory) -> None:
    lab.plan(HANGS, COMPILES)
    case = replace(running(lab), limits=replace(lab.case().limits, timeout=1.0))
    assert isinstance(results(lab.prober, case), Untestable)
    assert not isinstance(results(prober(lab.folder), case), Untestable)


def test_results_without_their_list_of_files_are_not_intact(tmp_path: Path) -> None:
    (tmp_path / "0.npy").write_bytes(b"result")
    keep_results([tmp_path / "0.npy"], tmp_path / "kept")
    assert intact_results(tmp_path / "kept") == [tmp_path / "kept" / "0.npy"]
    (tmp_path / "kept" / "sha256.txt").write_bytes(b"")
    assert intact_results(tmp_path / "kept") is None
