"""Messages after a night, to a webhook on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.nightly.test_compare import night_of
from triage.cli.app import app
from triage.model.errors import BadInput
from triage.notify import Notifier
from triage.report.night import NightReport
from triage.report.night_building import record_of
from triage.report.night_message import message_of
from triage.report.night_record import NightRecord
from triage.report.registry import rendered

SECRET = "user:hunter2"


@contextmanager
def webhook(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the apprise URL of a webhook that answers with a status, and the messages that it gets."""
    messages: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"json://{SECRET}@127.0.0.1:{server.server_port}/hook", messages
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def night(tmp_path: Path) -> NightRecord:
    night = record_of(night_of({"a": "PF", "b": "PF", "c": "FP"}, old=0, new=1))
    (tmp_path / "nightly.json").write_text(rendered(NightReport(night), "json"))
    return night


def test_a_night_is_sent_and_a_failing_webhook_changes_no_exit_code(night: NightRecord, tmp_path: Path) -> None:
    with webhook() as (good, messages), webhook(500) as (bad, refused):
        answer = CliRunner().invoke(app, ["nightly", "merge", str(tmp_path)], env={"TRIAGE_NOTIFY": f"{bad} {good}"})
    assert answer.exit_code == 1, answer.output
    assert answer.stderr.count("json (1 of 2)") == 1
    assert "hunter2" not in answer.output
    assert (len(messages), len(refused)) == (1, 1)
    assert messages[0]["title"] == "1.1.0 against 1.0.0: 2 regressed, 1 fixed"
    assert "- 2 cases: " in messages[0]["message"]


def test_a_wrong_address_is_refused_before_the_night_and_not_shown(night: NightRecord, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["nightly", str(tmp_path)], env={"TRIAGE_NOTIFY": f"nosuch://{SECRET}@host"})
    assert (answer.exit_code, "nosuch (1 of 1)" in answer.stderr) == (2, True)
    assert "hunter2" not in answer.output
    words = ["--notify", "json://127.0.0.1", "--notify", f"nosuch://{SECRET}@host"]
    answer = CliRunner().invoke(app, ["nightly", "merge", str(tmp_path), *words])
    assert (answer.exit_code, "nosuch (2 of 2)" in answer.stderr, "hunter2" in answer.output) == (2, True, False)
    with pytest.raises(BadInput):
        Notifier([SECRET])


def test_a_message_names_the_workflow_run(night: NightRecord) -> None:
    run = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7"}
    assert message_of(night, run)[1].endswith("\nhttps://github.com/o/r/actions/runs/7")
    assert "http" not in message_of(night, {})[1]
