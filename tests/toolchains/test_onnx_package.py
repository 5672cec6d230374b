"""`onnx` is installed by uv at the first model, once, and only where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.toolchains.loopback import make_wheel, serve
from triage.toolchains import install
from triage.toolchains.home import Home, Workspace


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An index with a package that stands for onnx."""
    folder = tmp_path / "index"
    folder.mkdir()
    make_wheel(
        folder,
        "1.17.0",
        distribution="stands-for-onnx",
        files={"stands_for_onnx.py": b"VALUE = 17\n"},
    )
    monkeypatch.setattr(install, "_ONNX", ("stands-for-onnx",))
    monkeypatch.setattr(install, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with serve(folder) as served:
        served.publish_dated("stands-for-onnx", {"1.17.0": None})
        monkeypatch.setenv("TRIAGE_INDEX_URL", served.url)
        yield


def test_the_package_is_installed_once(
    index: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(Home(tmp_path / "home"))
    folder = install.provide_onnx(workspace)
    assert import_module("stands_for_onnx").VALUE == 17
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    assert install.provide_onnx(workspace) == folder
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(folder)])
    assert install.provide_onnx(workspace) == folder  # as the next run does
