"""The package `onnx`, which only ONNX models and their test data need. uv installs it into the home at the first such case."""

from __future__ import annotations

import sys
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.toolchains.workspace import Workspace

_PACKAGES = ("onnx>=1.17,<2", "protobuf>=4.25")


def provide_onnx(workspace: Workspace) -> Path | None:
    """Make `onnx` importable in this process; return the folder that other processes need in PYTHONPATH.

    None means that it is installed next to this program. Raises EnvironmentFailure if it cannot be installed.
    """
    folder = workspace.home / "python" / f"onnx-{sys.implementation.cache_tag}"
    if str(folder) in sys.path:
        return folder
    if find_spec("onnx") is not None:
        return None
    from triage.toolchains.index import index_url  # slow to import
    from triage.toolchains.install import Uv

    folder.parent.mkdir(parents=True, exist_ok=True)
    with workspace.locked(folder.with_suffix(".lock"), "installing onnx"):
        if not folder.is_dir():
            with TemporaryDirectory(dir=folder.parent) as scratch:
                draft = Path(scratch) / "packages"
                uv = Uv(workspace, draft, Path(scratch), index_url())
                uv.pip("onnx", _PACKAGES, "--python", sys.executable, "--target", str(draft))
                draft.rename(folder)
    sys.path.append(str(folder))
    invalidate_caches()
    return folder
