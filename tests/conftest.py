"""Homes for tests: an empty one each, or one that shares its toolchains so that
releases are downloaded once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from hypothesis import HealthCheck, settings
from typer.testing import CliRunner

from tests.browser import CHROMIUM, launched
from tests.fake_releases import fake_releases
from tests.programs import TRIAGE
from tests.unsealed_logs.sitecustomize import let_fakes_write
from triage.cli.app import app
from triage.processes import sealing

# How long an example takes says nothing on a machine that does other work.
settings.register_profile(
    "triage", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("triage")

# What a shell starts in the background inherits a deaf ear for Ctrl-C, which the tests
# send to what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
UNSEALED_LOGS = Path(__file__).parent / "unsealed_logs"
STRICTLY = sealing._restrict_files
# The first ones are set by git hooks and `git bisect run`, but tests make repositories
# of their own.
for _name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "COLUMNS"):
    os.environ.pop(_name, None)
# The python3 of a version manager is a script that takes longer than what it starts.
_PYTHONS = Path(os.path.realpath(sys.executable)).parent
os.environ["PATH"] = f"{_PYTHONS}{os.pathsep}{os.environ['PATH']}"
Triage = Callable[..., subprocess.CompletedProcess[str]]
Asked = Callable[..., Any]


@pytest.fixture(scope="session", autouse=True)
def logs_of_fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the compilers that tests invent write their logs, also those that processes
    of tests start.
    """
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "_restrict_files", sealing._restrict_files)
        let_fakes_write(sealing, folder)
        patch.setenv("TRIAGE_TEST_LOGS", str(folder))
        patch.setenv("PYTHONPATH", str(UNSEALED_LOGS), prepend=os.pathsep)
        yield


@pytest.fixture
def strictly_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seal as users' programs are sealed."""
    monkeypatch.setattr(sealing, "_restrict_files", STRICTLY)
    monkeypatch.delenv("TRIAGE_TEST_LOGS")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty TRIAGE_HOME."""
    place = tmp_path / "home"
    monkeypatch.setenv("TRIAGE_HOME", str(place))
    return place


@pytest.fixture
def shared_home(home: Path) -> Path:
    """A TRIAGE_HOME with evidence of its own and the user's toolchains. Tests share
    what is known of these.
    """
    cache = Path(
        os.environ.get("TRIAGE_TEST_TOOLCHAINS")
        or Path(platformdirs.user_cache_dir("triage", appauthor=False))
    )
    home.mkdir()
    (cache / "toolchains").mkdir(parents=True, exist_ok=True)
    (home / "toolchains").symlink_to(cache / "toolchains")
    (cache / "state-of-tests").mkdir(exist_ok=True)
    (home / "state").symlink_to(cache / "state-of-tests")
    return home


@pytest.fixture(scope="session")
def release_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an index with the fake releases 1.0.0 to 1.5.0."""
    with fake_releases(tmp_path_factory.mktemp("index"), 6, logged=False) as releases:
        yield releases.url


@pytest.fixture(scope="session")
def toolchains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all installed fake releases."""
    return tmp_path_factory.mktemp("toolchains")


@pytest.fixture
def with_releases(
    home: Path, release_index: str, toolchains: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let commands use the fake releases. Each is installed once for all tests."""
    home.mkdir()
    (home / "toolchains").symlink_to(toolchains)
    monkeypatch.setenv("TRIAGE_INDEX_URL", release_index)


@pytest.fixture
def installed(shared_home: Path, asked: Asked) -> Callable[[str], Path]:
    """Installs a toolchain, unless it is there, and returns its folder."""
    return lambda rev: Path(asked("toolchains", "info", rev)["root"])


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """The empty folder in which the program runs."""
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def triage(workplace: Path) -> Triage:
    """Runs a command in this process, with streams, environment, folder and exit code
    of its own.
    """

    def call(
        *words: object,
        env: Mapping[str, str] | None = None,
        cwd: Path = workplace,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        **_: object,
    ) -> Any:
        command = ["triage", *map(str, words)]
        given = None if env is None else {**dict.fromkeys(os.environ), **env}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(cwd)
            patch.setattr(sys, "argv", command)
            patch.setattr("triage.processes.sealing._is_wanted", True)  # until its end
            done = CliRunner(env=given).invoke(
                app, command[1:], input, catch_exceptions=False, prog_name="triage"
            )
        return subprocess.CompletedProcess(
            command, done.exit_code, done.stdout, done.stderr
        )

    return call


@pytest.fixture
def asked(triage: Triage) -> Asked:
    """Runs a command that ends with a code, and returns its JSON."""

    def call(*words: object, code: int = 0, **options: Any) -> Any:
        done = triage(*words, "--format", "json", **options)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture
def triage_process(workplace: Path) -> Triage:
    """Runs the program as a user does, for what needs a process: signals, pipes, what a
    start costs.
    """

    def call(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
        given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600}
        given |= {"cwd": workplace, **options}
        return subprocess.run([*TRIAGE, *map(str, words)], **given)

    return call


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser of all tests."""
    pytest.importorskip("playwright.sync_api", reason="`make test-browser` installs it")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with launched() as browser:
        yield browser
