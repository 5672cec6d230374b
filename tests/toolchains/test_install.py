from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.toolchains.loopback import LoopbackIndex, make_wheel
from triage.compilers.base import Environment, Packaging
from triage.compilers.registry import Families
from triage.toolchains.home import Home, Workspace, prune_home, stored_toolchains
from triage.toolchains.install import PLAIN_WHEEL, Package
from triage.toolchains.registry import ToolchainRegistry

NAME = "iree-base-compiler"


def package_of(
    index: LoopbackIndex,
    tmp_path: Path,
    name: str = NAME,
    packaging: Packaging = PLAIN_WHEEL,
) -> Package:
    workspace = Workspace(Home(tmp_path / "home"))
    return Package(workspace, name, packaging, index.url)


def put(index: LoopbackIndex, version: str, tmp_path: Path) -> Path:
    package = package_of(index, tmp_path)
    [release] = [one for one in package.listed if one.version == version]
    return package.install(release)


def program(folder: Path) -> Path:
    return folder / "iree/compiler/_mlir_libs/iree-compile"


def leftovers(tmp_path: Path) -> list[str]:
    hidden = tmp_path.glob("home/toolchains/.*")
    return [path.name for path in hidden if path.is_dir()]


def test_installed_is_the_newest_release_without_a_compiler_next_to_the_program(
    loopback: LoopbackIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(loopback, "1.0.0", tmp_path)
    put(loopback, "1.1.0", tmp_path)
    monkeypatch.setattr("importlib.metadata.distributions", lambda **_: ())
    registry = ToolchainRegistry(Home(tmp_path / "home"), Families())
    assert registry.resolve("installed", "iree").revision.name == "1.1.0"


@pytest.mark.parametrize(
    "damage", ["iree/compiler/_mlir_libs/iree-compile", "toolchain.json"]
)
def test_a_damaged_install_is_installed_again(
    loopback: LoopbackIndex, tmp_path: Path, damage: str
) -> None:
    folder = put(loopback, "1.1.0", tmp_path)
    os.truncate(folder / damage, 3)
    assert program(put(loopback, "1.1.0", tmp_path)).read_bytes() == b"\x7fELF compiler"


def test_many_at_once_install_each_once(
    loopback: LoopbackIndex, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: put(loopback, "1.10.0", tmp_path), range(8)))
    assert len(folders) == 1
    downloads = [
        path for path in loopback.requests if path.endswith("1.10.0-py3-none-any.whl")
    ]
    assert 1 <= len(downloads) <= 3  # one install may ask for ranges first


def test_a_killed_install_is_started_again(
    loopback: LoopbackIndex, tmp_path: Path
) -> None:
    payload = os.urandom(30 << 20)
    make_wheel(loopback.folder, "1.2.0", payload=payload)
    loopback.publish()
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from tests.toolchains.test_install import put; from tests.toolchains.loopback import LoopbackIndex\n"
        "put(LoopbackIndex(sys.argv[2], Path()), '1.2.0', Path(sys.argv[3]))\n"
    )
    root = str(Path(__file__).parents[2])
    killed = subprocess.Popen(
        [sys.executable, "-c", code, root, loopback.url, str(tmp_path)],
        start_new_session=True,
    )
    while not leftovers(tmp_path):
        assert killed.poll() is None
        time.sleep(0.005)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    folder = put(loopback, "1.2.0", tmp_path)
    assert program(folder).read_bytes() == payload
    assert not leftovers(tmp_path)


def test_prune_removes_the_least_recently_used_first(
    loopback: LoopbackIndex, tmp_path: Path
) -> None:
    versions = ("1.10.0", "1.0.0", "1.1.0")
    oldest, *others = [put(loopback, version, tmp_path) for version in versions]
    for age, folder in enumerate((*reversed(others), oldest)):
        os.utime(folder, (time.time() - 100 * age, time.time() - 100 * age))
    home = Home(tmp_path / "home")
    (home.toolchains / ".iree-1.1.0" / "cache").mkdir(parents=True)
    (home.toolchains / "iree-1.1.0").mkdir()  # both were left by a killed install
    size = max(toolchain.bytes for toolchain in stored_toolchains(home))
    removed, left = prune_home(home, keep=size * 2)
    assert removed[-1].folder == oldest
    assert len(removed) == 3
    assert 0 < left <= size * 2
    assert {each.folder for each in stored_toolchains(home)} == set(others)


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
    loopback: LoopbackIndex, tmp_path: Path, days: dict[str, str | None], taken: str
) -> None:
    make_wheel(
        loopback.folder, "3.0", distribution="some-compiler", requires="its-runtime>=1"
    )
    for version in days:
        make_wheel(loopback.folder, version, distribution="its-runtime")
    loopback.publish_dated("some-compiler", {"3.0": "2024-03-02"})
    loopback.publish_dated("its-runtime", days)
    compiler = package_of(loopback, tmp_path, "some-compiler", Environment())
    [release] = compiler.listed
    folder = compiler.install(release)
    assert compiler.installed() == [release]
    assert replace(compiler, distribution="other-compiler").installed() == []
    assert [path.name for path in folder.glob("lib/*/site-packages/its_runtime-*")] == [
        f"its_runtime-{taken}.dist-info"
    ]
