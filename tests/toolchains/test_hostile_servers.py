"""Every answer that no server should give ends a command with exit code 4 and a message
that names the server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.toolchains.hostile import (
    BROKEN_HTTP,
    BROKEN_PAGES,
    BROKEN_WHEELS,
    ENDLESS_PAGES,
    MALICIOUS_WHEELS,
    Answer,
    HostileServer,
    http,
    serve_hostile,
)
from tests.toolchains.loopback import wheel
from triage.cli.app import app
from triage.execution.engine import open_engine
from triage.execution.judge import NoTask
from triage.model.case import Artifact
from triage.model.content import Address
from triage.toolchains import index
from triage.toolchains import install as installing


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """The index that the program asks."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")  # it waits seconds between them
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        yield server


def install() -> Result:
    """Run the program in this process."""
    words = ["toolchains", "install", "1.0.0"]
    return CliRunner().invoke(app, words, prog_name="triage")


def check_failure(server: HostileServer, home: Path) -> str:
    done = install()
    assert done.exit_code == 4, done.output
    assert "Traceback" not in done.output
    assert server.host in done.output
    assert not [path for path in home.glob("toolchains/*") if path.is_dir()]
    return done.output


BROKEN = [
    *({"/simple": answer} for answer in (BROKEN_HTTP | BROKEN_PAGES).values()),
    *({"/wheel": answer} for answer in BROKEN_WHEELS.values()),
]
NAMES = [*BROKEN_HTTP, *BROKEN_PAGES, *BROKEN_WHEELS]


@pytest.mark.parametrize("answers", BROKEN, ids=NAMES)
def test_a_broken_answer_ends_with_exit_4_and_leaves_nothing(
    home: Path, server: HostileServer, answers: dict[str, Answer]
) -> None:
    server.answers = {"/simple": server.index(), "/": http(wheel({})), **answers}
    check_failure(server, home)


def test_a_wheel_that_is_not_the_announced_one_is_refused(
    home: Path, server: HostileServer
) -> None:
    page = server.index(hashes={"sha256": "0" * 64})
    server.answers = {"/simple": page, "/wheel": http(wheel({}))}
    assert "Hash mismatch" in check_failure(server, home)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ENDLESS_PAGES)
def test_no_page_keeps_its_reader_busy(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(index, "_SECONDS", 0.3)
    server.answers = {"/": ENDLESS_PAGES[name]}
    begun = time.monotonic()
    assert install().exit_code == 4
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("name", MALICIOUS_WHEELS)
def test_a_malicious_wheel_writes_only_into_its_folder(
    home: Path, server: HostileServer, name: str
) -> None:
    server.answers = {"/simple": server.index(), "/wheel": MALICIOUS_WHEELS[name]}
    assert install().exit_code == 4  # it has no compiler
    assert not Path("/tmp/triage-was-here").exists()
    assert not list(home.parent.rglob("triage-was-here"))
    assert not [path for path in home.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    "extra",
    [
        {
            "filename": "iree_base_compiler-1.0.0-py3-none-any.x/../../../../../../tmp/triage-was-here.whl"
        },
        {"url": "http://127.0.0.1:1/a.whl --index-url http://127.0.0.1:2"},
        {"url": "file:///tmp/iree_base_compiler-1.0.0-py3-none-any.whl"},
    ],
)
def test_a_malicious_name_or_address_is_not_offered(
    home: Path, server: HostileServer, extra: dict[str, object]
) -> None:
    server.answers = {"/simple": server.index(**extra), "/wheel": http(wheel({}))}
    assert install().exit_code == 4
    assert server.paths == ["/simple/iree-base-compiler/"]


@pytest.mark.parametrize("path", ["/simple", "/wheel"])
def test_a_slow_server_ends_with_exit_4(
    home: Path, server: HostileServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(index, "_BODY_SECONDS", 1.0)
    monkeypatch.setattr(installing, "_TIMEOUT", 1.0)
    server.answers = {"/simple": server.index(), "/wheel": http(wheel({}))}
    server.answers[path] = server.trickle(http(length=1 << 20))
    check_failure(server, home)


def test_a_download_that_is_announced_as_too_long_is_not_begun(
    home: Path, tmp_path: Path
) -> None:
    with serve_hostile() as server:
        server.answers = {"/weights": server.trickle(http(length=1 << 38))}
        with open_engine(()) as engine:
            address = Address(f"{server.url}/weights")
            with pytest.raises(NoTask) as refused:
                engine.inputs.obtain([Artifact(tmp_path / "weights.irpa", address)])
    assert server.host in refused.value.why.reason
    assert "MiB" in refused.value.why.reason
    assert not list(tmp_path.glob("weights*"))
