"""Results that machines share through a folder, a web server or a bucket."""

from __future__ import annotations

import functools
import http.server
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.bisect.letters import HistoryEngine, case_named, release_refs
from tests.execution.test_cache import record
from tests.loopback_server import serving
from tests.programs import write_program
from triage.bisect.candidates import release_range
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer
from triage.bisect.search import BisectSearch, run_search
from triage.cli.app import app
from triage.execution.cache import ResultCache
from triage.execution.record import Record
from triage.execution.shared_cache import SharedCache, is_portable, stored_object
from triage.execution.task import ProbeJob
from triage.model.execution import Ending
from triage.model.outcome import Probe

KEY = sha256(b"key").hexdigest()
COMPILER = """#!/bin/sh
[ "$1" = --version ] && echo version 1.0 && exit
echo called >> "$(dirname "$0")/calls"
echo "error: it fails" >&2
exit 1
"""
RECIPE = """name: mine
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "{output}"]
version: {run: ["{toolchain}/bin/cc", "--version"], pattern: "version (.+)"}
input: input.txt
"""


@dataclass
class Machine:
    """A home with shared results at a URL."""

    folder: Path
    url: str
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def open(
        self, *, trusted: bool = False, fresh: bool = False
    ) -> Iterator[ResultCache]:
        self.folder.mkdir(exist_ok=True)
        shared = SharedCache(self.url, self.warnings.append) if self.url else None
        path = self.folder / "evidence.db"
        with closing(
            ResultCache(
                path, self.warnings.append, shared=shared, trusted=trusted, fresh=fresh
            )
        ) as evidence:
            yield evidence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


@pytest.fixture
def machines(folder: Path, tmp_path: Path) -> tuple[Machine, Machine]:
    return Machine(tmp_path / "a", f"file://{folder}"), Machine(
        tmp_path / "b", f"file://{folder}"
    )


def test_a_result_of_one_machine_is_found_on_another(
    machines: tuple[Machine, Machine], folder: Path
) -> None:
    first, second = machines
    with first.open() as evidence:
        evidence.add(record(KEY))
    with second.open(fresh=True) as evidence:
        assert evidence.find(KEY) is None, "a command with --fresh"
    with second.open() as evidence:
        assert evidence.find(KEY) == replace(record(KEY), origin=first.url)
    with second.open(trusted=True) as evidence:
        assert evidence.find(KEY) == record(KEY), "an own one if trusted"
    with replace(second, url="").open() as evidence:
        assert evidence.find(KEY) is None, "who leaves the store leaves its results"
        assert evidence.newest_of("case") == ()
    [file] = [file for file in folder.rglob("*") if file.is_file()]
    assert file.name == KEY
    assert not first.warnings + second.warnings


def test_a_folder_is_asked_before_a_compile(tmp_path: Path, folder: Path) -> None:
    compiler = write_program(tmp_path / "built" / "bin" / "cc", COMPILER)
    (tmp_path / "input.txt").write_text("x")
    (tmp_path / "mine.yaml").write_text(RECIPE)

    def run(home: str, url: str) -> tuple[bool, str, int]:
        env = {"TRIAGE_HOME": str(tmp_path / home), "TRIAGE_EVIDENCE": url}
        words = [
            "run",
            str(tmp_path / "mine.yaml"),
            "-t",
            f"path:{tmp_path / 'built'}",
            "--format",
            "json",
        ]
        done = CliRunner().invoke(app, words, env=env)
        [result] = json.loads(done.stdout)["results"]
        assert (done.exit_code, result["status"]) == (1, "failed")
        return (
            result["cached"],
            done.stderr,
            len((compiler.parent / "calls").read_text().splitlines()),
        )

    assert run("first", f"file://{folder}") == (False, "", 1)
    assert run("second", f"file://{folder}") == (True, "", 1)
    cached, warning, calls = run("third", f"file://{tmp_path}/nowhere")
    assert (cached, calls, warning.count("nowhere")) == (False, 2, 2), (
        "one line with the URL and the folder"
    )


def test_a_damaged_result_counts_as_unknown_and_is_replaced(
    machines: tuple[Machine, Machine], folder: Path
) -> None:
    first, second = machines
    with first.open() as evidence:
        evidence.add(record(KEY))
    [file] = [file for file in folder.rglob("*") if file.is_file()]
    file.write_bytes(file.read_bytes()[:-9] + b"damaged!!")
    with second.open() as evidence:
        assert evidence.find(KEY) is None
        evidence.add(record(KEY, "again"))
    assert len(second.warnings) == 1
    assert SharedCache(first.url).find(KEY).execution.stderr.head == "again"


@pytest.mark.parametrize(
    "changed",
    [
        lambda value: replace(
            value, execution=replace(value.execution, ending=Ending.TIMED_OUT)
        ),
        lambda value: replace(
            value, execution=replace(value.execution, metrics={"run_ms": 3.0})
        ),
        lambda value: replace(
            value,
            execution=replace(
                value.execution, argv=("cc", "--iree-llvmcpu-target-cpu=host")
            ),
        ),
    ],
)
def test_what_depends_on_the_machine_is_not_shared(
    folder: Path, changed: functools.partial[Record]
) -> None:
    assert not is_portable(changed(record(KEY)))
    SharedCache(f"file://{folder}").publish(changed(record(KEY)))
    assert not list(folder.iterdir())


def test_a_web_server_is_only_read(
    folder: Path, machines: tuple[Machine, Machine]
) -> None:
    with machines[0].open() as evidence:
        evidence.add(record(KEY))
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(folder)
    )
    with serving(handler) as url:
        shared = SharedCache(url)
        assert shared.find(KEY) == replace(record(KEY), origin=shared.url)
        assert shared.find(sha256(b"other").hexdigest()) is None
        shared.publish(record(sha256(b"other").hexdigest()))
    warnings: list[str] = []
    gone = SharedCache(shared.url, warnings.append)
    assert (gone.find(KEY), len(warnings)) == (None, 1)


@pytest.mark.slow
def test_a_bucket_holds_the_results_of_two_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.server import ThreadedMotoServer

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        monkeypatch.setenv(
            "AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port())
        )
        SharedCache("s3://bucket/prefix")._files.mkdir("bucket")
        first, machine = (
            Machine(tmp_path / name, "s3://bucket/prefix") for name in "ab"
        )
        with first.open() as evidence:
            evidence.add(record(KEY))
        with machine.open() as evidence:
            assert evidence.find(KEY) == replace(record(KEY), origin=machine.url)
        missing = Machine(tmp_path / "c", "s3://no-such-bucket/prefix")
        with missing.open() as evidence:
            evidence.add(record(KEY))
        assert len(missing.warnings) == 1
    finally:
        server.stop()
    with machine.open() as evidence:
        assert evidence.find(sha256(b"other").hexdigest()) is None
    assert len(machine.warnings) == 1


class ForeignEngine(HistoryEngine):
    """Its cached probes were made on a machine that is not trusted."""

    def probe_all(self, jobs: list[ProbeJob], what: str = "") -> Iterator[Probe]:  # type: ignore[override]
        for job, probe in zip(jobs, super().probe_all(jobs, what), strict=True):
            yield replace(probe, cached=not job.fresh, foreign=not job.fresh)


def test_results_of_others_guide_a_bisect_and_do_not_confirm_it() -> None:
    fresh = {}
    for engine in (
        HistoryEngine({"mine": "PPPPFFFF"}),
        ForeignEngine({"mine": "PPPPFFFF"}),
    ):
        answer = run_search(
            BisectSearch(
                BisectRequest(engine, case_named("mine")),
                release_range(engine.registry, release_refs(8)),
            )
        )
        assert (answer.status, answer.confirmed) == (Answer.CULPRIT, True)
        fresh[type(engine)] = sorted(
            index for _, index, is_fresh in engine.asked if is_fresh
        )
    assert fresh[ForeignEngine] == sorted([*fresh[HistoryEngine], 3, 4]), (
        "one more of each side"
    )


def test_a_liar_in_the_store_turns_no_red_night_green(
    tmp_path: Path, folder: Path
) -> None:
    """Another machine says that a case passes on the new compiler; here it fails."""
    for name, ending in (("old", "touch"), ("new", "false")):
        text = f'#!/bin/sh\n# {name}\n[ "$1" = --version ] && echo version 1.0 && exit\n{ending} "$2" || exit 1\n'
        write_program(tmp_path / name / "bin" / "cc", text)
    (tmp_path / "input.txt").write_text("x")
    (tmp_path / "mine.yaml").write_text(RECIPE)

    def nightly(home: str, *words: str) -> tuple[int, dict[str, Any]]:
        env = {
            "TRIAGE_HOME": str(tmp_path / home),
            "TRIAGE_EVIDENCE": f"file://{folder}",
        }
        sides = [
            "-t",
            f"path:{tmp_path / 'new'}",
            "-b",
            f"path:{tmp_path / 'old'}",
            "--out",
            str(tmp_path / "out"),
        ]
        done = CliRunner().invoke(
            app,
            [
                "nightly",
                str(tmp_path / "mine.yaml"),
                *sides,
                "--format",
                "json",
                *words,
            ],
            env=env,
        )
        return done.exit_code, json.loads(done.stdout)

    assert nightly("first")[0] == 1
    for file in (file for file in folder.rglob("*") if file.is_file()):
        told = SharedCache(f"file://{folder}").find(file.name)
        assert told
        lie = replace(
            told, execution=replace(told.execution, ending=Ending.EXITED, exit_code=0)
        )
        file.write_bytes(stored_object(lie))
    code, night = nightly("second", "--trust")
    assert (code, night["cases"][0]["change"]) == (0, "passing"), (
        "whoever trusts the liar believes it"
    )
    code, night = nightly("third")
    [case] = night["cases"]
    assert (code, case["change"], case["foreign"], case["baseline"]["foreign"]) == (
        1,
        "regressed",
        False,
        True,
    )
