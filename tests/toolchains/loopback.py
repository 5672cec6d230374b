"""A package index on loopback: real HTTP, real wheels, made on the spot."""

from __future__ import annotations

import base64
import hashlib
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
from triage.model.address import Address

NAME = "iree-base-compiler"


def make_wheel(
    folder: Path,
    version: str,
    *,
    tag: str = "py3-none-any",
    payload: bytes = b"\x7fELF compiler",
    distribution: str = NAME,
    requires: str | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """A wheel with one program in it, or with some files."""
    name = f"{distribution.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    program = (
        "iree/compiler/_mlir_libs/iree-compile"
        if distribution == NAME
        else f"{distribution}.bin"
    )
    files = {
        **({program: payload} if files is None else files),
        f"{name}.dist-info/METADATA": (
            metadata + (f"Requires-Dist: {requires}\n" if requires else "")
        ).encode(),
        f"{name}.dist-info/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in files.items()
    )
    files[f"{name}.dist-info/RECORD"] = (
        record + f"{name}.dist-info/RECORD,,\n"
    ).encode()
    wheel = folder / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            info = zipfile.ZipInfo(path)
            info.external_attr = (0o100644 if ".dist-info/" in path else 0o100755) << 16
            archive.writestr(info, data)
    return wheel


@dataclass
class LoopbackIndex:
    """`url` is the simple index; wheels lie in `folder`; `requests` are the paths asked
    for, in order.
    """

    url: Address
    folder: Path
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.url = Address(self.url)

    def publish(self) -> None:
        """Write the project's page for the wheels that are in the folder now."""
        page = self.folder / "simple" / "iree-base-compiler" / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        links = []
        for wheel in sorted(self.folder.glob("*.whl")):
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            links.append(
                f'<a href="../../{wheel.name}#sha256={digest}">{wheel.name}</a><br>'
            )
        page.write_text(
            "<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>"
        )

    def publish_dated(self, distribution: str, days: Mapping[str, str | None]) -> None:
        """Write a project's page that says for each version's wheel on which day it was
        uploaded; None to say nothing.
        """
        begin = distribution.replace("-", "_")
        files = []
        for version, day in days.items():
            wheel = next(self.folder.glob(f"{begin}-{version}-*.whl"))
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            entry = {
                "filename": wheel.name,
                "url": f"../../{wheel.name}",
                "hashes": {"sha256": digest},
            }
            files.append(
                {**entry, **({"upload-time": f"{day}T12:00:00Z"} if day else {})}
            )
        page = {
            "meta": {"api-version": "1.1"},
            "name": distribution,
            "versions": list(days),
            "files": files,
        }
        path = self.folder / "simple" / distribution / "index.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(page))


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
            if Path(path).name == "index.html" and Path(path).read_bytes().startswith(
                b"{"
            ):
                return "application/vnd.pypi.simple.v1+json"
            return super().guess_type(path)

    with serving(partial(Handler, directory=str(folder))) as url:
        yield LoopbackIndex(Address(f"{url}/simple/"), folder, requests=requests)
