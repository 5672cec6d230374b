"""`triage issues`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.nights import open_nights
from triage.cli.options import FormatOption, argument, flag, option
from triage.cli.screen import print_stderr
from triage.model.errors import BadInput, EnvironmentFailure, TriageError
from triage.nightly.issues import IssueChange, failures_of, plan
from triage.nightly.result import cluster_id
from triage.nightly.store import read_night
from triage.report.formats import write_report
from triage.report.night_issue import issue_body
from triage.report.printable import visible
from triage.report.tables import issues_document

_TITLE = 250  # characters; GitHub takes 256
app = typer.Typer(no_args_is_help=True, help="Keep the issues of a GitHub repository in step with nights.")


@app.callback()
def issues() -> None:
    """Keep the issues of a GitHub repository in step with nights."""


@app.command("sync")
@command
def sync(
    repository: Annotated[str, option("Repository whose issues are changed.", "--repo", metavar="OWNER/NAME")],
    report: Annotated[Path, argument("REPORT", "nightly.json of a night, or the folder that holds it.")] = Path("out"),
    apply: Annotated[bool, flag("Change the issues (default: only list the changes).", "--apply")] = False,
    limit: Annotated[int, option("Make at most this many changes; the next run makes the others.", least=1)] = 10,
    label: Annotated[str, option("Label of the issues that are kept in step.")] = "triage",
    output: FormatOption = "text",
) -> Exit:
    """Open, comment, reopen and close the issues of a repository by the failures of a night.

    Each failure signature has one issue, known by its label and a hidden marker. A new failure opens it, a comment adds
    further cases, and a night in which all of its cases pass closes it. The token comes from GITHUB_TOKEN, the address of
    another server from GITHUB_API_URL.

    - `triage issues sync out --repo iree-org/iree --apply --limit 5`
    """
    try:
        from triage.nightly.github import PUBLIC_API, GitHubIssues
    except ModuleNotFoundError as error:
        raise EnvironmentFailure("this command needs PyGithub; install it with `pip install 'iree-triage[github]'`") from error
    if not re.fullmatch(r"[A-Za-z0-9_-][\w.-]*/(?!\.{1,2}$)[\w.-]+", repository, re.ASCII):
        raise BadInput(f"--repo {repository!r}: write OWNER/NAME")
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    if not re.fullmatch("[!-~]*", token):
        raise BadInput("GITHUB_TOKEN has characters that no token has; set it to the token alone")
    if apply and not token:
        raise BadInput("--apply needs a token that may write issues in GITHUB_TOKEN")
    night = read_night(report)
    failures = failures_of(night)
    api = os.environ.get("GITHUB_API_URL") or PUBLIC_API
    hub = GitHubIssues(repository, label, token or None, api)
    planned = plan(night, hub.read(lambda issue: issue.is_open or issue.marker.signature in failures), limit, repository)
    if not token:
        note = "without GITHUB_TOKEN, issues of all authors are taken for this program's"
        planned = replace(planned, notes=(*planned.notes, note))
    if not apply:
        write_report(output, planned, issues_document)
        return Exit.OK
    done: list[IssueChange] = []
    try:
        for change in planned.changes:
            number = hub.apply(replace(change, title=visible(change.title)[:_TITLE]), issue_body(change, night))
            done.append(replace(change, issue=number))
    finally:
        begin = f"{repository}#" if api == PUBLIC_API else f"{api.removesuffix('/api/v3')}/{repository}/issues/"
        try:
            open_nights().add_issues({cluster_id(change.signature): f"{begin}{change.issue}" for change in done})
        except (TriageError, OSError) as error:
            print_stderr(f"the issues are not stored for `triage site`: {error}")
        left = (*planned.changes[len(done) :], *planned.left)
        write_report(output, replace(planned, changes=tuple(done), left=left, applied=True), issues_document)
    return Exit.OK
