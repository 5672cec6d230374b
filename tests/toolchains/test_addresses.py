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
from tests.toolchains.loopback import NAME, LoopbackIndex, serve
from triage.execution.engine import open_engine
from triage.execution.judge import NoTask
from triage.model.case import Artifact
from triage.model.content import Address, without_secrets
from triage.toolchains.index import Release

TOKEN = "s3cret"


@given(
    scheme=st.sampled_from(["https", "http", "ssh", "git+ssh", "ftp", "HTTPS"]),
    login=st.sampled_from(["", "{}@", "{}:@", "me:{}@", "{}:{}@"]),
    host=st.sampled_from(["host", "host:8080", "[::1]:80", "127.0.0.1"]),
    path=st.sampled_from(["", "/", "/simple/", "/@scope/a@1.0/x.whl"]),
    rest=st.sampled_from(["", "?{}", "#{}", "?{}#{}"]),
    noise=st.text(st.characters(codec="ascii", exclude_characters="@ "), max_size=6),
    is_escaped=st.booleans(),
)
def test_no_text_of_an_address_has_its_secrets(
    scheme: str,
    login: str,
    host: str,
    path: str,
    rest: str,
    noise: str,
    *,
    is_escaped: bool,
) -> None:
    secret = f"{noise}{TOKEN}{noise}"
    # a password with one of these has to be escaped
    word = quote(secret, safe="") if is_escaped else re.sub("[/?#]", "", secret)
    named = f"{login.format(word, word)}{host}{path}{rest.format(secret, secret)}"
    text = f"{scheme}://{named}"
    address = Address(text)
    assert address.full == Address(address).full == text
    release = Release("a", "1.0", "a.whl", "3.11", None, None, url=address)
    for shown in (
        str(address),
        f"{address} {address!r} {address!s:>9} {release}",
        "%s" % address,  # noqa: UP031 - the old way is one more
        json.dumps([address, asdict(release)]),
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


COMMANDS = """\
toolchains list
toolchains install 1.1.0
toolchains install 7.7.7
toolchains info latest
toolchains install nightly:2025-01-01
run m.mlir -t latest
doctor"""


@pytest.mark.parametrize(
    "address",
    [
        "http://me:s3cret@HOST/simple/",
        "http://s3cret:x@HOST/simple/",
        "http://HOST/simple/?token=s3cret#s3cret",
        "http://me:s3cret@127.0.0.1:9/simple/?token=s3cret",
        "http://me:s3cret@HOST/none/",
        "http://me:s3cret@HOST/simple/?s3cret=without-releases",
    ],
)
def test_no_command_shows_the_secrets_of_an_index(
    private: LoopbackIndex,
    triage: Triage,
    workplace: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
) -> None:
    index = address.replace("HOST", private.url.split("/")[2])
    if "without-releases" in index:
        private.publish_dated(NAME, {})
    monkeypatch.setenv("TRIAGE_INDEX_URL", index)
    (workplace / "triage.yaml").write_text(
        f"name: iree\ncompiler: iree\ndistribution: {NAME}\nnightlies: {{index: '{index}'}}\n"
    )
    (workplace / "m.mlir").write_text("func.func @main() { return }\n")
    for line in COMMANDS.splitlines():
        for form in ("text", "json"):
            done = triage(*line.split(), "--format", form)
            assert TOKEN not in done.stdout + done.stderr
    for path in filter(Path.is_file, home.rglob("*")):
        assert TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.usefixtures("home")
def test_the_secrets_of_a_files_address_are_used_and_not_shown(
    private: LoopbackIndex, tmp_path: Path
) -> None:
    """A suite names its files by address, as signed ones are."""
    (private.folder / "m.mlir").write_text("module {}\n")
    host = private.url.split("/")[2]
    with open_engine(()) as engine:

        def obtain(name: str, address: str) -> None:
            wanted = Artifact(tmp_path / name, Address(f"http://{address}"))
            engine.inputs.obtain([wanted])

        obtain("m.mlir", f"me:{TOKEN}@{host}/m.mlir?sig={TOKEN}")
        assert f"/m.mlir?sig={TOKEN}" in private.requests
        for address in (
            f"{host}/m.mlir?sig={TOKEN}",
            f"{TOKEN}@{host}/m.mlir?sig={TOKEN}",
            f"me:{TOKEN}@{host}/none.mlir?sig={TOKEN}",
            f"{TOKEN}@127.0.0.1:9/m.mlir?sig={TOKEN}",
        ):
            with pytest.raises(NoTask) as refused:
                obtain("other.mlir", address)
            assert "mlir" in refused.value.why.reason
            assert TOKEN not in refused.value.why.reason
