"""`triage toolchains`: list, install, describe and prune compilers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.completion import complete_revision
from triage.cli.context import open_runner
from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.cli.screen import print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, Families
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Revision, Toolchain
from triage.recipes.values import parse_size
from triage.report.document import Facts, Paragraph, Span, Table
from triage.report.formats import write_answer
from triage.toolchains.install import BUILDERS, stored
from triage.toolchains.install import prune as prune_home
from triage.toolchains.registry import ToolchainRef

app = typer.Typer(no_args_is_help=True, help="List, install, describe and prune compilers.")
_GIB = 1 << 30
_INSTALLS = 4  # at once
Revs = Annotated[
    list[str],
    typer.Argument(
        metavar="REV...",
        help="Releases such as `3.4.0`, `latest`, `FAMILY:3.2.0`; `all` or `FAMILY:all` for all of them.",
        autocompletion=complete_revision,
    ),
]


@dataclass(frozen=True)
class ListedRelease(Revision):
    """A release of the package index."""

    family: str = DEFAULT_FAMILY
    installed: bool = False


@dataclass(frozen=True)
class ReleaseList:
    """The releases of compiler families, the oldest first."""

    releases: list[ListedRelease]
    bytes: int
    """The size of all installed toolchains."""


@dataclass(frozen=True)
class ToolchainSummary:
    """An installed toolchain."""

    name: str
    version: str | None
    identity: str
    root: str
    program: str
    revision: Revision


@dataclass(frozen=True)
class InstallAnswer:
    """The toolchains that are installed now."""

    toolchains: list[ToolchainSummary]
    failures: dict[str, str]
    """The reason for each revision that could not be installed."""


@dataclass(frozen=True)
class ToolchainDescription(ToolchainSummary):
    """What a toolchain can do."""

    backends: list[str]
    phases: list[str]
    dialects: list[str]
    flags: list[str]


@dataclass(frozen=True)
class PruneAnswer:
    """What was removed."""

    removed: list[str]
    bytes_left: int


@app.command("list")
@command
def list_(
    context: typer.Context,
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAMILY...]", help="Families, or command:PACKAGE (default: all known)."),
    ] = None,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """List the releases of the package index, the newest last, and show which are installed."""
    with open_runner(context.obj, ()) as runner:
        registry = runner.registry
        releases: list[ListedRelease] = []
        unknown: list[EnvironmentFailure] = []
        for family in families or Families():
            try:
                refs = registry.releases(family)
            except EnvironmentFailure as error:  # the other families may be on another index, or known already
                unknown.append(error)
                continue
            releases += [
                ListedRelease(**asdict(ref.revision), family=family, installed=registry.is_installed(ref)) for ref in refs
            ]
        toolchains = stored(registry.home)
    if not releases and unknown:
        raise unknown[0]
    for failure in unknown:
        print_stderr(f"triage: {failure}")
    size = sum(toolchain.bytes for toolchain in toolchains)
    rows = [(release.family, release.name, Span("yes", "good") if release.installed else "") for release in releases]
    count = Paragraph(f"{len(toolchains)} installed, {size / _GIB:.1f} GiB")
    write_answer(output, ReleaseList(releases, size), [Table(["family", "release", "installed"], rows), count])
    return Exit.OK


@app.command()
@command
def install(
    context: typer.Context,
    revs: Revs,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Install releases, several at once. Intact installs are skipped."""
    with open_runner(context.obj, ()) as runner:
        registry = runner.registry
        refs: list[ToolchainRef] = []
        for family, rev in map(_split, revs):
            refs += registry.releases(family) if rev == "all" else [registry.resolve(rev, family)]
        answers = registry.obtain_all(refs, _INSTALLS)
    named = {_prefix(ref.family) + ref.revision.name: answer for ref, answer in answers.items()}
    failures = {name: str(answer) for name, answer in named.items() if isinstance(answer, EnvironmentFailure)}
    ready = [answer for answer in named.values() if isinstance(answer, Toolchain)]
    lines = [Facts([(_prefix(toolchain.family) + toolchain.revision.name, str(toolchain.root)) for toolchain in ready])]
    write_answer(output, InstallAnswer([_summary(toolchain) for toolchain in ready], failures), lines)
    for message in failures.values():
        print_stderr(f"triage: {message}")
    return Exit.ENVIRONMENT if failures else Exit.OK


@app.command()
@command
def info(
    context: typer.Context,
    rev: Annotated[str, typer.Argument(metavar="REV", help="The toolchain.", autocompletion=complete_revision)] = "installed",
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Describe a toolchain: version, commit, backends, phases, dialects, flags."""
    family, text = _split(rev)
    with open_runner(context.obj, ()) as runner:
        toolchain = runner.registry.obtain(runner.registry.resolve(text, family))
        dialects = sorted(runner.registry.dialects(toolchain))
    known = toolchain.capabilities
    summary = _summary(toolchain)
    rows = [(name, str(getattr(summary, name))) for name in ("name", "version", "identity", "root", "program")]
    rows += [("commit", toolchain.revision.commit or "unknown"), ("date", toolchain.revision.date or "unknown")]
    rows += [("backends", ", ".join(sorted(known.backends))), ("phases", ", ".join(known.phases))]
    if dialects:
        rows.append(("dialects", ", ".join(dialects)))
    if known.flags:
        own = sum(flag.startswith(family) for flag in known.flags)
        rows.append(("flags", f"{len(known.flags)}, {own} of them begin with {family}"))
    description = ToolchainDescription(
        **vars(summary),
        backends=sorted(known.backends),
        phases=list(known.phases),
        dialects=dialects,
        flags=sorted(known.flags),
    )
    write_answer(output, description, [Facts(rows)], summary.name)
    return Exit.OK


@app.command()
@command
def prune(
    context: typer.Context,
    keep: Annotated[
        str, typer.Option(help="Size to keep, such as 8GiB; 0 removes every toolchain that is not in use.")
    ] = "8GiB",
    output: Annotated[str, format_option()] = "text",
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
        left = sum(entry.bytes for entry in (*stored(home), *stored(home, BUILDERS)))
    lines = []
    for toolchain in removed:
        used = datetime.fromtimestamp(toolchain.used, UTC).date().isoformat()
        lines.append(Paragraph(f"removed {_name(toolchain.folder, home)}  {toolchain.bytes >> 20} MiB, last used {used}"))
    lines.append(Paragraph(f"{left / _GIB:.1f} GiB left"))
    write_answer(output, PruneAnswer([_name(toolchain.folder, home) for toolchain in removed], left), lines)
    return Exit.OK


def _split(text: str) -> tuple[str, str]:
    """Return the compiler family of a REV such as `triton:3.2.0` or `command:cython:3.0.2`, and the REV in that family."""
    for colon in reversed([place for place, character in enumerate(text) if character == ":"]):
        if text[:colon] in Families():
            return text[:colon], text[colon + 1 :]
    return DEFAULT_FAMILY, text


def _prefix(family: str) -> str:
    return "" if family == DEFAULT_FAMILY else f"{family}:"


def _name(folder: Path, home: Path) -> str:
    """Return a toolchain's name, or a builder's path below the home folder."""
    return str(folder.relative_to(home)) if folder.is_relative_to(home / "builders") else folder.name


def _summary(toolchain: Toolchain) -> ToolchainSummary:
    return ToolchainSummary(
        name=toolchain.revision.name,
        version=toolchain.version,
        identity=toolchain.identity,
        root=str(toolchain.root),
        program=str(toolchain.program),
        revision=toolchain.revision,
    )
