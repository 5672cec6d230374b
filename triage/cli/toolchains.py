"""`triage toolchains`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

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

app = typer.Typer(no_args_is_help=True, help="The compilers on this machine: list, install, look into, prune.")
Family = Annotated[str, typer.Option(help="The compiler family: iree, triton, or command:PACKAGE.")]
Revs = Annotated[list[str], typer.Argument(metavar="REV...", help="`3.4.0`, `latest`, `previous`, `path:DIR`; `all` releases.")]


@app.command("list")
@command
def list_(context: typer.Context, family: Family = "iree", output: FormatOption = Format.TEXT) -> Exit:
    """The releases of the package index, and which of them are installed."""
    with open_runner(context.obj, ()) as bench:
        places = bench.registry.releases(family)
        have = {place.revision.name: bench.registry.is_installed(place) for place in places}
        on_disk = stored(bench.registry.folder)
    if output is Format.JSON:
        show_json(
            {
                "releases": [
                    {**(revision_json(place.revision) or {}), "installed": have[place.revision.name]} for place in places
                ],
                "bytes": sum(one.bytes for one in on_disk),
            }
        )
        return Exit.OK
    table = Table("release", "installed", box=None)
    for place in places:
        table.add_row(place.revision.name, Text("yes", style="green") if have[place.revision.name] else "")
    show([table, Text(f"\n{len(on_disk)} installed, {sum(one.bytes for one in on_disk) / (1 << 30):.1f} GiB")])
    return Exit.OK


@app.command()
@command
def install(
    context: typer.Context,
    revs: Revs,
    family: Family = "iree",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1)] = 4,
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Install releases, several at once; `all` of them with one word. What is whole already is left alone."""
    with open_runner(context.obj, ()) as bench:
        registry = bench.registry
        places = list(registry.releases(family)) if revs == ["all"] else [registry.resolve(rev, family) for rev in revs]
        answers = bench.registry.obtain_all(places, jobs)
    failures = {name: str(answer) for name, answer in answers.items() if isinstance(answer, EnvironmentFailure)}
    ready = [answers[place.revision.name] for place in places]
    if output is Format.JSON:
        show_json({"toolchains": [_summary(one) for one in ready if isinstance(one, Toolchain)], "failures": failures})
    else:
        show(Text(f"{one.revision.name}  {one.root}") for one in ready if isinstance(one, Toolchain))
    for message in failures.values():
        print_stderr(f"triage: {message}")
    return Exit.ENVIRONMENT if failures else Exit.OK


@app.command()
@command
def info(
    context: typer.Context,
    rev: Annotated[str, typer.Argument(metavar="REV")] = "installed",
    family: Family = "iree",
    output: FormatOption = Format.TEXT,
) -> Exit:
    """What one toolchain is and can do: version, commit, backends, phases, dialects, flags."""
    with open_runner(context.obj, ()) as bench:
        toolchain = bench.registry.obtain(bench.registry.resolve(rev, family))
        dialects = sorted(bench.registry.dialects(toolchain))
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
        table.add_row(Text("flags", style="dim"), f"{len(known.flags)}, of which {own} of {family}")
    show([table])
    return Exit.OK


@app.command()
@command
def prune(
    context: typer.Context,
    keep: Annotated[str, typer.Option(help="How much may stay, such as 8GiB; 0 removes all that is not in use.")] = "8GiB",
    output: FormatOption = Format.TEXT,
) -> Exit:
    """Remove the least recently used toolchains until the rest fits. Broken installs go first; those in use stay."""
    try:
        limit = parse_size(keep) if keep.strip("0") else 0
    except ValueError as error:
        raise BadInput(f"--keep: {error}") from error
    with open_runner(context.obj, ()) as bench:
        removed = prune_folder(bench.registry.folder, limit)
        left = sum(one.bytes for one in stored(bench.registry.folder))
    if output is Format.JSON:
        show_json({"removed": [one.folder.name for one in removed], "bytes_left": left})
        return Exit.OK
    for one in removed:
        used = datetime.fromtimestamp(one.used, UTC).date().isoformat()
        show([Text(f"removed {one.folder.name}  {one.bytes >> 20} MiB, last used {used}")])
    show([Text(f"{left / (1 << 30):.1f} GiB left")])
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
