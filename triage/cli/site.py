"""`triage site`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.nights import open_nights
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.execution.cache import ResultCache
from triage.report.formats import write_report
from triage.toolchains.home import open_home


@command
def site(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("public"),
    show: Annotated[bool, typer.Option("--open", help="Open the first page in a browser.")] = False,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Write a static site of all stored nights.

    The pages need no server: open `index.html`, or publish the folder, for example with GitHub Pages.
    """
    from triage.report.site import Site, site_document  # templates and arrays are slow to import

    evidence = ResultCache(open_home() / "evidence.db", print_stderr)
    try:
        written = Site(open_nights(), out, evidence).write()
    finally:
        evidence.close()
    write_report(output, written, site_document)
    if show:
        webbrowser.open((out / "index.html").absolute().as_uri())
    return Exit.OK
