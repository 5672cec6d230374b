"""`triage evidence`: export, import and check cached results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.text import Text

from triage.cli.context import open_runner, shared_evidence
from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option, time_before
from triage.cli.screen import print_stderr
from triage.execution.cache import ImportedLines
from triage.execution.delivery import DELIVERED, remove_unused
from triage.execution.evidence_recovery import StoreCheck, check_store, repair_store, set_aside_files
from triage.execution.runner import ProbeRunner
from triage.execution.shared_evidence import SharedEvidence
from triage.model.errors import BadInput
from triage.report.elements import plural
from triage.report.housekeeping import (
    CheckedFileShape,
    CollectedShape,
    EvidenceCheckShape,
    ExportShape,
    HousekeepingReport,
    ImportShape,
    MovedShape,
)
from triage.report.registry import write_report
from triage.toolchains.home import disk_errors, home_path, open_home

app = typer.Typer(no_args_is_help=True, help="Export, import, share or check cached results.")
SharedUrl = Annotated[
    str | None, typer.Argument(metavar="[URL]", help="Shared results, such as s3://bucket/prefix (default: TRIAGE_EVIDENCE).")
]


@app.command("export")
@command
def export(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="File to write (default: stdout).")] = None,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Write every cached result as one line of JSON.

    With a FILE, the answer on stdout is the number of results. Without one, the results are the answer: JSON lines, or one
    JSON document with `--format json`.
    """
    with open_runner(context.obj, ()) as runner:
        lines = runner.evidence.export()
        if file is None:
            count = _write_document(lines) if output == "json" else _write_lines(lines, sys.stdout)
            print_stderr(plural(count, "result"))
            return Exit.OK
        with disk_errors(f"write {file}"), file.open("w", encoding="utf-8") as sink:
            count = _write_lines(lines, sink)
    written = Text(f"{plural(count, 'result')} written to {file}")
    write_report(HousekeepingReport(ExportShape(str(file), count), [written]), output)
    return Exit.OK


@app.command("import")
@command
def import_(
    context: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Files that `export` wrote.")
    ],
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Add the results of another machine to the cache. Results that are cached already are skipped."""
    counts: list[ImportedLines] = []
    with open_runner(context.obj, ()) as runner:
        for path in files:
            with path.open(encoding="utf-8", errors="replace") as lines:
                done = runner.evidence.load(lines, str(path))
            counts.append(done)
            for problem in done.problems:
                print_stderr(str(problem))
            if done.skipped:
                print_stderr(f"{path}: {plural(done.skipped, 'line')} skipped")
    added, known, skipped = (sum(getattr(count, name) for count in counts) for name in ("added", "known", "skipped"))
    text = Text(f"{added} added, {known} known already" + (f", {skipped} skipped" if skipped else ""))
    write_report(HousekeepingReport(ImportShape(added, known, skipped, counts), [text]), output)
    return Exit.USAGE if skipped else Exit.OK


@app.command("push")
@command
def push(
    context: typer.Context, url: SharedUrl = None, output: Annotated[str, format_option(HousekeepingReport)] = "text"
) -> Exit:
    """Publish the results of this machine that other machines can use."""
    with open_runner(context.obj, ()) as runner:
        return _moved(_shared(runner, url).push(runner.evidence), "published", output)


@app.command("pull")
@command
def pull(
    context: typer.Context, url: SharedUrl = None, output: Annotated[str, format_option(HousekeepingReport)] = "text"
) -> Exit:
    """Add all shared results to the cache, for work without a network. Other commands ask for single results."""
    with open_runner(context.obj, ()) as runner:
        return _moved(_shared(runner, url).pull(runner.evidence), "added", output)


@app.command("gc")
@command
def collect(
    context: typer.Context,
    url: SharedUrl = None,
    older: Annotated[str | None, typer.Option("--older-than", metavar="DURATION", help="Remove older results: 180d.")] = None,
    damaged: Annotated[bool, typer.Option("--check", help="Read every result, and remove damaged ones.")] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Clean the cache of this machine (default: the shared results).")
    ] = False,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Remove shared results that are old or damaged, or with --local old ones of this machine.

    --local removes inputs as well that clients of a cluster sent to this machine and that were not used since.
    """
    if older is None and not damaged:
        raise BadInput("pass --older-than DURATION or --check")
    if local and (url or damaged):
        raise BadInput("--local goes with --older-than alone; `triage evidence check --repair` removes damaged results here")
    limit, files = time_before("--older-than", older) if older else None, 0
    with open_runner(context.obj, ()) as runner:
        if local and limit:
            removed, left = runner.evidence.collect(limit)
            files = remove_unused(home_path() / DELIVERED, before=limit.timestamp())
        else:
            removed, left = _shared(runner, url).collect(limit, check=damaged)
    inputs = f", {plural(files, 'input')} of a cluster removed" if files else ""
    text = Text(f"{plural(removed, 'result')} removed, {left} left{inputs}")
    write_report(HousekeepingReport(CollectedShape(removed, left, files), [text]), output)
    return Exit.OK


def _shared(runner: ProbeRunner, url: str | None) -> SharedEvidence:
    shared, runner.evidence.shared = shared_evidence(runner.stop, url), None
    if shared is None:
        raise BadInput("name the shared results, or set TRIAGE_EVIDENCE")
    return shared


def _moved(results: Iterator[bool], verb: str, output: str) -> Exit:
    counts = Counter(results)
    text = Text(f"{plural(counts[True], 'result')} {verb}, {counts[False]} failed")
    write_report(HousekeepingReport(MovedShape(counts[True], counts[False]), [text]), output)
    return Exit.ENVIRONMENT if counts[False] else Exit.OK


@app.command("check")
@command
def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Evidence databases (default: that of TRIAGE_HOME and those set aside)."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Replace a damaged database, and recover the results that can be read.")
    ] = False,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Verify the checksum of every cached result.

    Exit 0 if all are intact, 1 if some are damaged, 4 if a database cannot be read. `--repair` adds the intact results of each
    FILE to the cache, sets a damaged cache aside first, and exits 0. Cases whose results are lost are compiled again.
    """
    store = (open_home() / "evidence.db").resolve()
    paths = files or [path for path in (store, *set_aside_files(store)) if path.exists()]
    checks = [check_store(path) for path in paths]
    if repair:
        checks = repair_store(store, checks)
    shapes = [CheckedFileShape(str(done.path), done.results, done.damaged, done.problem, done.recovered) for done in checks]
    values = EvidenceCheckShape(shapes, all(done.intact for done in checks))
    write_report(HousekeepingReport(values, [Text(_sentence(done)) for done in checks] or [Text("no results yet")]), output)
    if any(not done.readable and (done.recovered is None or files) for done in checks):
        return Exit.ENVIRONMENT
    if values.intact or repair:
        return Exit.OK
    print_stderr("to recover what can be read: triage evidence check --repair")
    return Exit.FOUND


def _sentence(done: StoreCheck) -> str:
    words = [f"{done.path}: {plural(done.results, 'intact result')}, {done.damaged} damaged"]
    if done.problem:
        words.append(f"SQLite reports: {done.problem}")
    if done.recovered is not None:
        words.append(f"{done.recovered} recovered")
    return "; ".join(words)


def _write_lines(lines: Iterator[str], sink: TextIO) -> int:
    count = 0
    for line in lines:
        sink.write(line + "\n")
        count += 1
    return count


def _write_document(lines: Iterator[str]) -> int:
    """Write one JSON document to stdout, line by line because there may be many results."""
    count = 0
    sys.stdout.write('{"results": [')
    for line in lines:
        sys.stdout.write((",\n" if count else "\n") + line)
        count += 1
    sys.stdout.write(f'\n], "count": {count}}}\n')
    return count
