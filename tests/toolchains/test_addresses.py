"""Passwords and tokens in addresses: what opens an address has them, and nothing that is
printed, stored or logged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Triage
from tests.toolchains.loopback import LoopbackIndex, serve
from triage.execution.engine import open_engine
from triage.execution.judge import NoTask
from triage.model.case import Artifact
from triage.model.content import Address, without_secrets
from triage.toolchains.index import Release

TOKEN = "s3cret"
PARTS = st.text(st.characters(codec="ascii", exclude_characters="@ "), max_size=6).map(
    lambda text: f"{text}{TOKEN}{text}"
)


@given(
    scheme=st.sampled_from(["https", "http", "ssh", "git+ssh", "ftp", "HTTPS"]),
    user=st.one_of(st.none(), PARTS),
    password=st.one_of(st.none(), PARTS),
    host=st.sampled_from(["host", "host:8080", "[::1]:80", "127.0.0.1"]),
    path=st.sampled_from(["", "/", "/simple/", "/@scope/a@1.0/x.whl"]),
    query=st.one_of(st.none(), PARTS),
    fragment=st.one_of(st.none(), PARTS),
    is_escaped=st.booleans(),
)
def test_no_text_of_an_address_has_its_secrets(
    scheme: str,
    user: str | None,
    password: str | None,
    host: str,
    path: str,
    query: str | None,
    fragment: str | None,
    *,
    is_escaped: bool,
) -> None:
    if is_escaped:
        user, password = (word and quote(word, safe="") for word in (user, password))
    else:  # such a password has to be escaped
        user, password = (
            word and re.sub("[/?#]", "", word) for word in (user, password)
        )
    login = ""
    if user is not None or password is not None:
        login = f"{user or 'me'}:{password or ''}@"
    text = f"{scheme}://{login}{host}{path}"
    text += "" if query is None else f"?{query}"
    text += "" if fragment is None else f"#{fragment}"
    address = Address(text)
    assert address.full == Address(address).full == text
    release = Release("a", "1.0", "a.whl", "3.11", None, None, url=address)
    for shown in (
        str(address),
        repr(address),
        f"{address} {address!s:>9}",
        "%s" % address,  # noqa: UP031 - the old way is one more
        json.dumps([address, asdict(release)]),
        repr(release),
        address + "",
    ):
        assert TOKEN not in shown
    if is_escaped or not login:
        assert address == f"{scheme}://{host}{path}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git@github.com:iree-org/iree.git", "github.com:iree-org/iree.git"),
        ("s3cret@host:a/b", "host:a/b"),
        ("/srv/a@b#c/d?e", "/srv/a@b#c/d?e"),
        ("../part", "../part"),
        # of passwords that should have been escaped, all but what looks like a port
        ("https://me:a/b?c#d@s3cret@host/x", "https://host/x"),
        ("https://me:/s3cret/@host/x?s3cret", "https://host/x"),
        ("https://s3cret:", "https://..."),
        ("", ""),
    ],
)
def test_remotes_without_a_scheme(text: str, shown: str) -> None:
    assert (Address(text), Address(text).full) == (shown, text)


def test_addresses_inside_of_a_text() -> None:
    text = "error: 'https://me:s3cret@host/a?k=s3cret' and <http://s3cret@h/> failed"
    shown = without_secrets(text)
    assert shown == "error: 'https://host/a' and <http://h/> failed"


@pytest.fixture
def private(loopback: LoopbackIndex) -> Iterator[LoopbackIndex]:
    with serve(loopback.folder, login=f"me:{TOKEN}") as index:
        yield index


def nothing_has_the_token(home: Path, *texts: str) -> None:
    for text in texts:
        assert TOKEN not in text
    for path in home.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path


COMMANDS = (
    ("toolchains", "list"),
    ("toolchains", "install", "1.1.0"),
    ("toolchains", "install", "7.7.7"),
    ("toolchains", "info", "latest"),
    ("toolchains", "install", "nightly:2025-01-01"),
    ("run", "m.mlir", "-t", "latest"),
    ("doctor",),
)


@pytest.mark.parametrize("kind", ["login", "wrong", "token", "closed", "page", "empty"])
def test_no_command_shows_the_secrets_of_an_index(
    private: LoopbackIndex,
    triage: Triage,
    workplace: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    index = {
        "login": private.url.replace("//", f"//me:{TOKEN}@"),
        "wrong": private.url.replace("//", f"//{TOKEN}:x@"),
        "token": f"{private.url}?token={TOKEN}#{TOKEN}",
        "closed": f"http://me:{TOKEN}@127.0.0.1:9/simple/?token={TOKEN}",
        "page": private.url.replace("//", f"//me:{TOKEN}@").replace("simple", "none"),
        "empty": private.url.replace("//", f"//me:{TOKEN}@") + f"?{TOKEN}",
    }[kind]
    if kind == "empty":
        private.publish_dated("iree-base-compiler", {})
    monkeypatch.setenv("TRIAGE_INDEX_URL", index)
    (workplace / "triage.yaml").write_text(
        "name: iree\ncompiler: iree\ndistribution: iree-base-compiler\n"
        f"nightlies: {{index: '{index}'}}\n"
    )
    (workplace / "m.mlir").write_text("func.func @main() { return }\n")
    for words in COMMANDS:
        for form in ("text", "json"):
            done = triage(*words, "--format", form)
            nothing_has_the_token(home, done.stdout, done.stderr)


@pytest.mark.usefixtures("home")
def test_the_secrets_of_a_files_address_are_used_and_not_shown(
    private: LoopbackIndex, tmp_path: Path
) -> None:
    """A suite names its files by address, as signed ones are."""
    (private.folder / "m.mlir").write_text("module {}\n")
    signed = f"{private.url.replace('simple/', '')}m.mlir?sig={TOKEN}"
    with open_engine(()) as engine:
        allowed = Address(signed.replace("//", f"//me:{TOKEN}@"))
        engine.inputs.obtain([Artifact(tmp_path / "m.mlir", allowed)])
        assert f"/m.mlir?sig={TOKEN}" in private.requests
        for address in (
            signed,
            signed.replace("//", f"//{TOKEN}@"),
            signed.replace("m.mlir", "none.mlir").replace("//", f"//me:{TOKEN}@"),
            f"http://{TOKEN}@127.0.0.1:9/m.mlir?sig={TOKEN}",
        ):
            wanted = Artifact(tmp_path / "other.mlir", Address(address))
            with pytest.raises(NoTask) as refused:
                engine.inputs.obtain([wanted])
            assert "mlir" in refused.value.why.reason
            assert TOKEN not in refused.value.why.reason
