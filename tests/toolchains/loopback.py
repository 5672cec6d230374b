"""A package index on loopback: real HTTP, real wheels, made on the spot."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.loopback_server import serving
from triage.model.content import Address

NAME = "iree-base-compiler"
PROGRAM = "iree/compiler/_mlir_libs/iree-compile"


def wheel(
    files: Mapping[str, bytes],
    version: str = "1.0.0",
    *,
    distribution: str = NAME,
    requires: str = "",
    link: str = "",
) -> bytes:
    """A wheel with these files, and perhaps a link, whatever their paths are."""
    about = f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    if requires:
        metadata += f"Requires-Dist: {requires}\n"
    kind = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:

        def add(path: str, data: bytes, mode: int = 0o100755) -> None:
            info = zipfile.ZipInfo(path)
            info.external_attr = mode << 16
            archive.writestr(info, data)

        for path, data in files.items():
            add(path, data)
        add(f"{about}/METADATA", metadata.encode())
        add(f"{about}/WHEEL", kind)
        add(f"{about}/RECORD", b"")
        if link:
            add("iree/link", link.encode(), 0o120777)
    return sink.getvalue()


def make_wheel(
    folder: Path,
    version: str,
    *,
    payload: bytes = b"\x7fELF compiler",
    files: Mapping[str, bytes] | None = None,
    distribution: str = NAME,
    tag: str = "py3-none-any",
    requires: str = "",
) -> None:
    """Write a wheel with one program in it, or with some files."""
    if files is None:
        files = {PROGRAM if distribution == NAME else f"{distribution}.bin": payload}
    data = wheel(files, version, distribution=distribution, requires=requires)
    name = f"{distribution.replace('-', '_')}-{version}-{tag}.whl"
    (folder / name).write_bytes(data)


@dataclass
class LoopbackIndex:
    """`url` is the simple index; wheels lie in `folder`; `requests` are the paths asked
    for, in order.
    """

    url: Address
    folder: Path
    requests: list[str] = field(default_factory=list)

    def publish(self) -> None:
        """Write the project's page for the wheels that are in the folder now."""
        names = [path.name for path in self.folder.glob("iree_base_compiler-*.whl")]
        versions = sorted({name.split("-")[1] for name in names})
        self.publish_dated(NAME, dict.fromkeys(versions))

    def publish_dated(self, distribution: str, days: Mapping[str, str | None]) -> None:
        """Write a project's page that says for each version's wheels on which day they
        were uploaded; None to say nothing.
        """
        begin = distribution.replace("-", "_")
        files = []
        for version, day in days.items():
            for wheel in self.folder.glob(f"{begin}-{version}-*.whl"):
                digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
                entry = {"filename": wheel.name, "url": f"../../{wheel.name}"}
                date = {"upload-time": f"{day}T12:00:00Z"} if day else {}
                files.append({**entry, "hashes": {"sha256": digest}, **date})
        page = {"meta": {"api-version": "1.1"}, "name": distribution, "files": files}
        path = self.folder / "simple" / distribution / "index.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(page))

    def publish_links(self, pattern: str) -> str:
        """Write a page of links to files that fit a pattern; return its address."""
        files = sorted(self.folder.glob(pattern))
        links = "".join(
            f"<a href={file.relative_to(self.folder)}>{file.name}</a><br>"
            for file in files
        )
        page = f"<!DOCTYPE html><html><body>{links}</body></html>"
        (self.folder / "links.html").write_text(page)
        return self.url.full.replace("/simple/", "/links.html")


@contextmanager
def serve(folder: Path, login: str | None = None) -> Iterator[LoopbackIndex]:
    """Serve `folder` until the block ends. `login`: the `user:password` that each
    request must have.
    """
    requests: list[str] = []
    expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            requests.append(self.path)

        def send_head(self) -> Any:
            if expected in (None, self.headers.get("Authorization")):
                return super().send_head()
            return self.send_error(401)

        def guess_type(self, path: str | os.PathLike[str]) -> str:
            if Path(path).name == "index.html":
                return "application/vnd.pypi.simple.v1+json"
            return super().guess_type(path)

    with serving(partial(Handler, directory=str(folder))) as url:
        yield LoopbackIndex(Address(f"{url}/simple/"), folder, requests)
