"""Every answer that no server should give ends a command with exit code 4 and a message
that names the server.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.toolchains.hostile import (
    Answer,
    HostileServer,
    http,
    page,
    serve_hostile,
)
from tests.toolchains.loopback import wheel
from triage.execution.engine import open_engine
from triage.execution.judge import NoTask
from triage.model.case import Artifact
from triage.model.content import Address
from triage.toolchains import index
from triage.toolchains import install as installing

INSTALL = ("toolchains", "install", "1.0.0")
NESTED = b"[" * 100_000 + b"]" * 100_000
BOMB = 80 * gzip.compress(bytes(1 << 20), 1)
FILE = {
    "filename": "iree_base_compiler-1.0.0-py3-none-any.whl",
    "url": "x.whl",
    "hashes": {},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """The index that the program asks."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")  # it waits seconds between them
    monkeypatch.setattr(index, "_SECONDS", 0.3)
    monkeypatch.setattr(index, "_BODY_SECONDS", 1.0)
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        server.answers = {"/simple": server.index(), "/": http(wheel({}))}
        yield server


def redirect(target: str) -> bytes:
    return http(status="302 Found", more=f"Location: {target}\r\n")


def hashed(digest: str) -> bytes:
    return page([FILE | {"hashes": {"sha256": digest}}])


def html(body: bytes) -> bytes:
    return http(body, kind="text/html")


#: Answers to a request for the index or, if the name says so, for the wheel.
BROKEN: dict[str, Answer] = {
    "no HTTP": b"220 ftp.example.org ready\r\n",
    "fewer bytes than announced": http(b"{}", length=700),
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "a gzip bomb": http(BOMB, more="Content-Encoding: gzip\r\n"),
    "a server error": http(NESTED, status="500 \x1b[31mred"),
    "a redirect to a file": redirect("file:///etc/passwd"),
    "a redirect to itself": redirect("/simple"),
    "deep nesting": http(NESTED),
    "not UTF-8": http(b'{"name": "\xff"}'),
    "files are null": page(None),
    "a hash is a path": hashed("/../../../../../../tmp/x"),
    "a hash with an option": hashed("0" * 64 + "\n--index-url http://elsewhere"),
    "wheel: no zip": http(b"not a zip"),
    "wheel: cut off": http(wheel({"a": b"a"})[:-40]),
    "wheel: gone": http(status="410 Gone"),
    "wheel: too long": http(length=1 << 50),
}


def check_failure(triage: Triage, server: HostileServer, home: Path) -> str:
    done = triage(*INSTALL)
    assert done.returncode == 4, done.stderr
    assert server.host in done.stderr
    assert not [path for path in home.glob("toolchains/*") if path.is_dir()]
    return done.stderr


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_ends_with_exit_4_and_leaves_nothing(
    home: Path, server: HostileServer, triage: Triage, name: str
) -> None:
    path = "/wheel" if name.startswith("wheel") else "/simple"
    server.answers[path] = BROKEN[name]
    check_failure(triage, server, home)


def test_a_wheel_that_is_not_the_announced_one_is_refused(
    home: Path, server: HostileServer, triage: Triage
) -> None:
    server.answers["/simple"] = server.index(hashes={"sha256": "0" * 64})
    assert "Hash mismatch" in check_failure(triage, server, home)


@pytest.mark.parametrize("path", ["/simple", "/wheel"])
def test_a_slow_server_ends_with_exit_4(
    home: Path,
    server: HostileServer,
    triage: Triage,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    monkeypatch.setattr(installing, "_TIMEOUT", 1.0)
    server.answers[path] = server.trickle(http(length=1 << 20))
    check_failure(triage, server, home)


#: Pages that would keep a reader busy for minutes or hours.
ENDLESS = {
    "tags that never end": html(b"<a " * 200_000),
    "links inside each other": html(b"<a href=x>y" * 60_000),
    "ends of other tags": html(b"<b>" * 100_000 + b"</c>" * 100_000),
    "a long name in HTML": html(b"<a href=x>" + b"a-" * 20_000 + b".tar.gz</a>"),
    "a long name in JSON": page([FILE | {"filename": "a-" * 20_000 + ".tar.gz"}]),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ENDLESS)
def test_no_page_keeps_its_reader_busy(
    server: HostileServer, triage: Triage, name: str
) -> None:
    server.answers["/simple"] = ENDLESS[name]
    begun = time.monotonic()
    assert triage(*INSTALL).returncode == 4
    assert time.monotonic() - begun < 30


MALICIOUS = {
    "an absolute path": wheel({"/tmp/triage-was-here": b"a"}),
    "a path upwards": wheel({"iree/../../../triage-was-here": b"a"}),
    "a link": wheel({}, link="/etc"),
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_a_malicious_wheel_writes_only_into_its_folder(
    home: Path, server: HostileServer, triage: Triage, name: str
) -> None:
    server.answers["/wheel"] = http(MALICIOUS[name])
    assert triage(*INSTALL).returncode == 4  # it has no compiler
    assert not Path("/tmp/triage-was-here").exists()
    assert not list(home.parent.rglob("triage-was-here"))
    assert not [path for path in home.rglob("*") if path.is_symlink()]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "key, value",
    [
        ("filename", f"{FILE['filename'][:-3]}x/../../../../../../tmp/a.whl"),
        ("url", "http://127.0.0.1:1/a.whl --index-url http://127.0.0.1:2"),
        ("url", f"file:///tmp/{FILE['filename']}"),
    ],
)
def test_a_malicious_name_or_address_is_not_offered(
    server: HostileServer, triage: Triage, key: str, value: str
) -> None:
    server.answers["/simple"] = server.index(**{key: value})
    assert triage(*INSTALL).returncode == 4
    assert server.paths == ["/simple/iree-base-compiler/"]


def test_a_download_that_is_announced_as_too_long_is_not_begun(
    home: Path, server: HostileServer, tmp_path: Path
) -> None:
    server.answers["/weights"] = server.trickle(http(length=1 << 38))
    target = tmp_path / "weights.irpa"
    wanted = Artifact(target, Address(f"{server.url}/weights"))
    with open_engine(()) as engine, pytest.raises(NoTask) as refused:
        engine.inputs.obtain([wanted])
    assert server.host in refused.value.why.reason
    assert "MiB" in refused.value.why.reason
    assert not list(tmp_path.glob("weights*"))
