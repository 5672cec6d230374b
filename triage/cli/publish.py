"""What happens to the report of a night beside its files: stdout, GitHub Actions, a message."""

from __future__ import annotations

import os
from collections.abc import Sequence

from triage.cli.screen import print_stderr
from triage.model.errors import EnvironmentFailure
from triage.report.night import NightReport
from triage.report.night_message import message_of
from triage.report.registry import write_report


class Publisher:
    """Where the report of a night goes."""

    def __init__(self, output: str, github: bool, notify: Sequence[str] | None) -> None:
        """output: the format on stdout; notify: addresses of apprise. Raises what `Notifier` raises."""
        self._output = output
        self._github = github
        self._notifier = None
        if notify:
            try:
                from triage.notify import Notifier
            except ModuleNotFoundError as error:
                raise EnvironmentFailure(
                    "--notify needs apprise; install it with `pip install 'iree-triage[notify]'`"
                ) from error
            self._notifier = Notifier(notify)

    def publish(self, report: NightReport) -> None:
        """Print the report and send it. A message that cannot be sent is a warning."""
        write_report(report, self._output)
        if self._github:
            from triage.report.github_actions import show_on_github

            show_on_github(report, os.environ)
        if self._notifier:
            for name in self._notifier.send(*message_of(report.night, os.environ)):
                print_stderr(f"warning: the message to {name} was not sent")
