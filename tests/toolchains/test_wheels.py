from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.git_history.history import History
from tests.toolchains.loopback import LoopbackIndex, make_wheel, serve
from triage.compilers.iree.adapter import Iree
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.content import Address
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.toolchains.home import Home, Workspace
from triage.toolchains.install import Package
from triage.toolchains.registry import ToolchainRegistry
from triage.toolchains.sources import Source, wheel_builds

NAME = "iree-base-compiler"
PROGRAM = "iree/compiler/_mlir_libs/iree-compile"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LoopbackIndex]:
    """Nightlies of four days on a page of links, among files of other projects."""
    folder = tmp_path / "web"
    (folder / "wheels").mkdir(parents=True)
    for day in ("20250601", "20250602", "20250603", "20250604"):
        make_wheel(
            folder / "wheels", f"3.5.0rc{day}", payload=f"\x7fELF {day}".encode()
        )
    with serve(folder) as index:
        publish(folder)
        yield index


def publish(folder: Path) -> None:
    names = [path.name for path in sorted((folder / "wheels").glob("*.whl"))]
    names += ["iree-dist-3.5.0-linux.tar.xz"]
    names += ["iree_base_compiler-3.5.0rc20250601-cp311-cp311-win_amd64.whl"]
    links = "\n".join(f"<a href=wheels/{name}>{name}</a><br>" for name in names)
    (folder / "links.html").write_text(
        f"<!DOCTYPE html><html><body>{links}</body></html>"
    )


@pytest.fixture
def timeline(history: History) -> Timeline:
    """A commit at noon of each day from May 31 on; the nightlies of June 2 and 3 are
    the same commit, that of June 1 comes from a branch, that of June 4 has no tag.
    """
    for day in (31, 1, 2, 3, 4):
        month = 5 if day == 31 else 6
        history.commit(f"day {day}", date=f"2025-{month:02}-{day:02}T12:00:00+00:00")
    history.git("tag", "iree-3.5.0rc20250602", "HEAD~3")
    history.git("tag", "iree-3.5.0rc20250603", "HEAD~3")
    history.git("switch", "--quiet", "--create", "release", "HEAD~4")
    history.commit("picked")
    history.git("tag", "iree-3.5.0rc20250601")
    history.git("switch", "--quiet", "main")
    return Timeline(Repository(history.path))


@pytest.fixture
def nightlies(workspace: Workspace, server: LoopbackIndex) -> Source:
    package = Package(
        workspace, NAME, address=Address(page(server)), is_page=True, nightly=True
    )
    return partial(wheel_builds, package, ["iree-{version}"])


def page(server: LoopbackIndex) -> str:
    return server.url.replace("/simple/", "/links.html")


def test_nightlies_lie_where_their_tags_say(
    nightlies: Source, timeline: Timeline
) -> None:
    every = nightlies(timeline, range(5))
    assert [(one.revision.name[-2:], one.index) for one in every] == [
        ("02", 1),
        ("03", 1),
    ]
    assert every[0].revision.commit == timeline.commits[1].sha
    assert [one.revision.date for one in every] == [f"2025-06-0{day}" for day in (2, 3)]
    assert every[0].revision.subject == "day 1"
    assert nightlies(timeline, range(2, 5)) == []


@pytest.fixture
def registry(
    server: LoopbackIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ToolchainRegistry:
    project = tmp_path / "project"
    project.mkdir()
    (project / "triage.yaml").write_text(
        "name: iree\ncompiler: iree\ndistribution: iree-base-compiler\n"
        f"nightlies: {{find-links: '{page(server)}', tags: 'iree-{{version}}'}}\n"
    )
    monkeypatch.chdir(project)
    return ToolchainRegistry(Home(tmp_path / "home"), {"iree": Iree()})


@pytest.mark.parametrize("text", ["nightly:2025-06-03", "iree:nightly:2025-06-03"])
def test_a_nightly_is_found_by_its_day_and_installed(
    registry: ToolchainRegistry, text: str
) -> None:
    ref = registry.resolve(text, "iree")
    assert (ref.revision.name, ref.revision.date) == ("3.5.0rc20250603", "2025-06-03")
    with pytest.raises(EnvironmentFailure):  # it is not a compiler
        registry.obtain(ref)
    [program] = registry.home.path.glob(f"toolchains/*/{PROGRAM}")
    assert program.read_bytes() == b"\x7fELF 20250603"
    assert registry.resolve("3.5.0rc20250603", "iree").is_nightly


def test_a_nightly_has_its_own_runtime(
    nightlies: Source, timeline: Timeline, server: LoopbackIndex
) -> None:
    make_wheel(
        server.folder / "wheels", "3.5.0rc20250602", distribution="iree-base-runtime"
    )
    publish(server.folder)
    first, last = nightlies(timeline, range(5))
    assert first.obtain("iree-base-runtime").name.startswith(
        "iree-base-runtime-3.5.0rc20250602-"
    )
    with pytest.raises(Unobtainable, match=r"no iree-base-runtime 3\.5\.0rc20250603"):
        last.obtain("iree-base-runtime")
