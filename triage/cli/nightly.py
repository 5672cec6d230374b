"""`triage nightly`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, only_share, open_bench
from triage.cli.exit_codes import Exit, exit_of, guarded
from triage.cli.options import FreshOption, JobsOption, RecipePaths
from triage.cli.screen import show, show_json
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.nightly.compare import CaseChangeKind
from triage.nightly.night import run_nightly, shard, with_examples
from triage.report.night import night_blocks
from triage.report.shapes import night_json


class NightFormat(StrEnum):
    """How a nightly's answer is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"


@guarded
def nightly(
    paths: RecipePaths,
    toolchain: Annotated[
        list[str] | None, typer.Option("--toolchain", "-t", metavar="REV", help="What is new. Without it: latest.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option("--baseline", "-b", metavar="REV", help="What it is compared with. Without it: previous."),
    ] = None,
    bisect: Annotated[bool, typer.Option("--bisect", help="Trace each regression to the release that brought it.")] = False,
    reduce: Annotated[
        bool, typer.Option("--reduce", help="Make a small program for each failure that is new, below --out.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for nightly.md, nightly.xml (JUnit) and nightly.json.")] = None,
    part: Annotated[str | None, typer.Option("--shard", metavar="I/N", help="Only the I-th of N parts of the cases.")] = None,
    jobs: JobsOption = None,
    fresh: FreshOption = False,
    output: Annotated[
        NightFormat, typer.Option("--format", "-f", help="How the answer is written to stdout.")
    ] = NightFormat.TEXT,
) -> Exit:
    """Compare a new compiler with a baseline over all recipes. Exit 1 when something regressed.

    A failure that a recipe expects at that version is known, and no regression. One compiler is compared at a time:
    among recipes of several, a REV such as triton:3.2.0 says whose, and one without a prefix is iree's.

    - `triage nightly recipes/ --bisect --out out` compares the newest release with the one before

    - `triage nightly recipes/ -t path:build -b latest -f markdown >> "$GITHUB_STEP_SUMMARY"` is for a CI job
    """
    from triage.report.files import write_reports  # templates and XML: needed here alone, and slow to import
    from triage.report.junit import junit
    from triage.report.markdown import markdown
    from triage.report.reproducer import write_reproducer

    revs = _only("--toolchain", toolchain, "latest"), _only("--baseline", baseline, "previous")
    share = only_share(load_cases(paths), revs, "a nightly")
    cases = shard(share.cases, part)
    small = _small_folder(cases, out) if reduce else None
    reports: Mapping[str, str] = {}
    with open_bench(cases, jobs, fresh=fresh) as bench:
        new, old = (bench.shed.place(text, share.family) for text in share.revs)
        night = run_nightly(bench, cases, new, old, bisect=bisect, fresh=fresh)
        if out:
            reports = write_reports(night, out)
        if out and small:
            # The reports are there before the first reduction and follow each, whenever the night is ended.
            for richer in with_examples(bench, night, new, old, partial(write_reproducer, out=small)):
                night = richer
                write_reports(night, out)
    match output:
        case NightFormat.JSON:
            show_json(night_json(night, reports))
        case NightFormat.MARKDOWN:
            typer.echo(markdown(night))
        case NightFormat.JUNIT:
            typer.echo(junit(night))
        case NightFormat.TEXT:
            show(night_blocks(night))
            for path in reports.values():
                typer.echo(f"written: {path}")
    if night.of(CaseChangeKind.REGRESSED) or night.of(CaseChangeKind.CHANGED):
        return Exit.FOUND
    code = exit_of([probe for pair in night.pairs for probe in (pair.baseline, pair.probe)])
    return Exit.OK if code is Exit.FOUND else code


def _only(option: str, given: Sequence[str] | None, usual: str) -> str:
    """The one REV. Elsewhere `--toolchain` takes several, so that a second one must not be dropped in silence."""
    if given and len(given) > 1:
        raise BadInput(f"a nightly is about one compiler, and {option} names {' and '.join(given)}; run it once for each")
    return given[0] if given else usual


def _small_folder(cases: Sequence[Case], out: Path | None) -> Path:
    """Where reproducers go, once it is known that each of the cases may have one there."""
    from triage.report.reproducer import folder_for

    if out is None:
        raise BadInput("--reduce writes reproducers below the folder of the reports; name it with --out")
    for one in cases:
        folder_for(out / "reproducers", one)
    return out / "reproducers"
