"""Commands that read nights: `triage nights`, `triage show`, `triage site` and `triage
issues`.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from triage.cli.command import (
    Reply,
    argument,
    command,
    flag,
    junit_command,
    option,
    print_stderr,
    report,
    report_value,
)
from triage.model.content import Address
from triage.model.errors import BadInput, EnvironmentFailure, TriageError
from triage.model.outcome import Exit
from triage.nightly.store import NightStore, read_night
from triage.report.elements import plural
from triage.report.printable import visible
from triage.report.tables import issues_document, night_table
from triage.toolchains.home import Home, open_home

if TYPE_CHECKING:  # lists need none of them
    from triage.nightly.compare import EarlierNights
    from triage.nightly.issues import IssueChange
    from triage.nightly.result import Night


def open_nights() -> NightStore:
    """Open the nights of TRIAGE_NIGHTS, or else of TRIAGE_HOME."""
    named = os.environ.get("TRIAGE_NIGHTS")
    home = Home(Path(named).absolute()) if named else open_home()
    return NightStore(home, warn=print_stderr)


def store_night(night: Night, folder: Path | None) -> None:
    """Store a finished night; a shard is stored when it is merged. A night that cannot
    be stored is not a failed one.
    """
    if night.shard:
        return
    try:
        open_nights().add(night, folder)
    except (TriageError, OSError) as error:
        print_stderr(f"the night is not stored for `triage site`: {error}")


def earlier_nights() -> EarlierNights:
    """Return a function that reads the stored nights, once."""
    return cache(lambda: open_nights().history())


@command
def list_nights() -> Reply:
    """List stored nights, the oldest first."""
    listed = open_nights().summaries()
    total = plural(len(listed), "night")
    table = night_table(listed)
    return report_value({"nights": listed}, table, total, title="Nights")


@junit_command
def show_night(
    night: str = argument(
        "NIGHT",
        "A night's number, its date as 2026-11-21, or `latest`.",
        default="latest",
    ),
) -> Reply:
    """Print the report of a stored night."""
    from triage.report.night import night_junit, screen_document

    stored = open_nights().night_named(night)
    return report(stored, screen_document, Exit.OK, junit=night_junit)


@command
def prune_nights(
    keep: int = option("N", "Keep the newest N nights.", min=1),
) -> Reply:
    """Remove all stored nights but the newest."""
    store = open_nights()
    numbers = [night.number for night in store.summaries()]
    removed = numbers[:-keep]
    store.remove(removed)
    return report_value(
        {"removed": removed}, f"{plural(len(removed), 'night')} removed"
    )


@command
def show(
    case: str = argument("CASE", "Name of a case."),
) -> Reply:
    """Show everything known of a case: its nights, its state on every toolchain,
    culprit, reproducer, remedies, output.
    """
    from triage.execution.cache import ResultCache
    from triage.nightly.lives import known_case
    from triage.report.night import known_case_document

    store = open_nights()
    history = store.history()
    with closing(ResultCache(open_home().results_database, print_stderr)) as results:
        overview = known_case(case, store, history, results)
    return report(overview, known_case_document)


@command
def site(
    out: Path = option("DIR", "Write the site to this folder.", default=Path("public")),
    tracks: str = option(
        "GLOB",
        "Show only tracks whose names match this pattern, such as `*cuda*`.",
        "--track",
        default="*",
    ),
) -> Reply:
    """Write a static site of all stored nights.

    The pages need no server: open `index.html`, or publish the folder, for example with
    GitHub Pages.
    """
    from triage.report.site import build_site  # templates and arrays are slow to import

    written = build_site(open_nights(), out, tracks)
    text = f"{plural(written['nights'], 'night')}: {written['index']}"
    return report_value(written, text, title="Site")


_TITLE = 250  # characters; GitHub takes 256


@command
def sync(
    repository: str = option(
        "OWNER/NAME",
        "Change the issues of this repository.",
        "--repo",
    ),
    night_file: Path = argument(
        "REPORT",
        "nightly.json of a night, or the folder that holds it.",
        default=Path("out"),
    ),
    apply: bool = flag(
        "--apply", "Change the issues (default: only list the changes)."
    ),
    limit: int = option(
        "N",
        "Make at most this many changes; the next run makes the others.",
        min=1,
        default=10,
    ),
) -> Reply:
    """Open, comment, reopen and close the issues of a repository by the failures of a
    night.

    Each failure of a compiler family and target backend has one issue, known by the
    label `triage` and a hidden marker. A new failure opens it, a comment adds further
    cases, and a night in which all of its cases pass closes it. The token comes from
    GITHUB_TOKEN, the address of another server from GITHUB_API_URL.

    - `triage issues sync out --repo iree-org/iree --apply --limit 5`
    """
    try:
        from triage.nightly.issues import PUBLIC_API, GitHubIssues, plan_issues
    except ModuleNotFoundError as error:
        raise EnvironmentFailure(
            "this command needs PyGithub; install it with `pip install "
            "'iree-triage[github]'`"
        ) from error
    from triage.report.issue import issue_body

    if not re.fullmatch(
        r"[A-Za-z0-9_-][\w.-]*/(?!\.{1,2}$)[\w.-]+", repository, re.ASCII
    ):
        raise BadInput(f"--repo {repository!r}: write OWNER/NAME")
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    if not re.fullmatch("[!-~]+" if apply else "[!-~]*", token):
        raise BadInput("GITHUB_TOKEN has no token that may write issues")
    night = read_night(night_file)
    api = Address(os.environ.get("GITHUB_API_URL") or PUBLIC_API)
    hub = GitHubIssues(repository, token or None, api.full)
    planned = plan_issues(night, hub.read(), limit, repository)
    if not apply:
        return report(planned, issues_document)
    done: list[IssueChange] = []
    stopped: BaseException | None = None
    try:
        for change in planned.changes:
            change = replace(change, title=visible(change.title)[:_TITLE])
            number = hub.apply(change, issue_body(change, night))
            done.append(replace(change, issue=number))
    except (KeyboardInterrupt, TriageError) as error:
        stopped = error
    left = (*planned.changes[len(done) :], *planned.left)
    applied = replace(planned, changes=tuple(done), left=left, applied=True)
    address = f"{api.removesuffix('/api/v3')}/{repository}/issues/"
    if api == PUBLIC_API:
        address = f"{repository}#"
    issues = {
        case: f"{address}{change.issue}" for change in done for case in change.cases
    }
    open_nights().add_issues(night.started, issues)
    return replace(report(applied, issues_document), error=stopped)
