"""Programs of nightlies are run and measured with the runtime that is published beside each compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bisect.small_compiler import Fate, begin, compile_commit, runtime_program, runtime_wheel, wheel_of
from tests.conftest import Triage
from tests.real.answers import json_answer
from tests.toolchains.loopback import serve

CULPRIT = 2  # the first commit whose programs for a heavy input are much larger, and take longer
WITHOUT_RUNTIME = 3


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a nightly of each of four days, two with the compiler before a change and two with the one after it."""
    web, made = tmp_path_factory.mktemp("web"), tmp_path_factory.mktemp("made")
    small = begin(made / "repo", [Fate.SOUND] * 3, CULPRIT)
    programs = [compile_commit(small, sha, made / sha) for sha in (small.shas[0], small.sha)]
    runtime = runtime_program(made)
    for number in range(4):
        version = f"9.9.9rc2026010{number + 1}"
        program = programs[number >= CULPRIT]
        assert program is not None
        wheels = [wheel_of(program, version)]
        wheels += [runtime_wheel(runtime, version)] if number != WITHOUT_RUNTIME else []
        for wheel in wheels:
            wheel.rename(web / wheel.name)
    links = "".join(f"<a href={path.name}>{path.name}</a><br>" for path in sorted(web.iterdir()))
    (web / "links.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return web


@pytest.fixture
def recipe(tmp_path: Path, web: Path, triage: Triage) -> Iterator[Path]:
    """A recipe; `triage` runs in a project with that page."""
    (tmp_path / "m.mlir").write_text("narrow heavy\n")
    (tmp_path / "heavy.yaml").write_text(
        "name: heavy\ninput: m.mlir\ntarget: {backend: llvm-cpu}\n"
        "run: {function: main}\nbench: [{function: main, inputs: [4xf32]}]\n"
    )
    with serve(web) as server:
        page = server.url.replace("/simple/", "/links.html")
        (tmp_path / "work" / "triage.yaml").write_text(
            f"name: small\ncompiler: iree\ndistribution: iree-base-compiler\nnightlies: {{find-links: '{page}'}}\n"
        )
        yield tmp_path / "heavy.yaml"


def nightly(number: int) -> str:
    return f"nightly:2026-01-0{number + 1}"


def test_a_nightly_runs_with_its_own_runtime(home: Path, triage: Triage, recipe: Path) -> None:
    """The second one is named by its version, as reports name it."""
    revs = ("-t", nightly(0), "-t", "9.9.9rc20260103", "-t", nightly(WITHOUT_RUNTIME))
    results = json_answer(triage, "run", recipe, *revs, code=4)["results"]
    assert [entry["status"] for entry in results] == ["passed", "passed", "untestable"]
    assert "iree-base-runtime 9.9.9rc20260104" in results[-1]["reason"]
    installed = {path.name.rpartition("-")[0] for path in (home / "toolchains").glob("iree-base-runtime-*")}
    assert installed == {"iree-base-runtime-9.9.9rc20260101", "iree-base-runtime-9.9.9rc20260103"}
