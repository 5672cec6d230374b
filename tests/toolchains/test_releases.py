"""Releases and nightlies: how revisions name them, and how they are installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.programs import kill_when
from tests.toolchains.loopback import (
    NAME,
    PROGRAM,
    LoopbackIndex,
    make_wheel,
    serve,
)
from triage.compilers.base import Environment
from triage.compilers.interpreters import uv_program
from triage.compilers.iree.adapter import Iree
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.content import Address
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.toolchains.home import (
    Progress,
    Workspace,
    prune_home,
    stored_toolchains,
)
from triage.toolchains.index import index_url
from triage.toolchains.install import Package
from triage.toolchains.registry import ToolchainRegistry
from triage.toolchains.sources import wheel_builds

HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"


@pytest.fixture
def registry(loopback: LoopbackIndex, workspace: Workspace) -> ToolchainRegistry:
    workspace.home.path.mkdir()
    return ToolchainRegistry(workspace, {"iree": Iree()})


def name_of(registry: ToolchainRegistry, text: str) -> str:
    return registry.resolve(text, "iree").revision.name


def test_names_of_revisions(registry: ToolchainRegistry) -> None:
    texts = ["latest", "previous", "iree:1.1.0", "v1.1", "1.11.0rc20260101"]
    names = ["1.10.0", "1.1.0", "1.1.0", "1.1.0", "1.11.0rc20260101"]
    assert [name_of(registry, text) for text in texts] == names
    refs = registry.between("iree", "1.1.0", "latest")
    assert [ref.revision.name for ref in refs] == ["1.1.0", "1.10.0"]


def test_an_index_may_have_no_release(
    loopback: LoopbackIndex, registry: ToolchainRegistry
) -> None:
    loopback.publish_dated(NAME, {})
    with pytest.raises(EnvironmentFailure):
        registry.between("iree", None, None)


def test_a_day_names_the_newest_release_of_that_time(
    loopback: LoopbackIndex, registry: ToolchainRegistry
) -> None:
    loopback.publish_dated(NAME, {"1.1.0": "2025-03-27", "1.10.0": "2025-04-27"})
    days = ["2025-03-27", "2025-04-26", "2025-04-27", "2026-01-01"]
    versions = ["1.1.0", "1.1.0", "1.10.0", "1.10.0"]
    assert [name_of(registry, day) for day in days] == versions
    with pytest.raises(EnvironmentFailure, match="2025-03-26"):
        registry.resolve("2025-03-26", "iree")


def test_settings_that_name_the_index(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variables = ["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"]
    variables.append("TRIAGE_INDEX_URL")  # the strongest
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


def put(workspace: Workspace, version: str) -> Path:
    """Install a release."""
    package = Package(workspace, NAME)
    [release] = [release for release in package.listed if release.version == version]
    return package.install(release)


def test_wheels_of_other_platforms_are_not_offered(
    loopback: LoopbackIndex, workspace: Workspace
) -> None:
    for tag in (
        "cp311-cp311-win_amd64",
        "cp311-cp311-macosx_11_0_universal2",
        f"{HERE}-{HERE}t-manylinux_2_28_x86_64",
    ):
        make_wheel(loopback.folder, "2.0.0", tag=tag)
    loopback.publish()
    listed = Package(workspace, NAME).listed
    assert "2.0.0" not in [release.version for release in listed]


def test_installed_is_the_newest_release_without_a_compiler_next_to_the_program(
    registry: ToolchainRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(workspace, "1.0.0")
    put(workspace, "1.1.0")
    monkeypatch.setattr("triage.toolchains.registry.installs_of", lambda *_: ())
    assert name_of(registry, "installed") == "1.1.0"


def test_a_range_of_releases_asks_a_missing_index_once(
    registry: ToolchainRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(workspace, "1.0.0")
    put(workspace, "1.1.0")
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    notes: list[str] = []
    monkeypatch.setattr(Progress, "note", lambda _, text: notes.append(text))
    refs = registry.between("iree", None, None)
    assert [ref.revision.name for ref in refs] == ["1.0.0", "1.1.0"]
    assert len(notes) == 1


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("damage", [PROGRAM, "toolchain.json"])
def test_a_damaged_install_is_installed_again(
    workspace: Workspace, damage: str
) -> None:
    os.truncate(put(workspace, "1.1.0") / damage, 3)
    program = put(workspace, "1.1.0") / PROGRAM
    assert program.read_bytes() == b"\x7fELF compiler"


def test_many_at_once_install_each_once(
    loopback: LoopbackIndex, workspace: Workspace
) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(partial(put, workspace), ["1.10.0"] * 8)}) == 1
    wheel = "1.10.0-py3-none-any.whl"
    downloads = [path for path in loopback.requests if path.endswith(wheel)]
    assert 1 <= len(downloads) <= 3  # one install may ask for ranges first


def test_a_killed_install_is_started_again(
    loopback: LoopbackIndex, workspace: Workspace
) -> None:
    payload = os.urandom(30 << 20)
    make_wheel(loopback.folder, "1.2.0", payload=payload)
    loopback.publish()

    def leftovers() -> list[Path]:
        return [*filter(Path.is_dir, workspace.home.toolchains.glob(".*"))]

    install = "from triage.cli import main; main()", "toolchains", "install", "1.2.0"
    kill_when(leftovers, *install)
    assert (put(workspace, "1.2.0") / PROGRAM).read_bytes() == payload
    assert not leftovers()


@pytest.mark.usefixtures("loopback")
def test_prune_removes_leftovers_and_what_was_not_used_lately(
    workspace: Workspace,
) -> None:
    home = workspace.home
    folders = [put(workspace, version) for version in ("1.0.0", "1.1.0")]
    for folder in folders:
        os.utime(folder, (0, 0))
    put(workspace, "1.1.0")  # uses it
    (home.toolchains / ".iree-1.1.0" / "cache").mkdir(parents=True)
    (home.toolchains / "iree-1.1.0").mkdir()  # both were left by a killed install
    size = max(toolchain.bytes for toolchain in stored_toolchains(home))
    removed, left = prune_home(home, size)
    assert len(removed) == 3
    assert 0 < left <= size
    assert [stored.folder for stored in stored_toolchains(home)] == folders[1:]


@pytest.mark.parametrize(
    ("days", "taken"),
    [
        ({"1.0": "2024-01-01", "1.1": "2024-03-03", "2.0": "2025-01-01"}, "1.1"),
        ({"1.0": None, "1.1": None, "2.0": None}, "2.0"),  # an index that does not say
        # nothing is left of that day
        ({"1.0": "2025-01-01", "1.1": "2025-01-01", "2.0": "2025-01-01"}, "2.0"),
    ],
)
def test_an_environment_has_the_dependencies_of_its_day(
    loopback: LoopbackIndex,
    workspace: Workspace,
    days: dict[str, str | None],
    taken: str,
) -> None:
    folder, name = loopback.folder, "some-compiler"
    make_wheel(folder, "3.0", distribution=name, requires="its-runtime>=1")
    for version in days:
        make_wheel(folder, version, distribution="its-runtime")
    loopback.publish_dated(name, {"3.0": "2024-03-02"})
    loopback.publish_dated("its-runtime", days)
    compiler = Package(workspace, name, Environment())
    [release] = compiler.listed
    [runtime] = compiler.install(release).glob("lib/*/site-packages/its_runtime-*")
    assert runtime.name == f"its_runtime-{taken}.dist-info"
    assert compiler.installed() == [release]
    assert replace(compiler, distribution="other-compiler").installed() == []


# Nightlies


@pytest.fixture
def nightlies(tmp_path: Path) -> Iterator[LoopbackIndex]:
    """Nightlies of four days on a page of links, among files of other projects."""
    wheels = tmp_path / "web" / "wheels"
    wheels.mkdir(parents=True)
    for day in ("20250601", "20250602", "20250603", "20250604"):
        make_wheel(wheels, f"3.5.0rc{day}", payload=day.encode())
    make_wheel(wheels, "3.5.0rc20250601", tag="cp311-cp311-win_amd64")
    (wheels / "iree-dist-3.5.0-linux.tar.xz").touch()
    with serve(tmp_path / "web") as index:
        yield index


def test_nightlies_lie_where_their_tags_say_and_have_their_own_runtime(
    nightlies: LoopbackIndex, workspace: Workspace, history: History
) -> None:
    """Those of June 2 and 3 are the same commit, that of June 1 comes from a branch,
    that of June 4 has no tag.
    """
    for day in ("05-31", "06-01", "06-02", "06-03", "06-04"):
        history.commit(f"day {day}", date=f"2025-{day}T12:00:00+00:00")
    history.git("tag", "iree-3.5.0rc20250602", "HEAD~3")
    history.git("tag", "iree-3.5.0rc20250603", "HEAD~3")
    history.git("switch", "--quiet", "--create", "release", "HEAD~4")
    history.commit("picked")
    history.git("tag", "iree-3.5.0rc20250601")
    history.git("switch", "--quiet", "main")
    timeline = Timeline(Repository(history.path))
    make_wheel(
        nightlies.folder / "wheels", "3.5.0rc20250602", distribution="iree-base-runtime"
    )
    page = Address(nightlies.publish_links("wheels/*"))
    package = Package(workspace, NAME, address=page, is_page=True, nightly=True)
    builds = partial(wheel_builds, package, ["iree-{version}"], timeline)
    assert builds(range(2, 5)) == []
    first, last = builds(range(5))
    for build, day in ((first, "02"), (last, "03")):
        assert build.revision.name == f"3.5.0rc202506{day}"
        assert build.revision.date == f"2025-06-{day}"
        assert build.revision.subject == "day 06-01"
        assert build.revision.commit == timeline.commits[build.index].sha
        assert build.index == 1
    runtime = first.obtain("iree-base-runtime")
    assert runtime.name.startswith("iree-base-runtime-3.5.0rc20250602-")
    with pytest.raises(Unobtainable, match=r"no iree-base-runtime 3\.5\.0rc20250603"):
        last.obtain("iree-base-runtime")


@pytest.mark.parametrize("text", ["nightly:2025-06-03", "iree:nightly:2025-06-03"])
def test_a_nightly_is_found_by_its_day_and_installed(
    nightlies: LoopbackIndex,
    workspace: Workspace,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    page = nightlies.publish_links("wheels/*")
    (workplace / "triage.yaml").write_text(
        f"name: iree\ncompiler: iree\ndistribution: {NAME}\n"
        f"nightlies: {{find-links: '{page}', tags: 'iree-{{version}}'}}\n"
    )
    monkeypatch.chdir(workplace)
    registry = ToolchainRegistry(workspace, {"iree": Iree()})
    ref = registry.resolve(text, "iree")
    assert (ref.revision.name, ref.revision.date) == ("3.5.0rc20250603", "2025-06-03")
    with pytest.raises(EnvironmentFailure):  # it is not a compiler
        registry.obtain(ref)
    [program] = workspace.home.path.glob(f"toolchains/*/{PROGRAM}")
    assert program.read_bytes() == b"20250603"
    assert registry.resolve("3.5.0rc20250603", "iree").is_nightly


def test_uv_is_found_while_python_reads_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sysconfig._CONFIG_VARS", {})
    assert os.access(uv_program.__wrapped__(), os.X_OK)
