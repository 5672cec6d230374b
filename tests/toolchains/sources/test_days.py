"""`nightly:DAY` without a clone: the project file of the current folder names the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchains.loopback import LoopbackIndex
from tests.toolchains.sources.test_wheels import PROGRAM, page, server  # noqa: F401 - the fixture
from triage.compilers.iree import Iree
from triage.model.errors import EnvironmentFailure
from triage.toolchains.registry import ToolchainRegistry


@pytest.fixture
def registry(server: LoopbackIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolchainRegistry:  # noqa: F811
    project = tmp_path / "project"
    project.mkdir()
    (project / "triage.yaml").write_text(
        "name: iree\ncompiler: iree\ndistribution: iree-base-compiler\n"
        f"nightlies: {{find-links: '{page(server)}', tags: 'iree-{{version}}'}}\n"
    )
    monkeypatch.chdir(project)
    return ToolchainRegistry(tmp_path / "home", {"iree": Iree()})


@pytest.mark.parametrize("text", ["nightly:2025-06-03", "nightly:20250603", "iree:nightly:2025-06-03"])
def test_a_nightly_is_found_by_its_day_and_installed(registry: ToolchainRegistry, text: str) -> None:
    ref = registry.resolve(text, "iree")
    assert (ref.revision.name, ref.revision.date) == ("3.5.0rc20250603", "2025-06-03")
    assert (ref.bring() / PROGRAM).read_bytes() == b"\x7fELF 20250603"


def test_the_latest_nightly(registry: ToolchainRegistry) -> None:
    assert registry.resolve("nightly:latest", "iree").revision.name == "3.5.0rc20250604"


def test_a_day_without_a_nightly_gets_the_nearest_before(registry: ToolchainRegistry) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no nightly of 2025-07-01; .* 2025-06-04"):
        registry.resolve("nightly:2025-07-01", "iree")
