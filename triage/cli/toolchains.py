"""`triage toolchains`: list, install, describe and prune compilers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.cli.completion import complete_revision
from triage.cli.context import open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY
from triage.config.values import parse_size
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Toolchain
from triage.report.housekeeping import (
    HousekeepingReport,
    InstalledShape,
    PrunedShape,
    ReleaseShape,
    ReleasesShape,
    ToolchainInfoShape,
    ToolchainShape,
)
from triage.report.registry import write_report
from triage.toolchains.install_cache import prune as prune_home
from triage.toolchains.install_cache import stored, stored_builders

app = typer.Typer(no_args_is_help=True, help="List, install, describe and prune compilers.")
_GIB = 1 << 30
Family = Annotated[str, typer.Option(help="Compiler family: iree, triton, or command:PACKAGE.")]
Revs = Annotated[
    list[str],
    typer.Argument(
        metavar="REV...",
        help="Releases such as `3.4.0`, `latest`, `previous`; `all` for all of them.",
        autocompletion=complete_revision,
    ),
]


@app.command("list")
@command
def list_(
    context: typer.Context, family: Family = DEFAULT_FAMILY, output: Annotated[str, format_option(HousekeepingReport)] = "text"
) -> Exit:
    """List the releases of the package index and show which are installed."""
    with open_runner(context.obj, ()) as runner:
        releases = runner.registry.releases(family)
        is_installed = {ref.revision.name: runner.registry.is_installed(ref) for ref in releases}
        toolchains = stored(runner.registry.folder)
    size = sum(toolchain.bytes for toolchain in toolchains)
    table = Table("release", "installed", box=None)
    for name, installed in is_installed.items():
        table.add_row(name, Text("yes", style="green") if installed else "")
    revisions = [ref.revision for ref in releases]
    shapes = [
        ReleaseShape(revision.name, revision.commit, revision.date, revision.subject, is_installed[revision.name])
        for revision in revisions
    ]
    parts: list[RenderableType] = [table, Text(f"\n{len(toolchains)} installed, {size / _GIB:.1f} GiB")]
    write_report(HousekeepingReport(ReleasesShape(shapes, size), parts), output)
    return Exit.OK


@app.command()
@command
def install(
    context: typer.Context,
    revs: Revs,
    family: Family = DEFAULT_FAMILY,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Installs to run at once.")] = 4,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Install releases, several at once. Intact installs are skipped."""
    with open_runner(context.obj, ()) as runner:
        registry = runner.registry
        refs = list(registry.releases(family)) if revs == ["all"] else [registry.resolve(rev, family) for rev in revs]
        answers = registry.obtain_all(refs, jobs)
    failures = {name: str(answer) for name, answer in answers.items() if isinstance(answer, EnvironmentFailure)}
    obtained = [answers[ref.revision.name] for ref in refs]
    ready = [toolchain for toolchain in obtained if isinstance(toolchain, Toolchain)]
    parts = [Text(f"{toolchain.revision.name}  {toolchain.root}") for toolchain in ready]
    write_report(HousekeepingReport(InstalledShape([_summary(toolchain) for toolchain in ready], failures), parts), output)
    for message in failures.values():
        print_stderr(f"triage: {message}")
    return Exit.ENVIRONMENT if failures else Exit.OK


@app.command()
@command
def info(
    context: typer.Context,
    rev: Annotated[str, typer.Argument(metavar="REV", help="The toolchain.", autocompletion=complete_revision)] = "installed",
    family: Family = DEFAULT_FAMILY,
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Describe a toolchain: version, commit, backends, phases, dialects, flags."""
    with open_runner(context.obj, ()) as runner:
        toolchain = runner.registry.obtain(runner.registry.resolve(rev, family))
        dialects = sorted(runner.registry.dialects(toolchain))
    known = toolchain.capabilities
    summary = _summary(toolchain)
    table = Table.grid(padding=(0, 2))
    for name in ("name", "version", "identity", "root", "program"):
        table.add_row(Text(name, style="dim"), str(getattr(summary, name)))
    table.add_row(Text("commit", style="dim"), toolchain.revision.commit or "unknown")
    table.add_row(Text("date", style="dim"), toolchain.revision.date or "unknown")
    table.add_row(Text("backends", style="dim"), ", ".join(sorted(known.backends)))
    table.add_row(Text("phases", style="dim"), ", ".join(known.phases))
    if dialects:
        table.add_row(Text("dialects", style="dim"), ", ".join(dialects))
    if known.flags:
        own = sum(flag.startswith(family) for flag in known.flags)
        table.add_row(Text("flags", style="dim"), f"{len(known.flags)}, {own} of them begin with {family}")
    values = ToolchainInfoShape(
        **vars(summary),
        backends=sorted(known.backends),
        phases=list(known.phases),
        dialects=dialects,
        flags=sorted(known.flags),
    )
    write_report(HousekeepingReport(values, [table]), output)
    return Exit.OK


@app.command()
@command
def prune(
    context: typer.Context,
    keep: Annotated[
        str, typer.Option(help="Size to keep, such as 8GiB; 0 removes every toolchain that is not in use.")
    ] = "8GiB",
    output: Annotated[str, format_option(HousekeepingReport)] = "text",
) -> Exit:
    """Remove the least recently used toolchains until the rest fits. Damaged ones go first, those in use stay.

    The folders in which compilers of commits are built, with their private clones, are removed likewise.
    """
    try:
        limit = parse_size(keep) if keep.strip("0") else 0
    except ValueError as error:
        raise BadInput(f"--keep: {error}") from error
    with open_runner(context.obj, ()) as runner:
        home = runner.registry.home
        removed = prune_home(home, limit)
        left = sum(entry.bytes for entry in (*stored(home / "toolchains"), *stored_builders(home / "builders")))
    lines = []
    for toolchain in removed:
        used = datetime.fromtimestamp(toolchain.used, UTC).date().isoformat()
        lines.append(Text(f"removed {_name(toolchain.folder, home)}  {toolchain.bytes >> 20} MiB, last used {used}"))
    lines.append(Text(f"{left / _GIB:.1f} GiB left"))
    values = PrunedShape([_name(toolchain.folder, home) for toolchain in removed], left)
    write_report(HousekeepingReport(values, lines), output)
    return Exit.OK


def _name(folder: Path, home: Path) -> str:
    """Return a toolchain's name, or a builder's path below the home folder."""
    return str(folder.relative_to(home)) if folder.is_relative_to(home / "builders") else folder.name


def _summary(toolchain: Toolchain) -> ToolchainShape:
    return ToolchainShape(
        name=toolchain.revision.name,
        version=toolchain.version,
        identity=toolchain.identity,
        root=str(toolchain.root),
        program=str(toolchain.program),
        revision=toolchain.revision,
    )
