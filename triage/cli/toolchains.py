"""`triage toolchains`: list, install, describe and prune compilers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from triage.cli.context import open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption
from triage.cli.screen import Format, print_stderr, show, show_json
from triage.config.values import parse_size
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Toolchain
from triage.report.shapes import revision_json
from triage.toolchains.install_cache import prune as prune_folder
from triage.toolchains.install_cache import stored

app = typer.Typer(no_args_is_help=True, help="List, install, describe and prune compilers.")
_GIB = 1 << 30
Family = Annotated[str, typer.Option(help="Compiler family: iree, triton, or command:PACKAGE.")]
Revs = Annotated[
    list[str], typer.Argument(metavar="REV...", help="Releases such as `3.4.0`, `latest`, `previous`; `all` for all of them.")
]


@app.command("list")
@command
def list_(context: typer.Context, family: Family = "iree", output: FormatOption = Format.TEXT) -> Exit:
    """List the releases of the package index and show which are installed."""
    from rich.table import Table
    from rich.text import Text

    with open_runner(context.obj, ()) as runner:
        releases = runner.registry.releases(family)
        is_installed = {ref.revision.name: runner.registry.is_installed(ref) for ref in releases}
        toolchains = stored(runner.registry.folder)
    size = sum(toolchain.bytes for toolchain in toolchains)
    if output is Format.JSON:
        entries = [{**(revision_json(ref.revision) or {}), "installed": is_installed[ref.revision.name]} for ref in releases]
        show_json({"releases": entries, "bytes": size})
        return Exit.OK
    table = Table("release", "installed", box=None)
    for name, installed in is_installed.items():
        table.add_row(name, Text("yes", style="green") if installed else "")
    show([table, Text(f"\n{len(toolchains)} installed, {size / _GIB:.1f} GiB")])
    return Exit.OK


@app.command()
@command
def install(
    context: typer.Context,
    revs: Revs,
    family: Family = "iree",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Installs to run at once.")] = 4,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Install releases, several at once. Intact installs are skipped."""
    from rich.text import Text

    with open_runner(context.obj, ()) as runner:
        registry = runner.registry
        refs = list(registry.releases(family)) if revs == ["all"] else [registry.resolve(rev, family) for rev in revs]
        answers = registry.obtain_all(refs, jobs)
    failures = {name: str(answer) for name, answer in answers.items() if isinstance(answer, EnvironmentFailure)}
    obtained = [answers[ref.revision.name] for ref in refs]
    ready = [toolchain for toolchain in obtained if isinstance(toolchain, Toolchain)]
    if output is Format.JSON:
        show_json({"toolchains": [_summary(toolchain) for toolchain in ready], "failures": failures})
    else:
        show(Text(f"{toolchain.revision.name}  {toolchain.root}") for toolchain in ready)
    for message in failures.values():
        print_stderr(f"triage: {message}")
    return Exit.ENVIRONMENT if failures else Exit.OK


@app.command()
@command
def info(
    context: typer.Context,
    rev: Annotated[str, typer.Argument(metavar="REV", help="The toolchain.")] = "installed",
    family: Family = "iree",
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Describe a toolchain: version, commit, backends, phases, dialects, flags."""
    from rich.table import Table
    from rich.text import Text

    with open_runner(context.obj, ()) as runner:
        toolchain = runner.registry.obtain(runner.registry.resolve(rev, family))
        dialects = sorted(runner.registry.dialects(toolchain))
    known = toolchain.capabilities
    if output is Format.JSON:
        lists = {"backends": sorted(known.backends), "phases": list(known.phases)}
        show_json({**_summary(toolchain), **lists, "dialects": dialects, "flags": sorted(known.flags)})
        return Exit.OK
    table = Table.grid(padding=(0, 2))
    for name, value in _summary(toolchain).items():
        if not isinstance(value, dict):
            table.add_row(Text(name, style="dim"), str(value))
    table.add_row(Text("commit", style="dim"), toolchain.revision.commit or "unknown")
    table.add_row(Text("date", style="dim"), toolchain.revision.date or "unknown")
    table.add_row(Text("backends", style="dim"), ", ".join(sorted(known.backends)))
    table.add_row(Text("phases", style="dim"), ", ".join(known.phases))
    if dialects:
        table.add_row(Text("dialects", style="dim"), ", ".join(dialects))
    if known.flags:
        own = sum(flag.startswith(family) for flag in known.flags)
        table.add_row(Text("flags", style="dim"), f"{len(known.flags)}, {own} of them begin with {family}")
    show([table])
    return Exit.OK


@app.command()
@command
def prune(
    context: typer.Context,
    keep: Annotated[
        str, typer.Option(help="Size to keep, such as 8GiB; 0 removes every toolchain that is not in use.")
    ] = "8GiB",
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Remove the least recently used toolchains until the rest fits. Damaged ones go first, those in use stay."""
    from rich.text import Text

    try:
        limit = parse_size(keep) if keep.strip("0") else 0
    except ValueError as error:
        raise BadInput(f"--keep: {error}") from error
    with open_runner(context.obj, ()) as runner:
        removed = prune_folder(runner.registry.folder, limit)
        left = sum(toolchain.bytes for toolchain in stored(runner.registry.folder))
    if output is Format.JSON:
        show_json({"removed": [toolchain.folder.name for toolchain in removed], "bytes_left": left})
        return Exit.OK
    for toolchain in removed:
        used = datetime.fromtimestamp(toolchain.used, UTC).date().isoformat()
        show([Text(f"removed {toolchain.folder.name}  {toolchain.bytes >> 20} MiB, last used {used}")])
    show([Text(f"{left / _GIB:.1f} GiB left")])
    return Exit.OK


def _summary(toolchain: Toolchain) -> dict[str, Any]:
    return {
        "name": toolchain.revision.name,
        "version": toolchain.version,
        "identity": toolchain.identity,
        "root": str(toolchain.root),
        "program": str(toolchain.program),
        "revision": revision_json(toolchain.revision),
    }
