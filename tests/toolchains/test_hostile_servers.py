"""Every answer that no server should give ends a command with exit code 4 and a message that names the server."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.git_history.history import ENV, History
from tests.toolchains.hostile import (
    BROKEN_HTTP,
    BROKEN_PAGES,
    BROKEN_RUNS,
    BROKEN_WHEELS,
    FILE,
    JSON,
    HostileServer,
    http,
    redirect,
    runs,
    serve_hostile,
    wheel,
    workflow_run,
)
from triage.cli.app import app
from triage.model.errors import TriageError
from triage.toolchains.exchange import Head
from triage.toolchains.index import wheels_of
from triage.toolchains.install_cache import installed, is_intact, stored
from triage.toolchains.sources.artifact import ArtifactsPage, RunsPage, WorkflowRuns
from triage.toolchains.web import WebAnswer
from triage.toolchains.workspace import Workspace


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """The index that the program asks."""
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setattr("triage.toolchains.web._BACKOFF", (0.0,))
        yield server


def call(*words: object) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="triage")


def check_failure(done: Result, server: HostileServer) -> None:
    assert done.exit_code == 4, done.output
    assert "Traceback" not in done.output
    assert server.host in done.output


@pytest.mark.parametrize("name", [*BROKEN_HTTP, *BROKEN_PAGES])
def test_a_broken_index_ends_with_exit_4(home: Path, server: HostileServer, name: str) -> None:
    server.answers = {"/": (BROKEN_HTTP | BROKEN_PAGES)[name]}
    check_failure(call("toolchains", "list"), server)


@pytest.mark.parametrize("name", ["deep nesting", "a hash is a path", "a link to nothing", "a redirect to no address"])
def test_a_broken_page_of_nightlies_ends_with_exit_4(
    home: Path, server: HostileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    nightlies = f"nightlies: {{find-links: '{server.url}/links.html'}}"
    (tmp_path / "triage.yaml").write_text(f"name: iree\ncompiler: iree\ndistribution: iree-base-compiler\n{nightlies}\n")
    monkeypatch.chdir(tmp_path)
    server.answers = {"/": (BROKEN_HTTP | BROKEN_PAGES)[name]}
    check_failure(call("toolchains", "info", "nightly:latest"), server)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a repository of three commits, a project whose compilers are artifacts, and a recipe."""
    folder = tmp_path_factory.mktemp("clone")
    with pytest.MonkeyPatch.context() as environment:
        for variable, value in ENV.items():
            environment.setenv(variable, value)
        history = History.begin(folder / "repo")
        for number in range(3):
            history.commit(f"c{number}")
    (folder / "project.yaml").write_text(
        "name: iree\ncompiler: iree\nrepository: https://github.com/iree-org/iree\ndistribution: iree-base-compiler\n"
        "artifacts: {workflow: pkgci.yml, artifact: packages}\n"
    )
    (folder / "case.mlir").write_text("module {}\n")
    (folder / "case.yaml").write_text("name: a\ncompiler: iree\ninput: case.mlir\ntarget: {backend: llvm-cpu}\n")
    return folder


@pytest.mark.parametrize("name", [*BROKEN_RUNS, "a gzip bomb", "a redirect to no address", "a rate limit that ends never"])
def test_a_broken_list_of_runs_ends_with_exit_4(home: Path, server: HostileServer, clone: Path, name: str) -> None:
    server.answers = {"/": (BROKEN_HTTP | BROKEN_RUNS)[name]}
    ends = ["--good", "commit:HEAD~2", "--bad", "commit:HEAD", "--repo", clone / "repo"]
    check_failure(call("bisect", clone / "case.yaml", "--project", clone / "project.yaml", *ends), server)
    assert len(server.paths) <= 501  # pages without end are not read


@pytest.mark.parametrize("name", BROKEN_WHEELS)
def test_a_broken_wheel_ends_with_exit_4_and_leaves_nothing(home: Path, server: HostileServer, name: str) -> None:
    server.answers = {"/simple": server.index(), "/wheel": BROKEN_WHEELS[name]}
    check_failure(call("toolchains", "install", "1.0.0"), server)
    assert not stored(home / "toolchains")
    assert not [path for path in (home / "toolchains").iterdir() if path.is_dir()]


@pytest.mark.parametrize("extra", [{"hashes": {"sha256": "0" * 64}}, {"size": 7}])
def test_a_wheel_that_is_not_the_announced_one_ends_with_exit_4(
    home: Path, server: HostileServer, extra: dict[str, object]
) -> None:
    server.answers = {"/simple": server.index(**extra), "/wheel": http(wheel({}))}
    check_failure(call("toolchains", "install", "1.0.0"), server)
    assert not stored(home / "toolchains")


def test_a_file_name_that_is_a_path_is_not_offered(home: Path, server: HostileServer) -> None:
    name = "iree_base_compiler-1.0.0-py3-none-any.x/../../../../../../tmp/triage-was-here.whl"
    server.answers = {"/simple": server.index(filename=name), "/wheel": http(wheel({}))}
    done = call("toolchains", "install", "1.0.0")
    assert done.exit_code == 4
    assert server.paths == ["/simple/iree-base-compiler/"]


def test_a_broken_index_leaves_the_installed_releases(home: Path, server: HostileServer) -> None:
    program = {"iree/compiler/_mlir_libs/iree-compile": b"\x7fELF"}
    server.answers = {"/simple": server.index(), "/wheel": http(wheel(program))}
    call("toolchains", "install", "1.0.0")
    [toolchain] = stored(home / "toolchains")
    shutil.rmtree(home / "state")
    server.answers = {"/": http(b"null")}
    done = call("toolchains", "list")
    assert done.exit_code == 0, done.output
    assert "1.0.0" in done.stdout
    assert is_intact(toolchain.folder)


def test_a_damaged_manifest_is_installed_again(home: Path, server: HostileServer) -> None:
    server.answers = {"/simple": server.index(), "/wheel": http(wheel({"iree/compiler/_mlir_libs/iree-compile": b"\x7fELF"}))}
    call("toolchains", "install", "1.0.0")
    [toolchain] = stored(home / "toolchains")
    for content in ("null", "[]", "{", '{"files": 7}', '{"files": {}}', '{"files": {"a": null}}', "\xff", "[" * 100_000):
        (toolchain.folder / "toolchain.json").write_text(content, "latin-1")
        assert not is_intact(toolchain.folder)
        assert not installed(home / "toolchains", "iree-base-compiler")
        assert [damaged.intact for damaged in stored(home / "toolchains")] == [False]
    call("toolchains", "install", "1.0.0")
    assert is_intact(toolchain.folder)


@pytest.mark.parametrize("path", ["/simple", "/wheel"])
def test_a_slow_server_ends_with_exit_4(home: Path, server: HostileServer, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("TRIAGE_NETWORK_TIMEOUT", "1s")
    server.answers = {"/simple": server.index(), "/wheel": http(wheel({}))}
    server.answers[path] = server.trickle(http(length=1 << 20))
    check_failure(call("toolchains", "install", "1.0.0"), server)


def test_no_other_host_gets_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    with serve_hostile() as github, serve_hostile() as other:
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        github.answers = {"/repos": redirect("/moved"), "/moved": redirect(f"{other.url}/zip")}
        other.answers = {"/zip": redirect("/file"), "/file": http(b"data")}
        WorkflowRuns(Workspace(tmp_path), "a/b").download(7, tmp_path / "archive.zip", "an artifact")
        assert (tmp_path / "archive.zip").read_bytes() == b"data"
        assert github.tokens == ["Bearer secret"] * 2
        assert other.paths == ["/zip", "/file"]
        assert other.tokens == []


def test_a_password_in_the_address_of_the_index_is_not_printed(
    home: Path, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_INDEX_URL", f"http://user:secret@{server.host}/simple/")
    server.answers = {"/": http(b"null")}
    done = call("toolchains", "list")
    check_failure(done, server)
    assert "secret" not in done.output


VALID_PAGE = {
    "meta": {"api-version": "1.1"},
    "name": "iree-base-compiler",
    "files": [
        FILE | {"size": 7, "upload-time": "2025-01-02T00:00:00Z", "requires-python": ">=3.9", "yanked": False},
        FILE | {"filename": "iree_base_compiler-1.1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "hashes": {"sha256": "0" * 64}},
    ],
}
VALID_RUNS = json.loads(runs(workflow_run(), workflow_run(id=2)).partition(b"\r\n\r\n")[2])
VALID_ARTIFACTS = {
    "total_count": 1,
    "artifacts": [{"id": 1, "name": "packages", "expired": False, "expires_at": "2025-01-02T00:00:00Z"}],
}
SCALARS = st.sampled_from(
    [None, True, -1, 10**30, 1e308, "", "²", "x" * 400, "\x00", "2025-99-99", "../..", [], {}, [None], {"a": 1}]
)


def mutated(value: Any, chooser: random.Random, scalar: Any) -> Any:
    """The value with one part replaced by `scalar`, removed or repeated."""
    if chooser.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return scalar
    if isinstance(value, list):
        at = chooser.randrange(len(value))
        return [*value[:at], *chooser.choice([[], [value[at]] * 2, [mutated(value[at], chooser, scalar)]]), *value[at + 1 :]]
    key = chooser.choice(sorted(value))
    changed = {name: part for name, part in value.items() if name != key}
    return changed if chooser.random() < 0.2 else changed | {key: mutated(value[key], chooser, scalar)}


@given(
    st.sampled_from([VALID_PAGE, VALID_RUNS, VALID_ARTIFACTS]), st.randoms(use_true_random=False), st.lists(SCALARS, max_size=4)
)
@settings(max_examples=150)
def test_changed_answers_are_read_or_refused(content: Any, chooser: random.Random, scalars: list[Any]) -> None:
    for scalar in scalars:
        content = mutated(content, chooser, scalar)
    body = bytearray(json.dumps(content).encode())
    if chooser.random() < 0.3:
        body[chooser.randrange(len(body))] = chooser.randrange(256)
    answer = WebAnswer(Head("http://a.example/simple/", 200, "OK", {"Content-Type": JSON}), bytes(body))
    with suppress(TriageError):
        assert all("/" not in listed.release.wheel for listed in wheels_of(answer, "iree-base-compiler"))
    with suppress(TriageError):
        assert all(run.attempt for run in answer.parse(RunsPage).entries)
    with suppress(TriageError):
        assert all(artifact.is_expired in (True, False) for artifact in answer.parse(ArtifactsPage).entries)
