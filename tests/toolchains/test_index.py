from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.toolchains.loopback import LoopbackIndex, make_wheel
from triage.compilers.iree.adapter import Iree
from triage.model.errors import BadInput, EnvironmentFailure
from triage.toolchains.home import Home, Workspace
from triage.toolchains.index import index_url
from triage.toolchains.install import Package
from triage.toolchains.registry import ToolchainRegistry

HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"


@pytest.fixture
def registry(loopback: LoopbackIndex, home: Path) -> ToolchainRegistry:
    home.mkdir()
    return ToolchainRegistry(Home(home), {"iree": Iree()})


def name_of(registry: ToolchainRegistry, text: str) -> str:
    return registry.resolve(text, "iree").revision.name


def test_names_of_revisions(registry: ToolchainRegistry) -> None:
    texts = ["latest", "previous", "iree:1.1.0", "v1.1", "1.11.0rc20260101"]
    names = ["1.10.0", "1.1.0", "1.1.0", "1.1.0", "1.11.0rc20260101"]
    assert [name_of(registry, text) for text in texts] == names
    refs = registry.between("iree", "1.1.0", "latest")
    assert [ref.revision.name for ref in refs] == ["1.1.0", "1.10.0"]


def test_a_day_names_the_newest_release_of_that_time(
    loopback: LoopbackIndex, registry: ToolchainRegistry
) -> None:
    name = Iree.distribution
    loopback.publish_dated(name, {"1.1.0": "2025-03-27", "1.10.0": "2025-04-27"})
    days = ["2025-03-27", "2025-04-26", "2025-04-27", "2026-01-01"]
    versions = ["1.1.0", "1.1.0", "1.10.0", "1.10.0"]
    assert [name_of(registry, day) for day in days] == versions
    with pytest.raises(EnvironmentFailure, match="2025-03-26"):
        registry.resolve("2025-03-26", "iree")
    with pytest.raises(BadInput, match="not a revision"):
        registry.resolve("2025-02-30", "iree")


@pytest.mark.parametrize("text", ["banana", "", "path:", "../x", "3.x"])
def test_a_wrong_revision_gets_the_valid_forms(
    registry: ToolchainRegistry, text: str
) -> None:
    with pytest.raises(BadInput, match=r"is not a revision: write `3\.13\.0`"):
        registry.resolve(text, "iree")


def test_wheels_of_other_platforms_are_not_offered(
    loopback: LoopbackIndex, tmp_path: Path
) -> None:
    for tag in (
        "cp311-cp311-win_amd64",
        "cp311-cp311-macosx_11_0_universal2",
        f"{HERE}-{HERE}t-manylinux_2_28_x86_64",
    ):
        make_wheel(loopback.folder, "2.0.0", tag=tag)
    loopback.publish()
    package = Package(Workspace(Home(tmp_path / "home")), "iree-base-compiler")
    assert "2.0.0" not in [release.version for release in package.listed]


def test_settings_that_name_the_index(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variables = [
        "PIP_INDEX_URL",
        "UV_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "TRIAGE_INDEX_URL",
    ]
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    pip = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(pip))
    pip.write_text("[global]\nindex-url = http://me:a%20b@one.example/simple\n")
    assert index_url().full == "http://me:a%20b@one.example/simple"
    pip.write_text("index-url\n")
    with pytest.raises(BadInput, match=r"pip\.conf"):
        index_url()
    for name in variables:
        monkeypatch.setenv(name, f"http://{name.lower()}.example")
        assert index_url() == f"http://{name.lower()}.example"
