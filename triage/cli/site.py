"""`triage site` and `triage open`: write the page of all stored nights, and open it."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.nights import open_nights
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.execution.cache import Evidence
from triage.report.housekeeping import HousekeepingReport
from triage.report.registry import write_report
from triage.toolchains.home import open_home

IssueUrlOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Server of issues that are named owner/repository#number (default: https://github.com)."),
]


@command
def site(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("public"),
    title: Annotated[str, typer.Option(help="Name at the top of each page.")] = "triage",
    issue_url: IssueUrlOption = None,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Write a static site of all stored nights.

    The pages need no server: open `index.html`, or publish the folder, for example with GitHub Pages.
    """
    write_report(_written(out, title, issue_url), output)
    return Exit.OK


@command
def open_page(
    browser: Annotated[
        bool | None, typer.Option("--browser/--no-browser", help="Open a browser (default: on a terminal).")
    ] = None,
    issue_url: IssueUrlOption = None,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Open the page of the last night.

    The site is written to TRIAGE_HOME, and its path is printed.
    """
    out = open_home() / "site"
    write_report(_written(out, "triage", issue_url), output)
    if browser or (browser is None and sys.stdout.isatty()):
        webbrowser.open((out / "index.html").as_uri())
    return Exit.OK


def _written(out: Path, title: str, server: str | None) -> HousekeepingReport:
    from triage.report.site import SERVER, Site, site_report  # templates and arrays are slow to import

    evidence = Evidence(open_home() / "evidence.db", print_stderr)
    try:
        written = Site(open_nights(), out, evidence, title, server or SERVER).write()
    finally:
        evidence.close()
    if written.missing:
        print_stderr(f"without {' and '.join(written.missing)}; `pip install 'iree-triage[site]'` adds charts and steps")
    return site_report(written)
