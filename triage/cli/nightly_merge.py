"""`triage nightly merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.nightly import exit_of, publish
from triage.cli.nights import store_night
from triage.cli.options import GitHubOption, format_option
from triage.nightly.shards import ShardResult, copy_files, merge
from triage.nightly.store import read_night
from triage.report.night import write_reports


@command
def nightly_merge(
    context: typer.Context,  # noqa: ARG001 - every command has one
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that `triage nightly --shard` wrote.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the joined reports and reproducers.")] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Report a night with missing shards, marked as partial.")
    ] = False,
    github: GitHubOption = False,
    output: Annotated[str, format_option("junit")] = "text",
) -> Exit:
    """Join the results of a nightly's shards into one report, as one machine would have written it.

    Shards of different toolchains, cases that are in two shards, and missing shards are refused. The exit code is that of the
    whole night.

    - `triage nightly merge shards/* --out out --github`
    """
    shards = [ShardResult(folder if folder.is_dir() else folder.parent, read_night(folder)) for folder in folders]
    night = merge(shards, allow_missing=allow_missing)
    if out:
        copy_files(shards, out)
    night = write_reports(night, out) if out else night
    store_night(night, out)
    publish(night, output, github=github)
    return exit_of(night)
