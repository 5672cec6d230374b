"""`triage toolchains` and `triage doctor`: the compilers of this machine, and what else
it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from triage.cli.context import open_engine_for
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption, argument, option
from triage.cli.screen import AppContext, print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, Families
from triage.execution.machine import Grade, checkup
from triage.model.checks import parse_size
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.json_form import as_json
from triage.model.revision import Toolchain, split_revision
from triage.report.document import Block, Facts, Paragraph, Span, Style, Table
from triage.report.elements import plural
from triage.report.formats import write_answer
from triage.toolchains.home import open_home
from triage.toolchains.pruning import bytes_below, prune_home, stored_toolchains
from triage.toolchains.registry import ToolchainRef

app = typer.Typer(
    no_args_is_help=True, help="List, install, describe and prune compilers."
)
_GIB, _MIB = 1 << 30, 1 << 20
_INSTALLS = 4  # at once
_STYLES: dict[Grade, Style] = {
    Grade.GOOD: "good",
    Grade.WEAK: "warning",
    Grade.BROKEN: "bad",
}


@app.command("list")
@command
def list_toolchains(
    context: AppContext,
    families: Annotated[
        list[str] | None,
        argument("[FAMILY...]", "Families, or command:PACKAGE (default: all known)."),
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """List the releases of the package index, the newest last, and show which are
    installed.
    """
    releases: list[dict[str, Any]] = []
    with open_engine_for(context) as engine:
        registry = engine.registry
        for family in families or Families():
            try:
                refs = registry.releases(family)
            # the other families may be on another index, or known already
            except EnvironmentFailure as error:
                print_stderr(f"triage: {error}")
                continue
            for ref in refs:
                more = {
                    "family": family,
                    "installed": registry.is_installed(ref),
                    "uploaded": ref.release and ref.release.date,
                }
                releases.append({**as_json(ref.revision), **more})
        toolchains = stored_toolchains(registry.home)
    if not releases:
        return Exit.ENVIRONMENT
    size = sum(toolchain.bytes for toolchain in toolchains)
    rows = [
        (one["family"], one["name"], Span("yes", "good") if one["installed"] else "")
        for one in releases
    ]
    count = Paragraph(f"{len(toolchains)} installed, {_gib([size])}")
    answer = {"releases": releases, "bytes": size}
    write_answer(
        output, answer, [Table(["family", "release", "installed"], rows), count]
    )
    return Exit.OK


@app.command("install")
@command
def install_toolchains(
    context: AppContext,
    revs: Annotated[
        list[str],
        argument(
            "REV...",
            "Releases such as `3.4.0`, `latest`, `FAMILY:3.2.0`; `all` or "
            "`FAMILY:all` for all of them.",
        ),
    ],
    output: FormatOption = "text",
) -> Exit:
    """Install releases, several at once. Intact installs are skipped."""
    toolchains: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    with open_engine_for(context) as engine:
        registry, refs = engine.registry, list[ToolchainRef]()
        for text in revs:
            family, rev = split_revision(text, Families(), DEFAULT_FAMILY)
            if rev == "all":
                refs += registry.releases(family)
            else:
                refs += [registry.resolve(rev, family)]
        with registry.workspace.threads(_INSTALLS) as pool:
            waiting = [(ref, pool.submit(registry.obtain, ref)) for ref in refs]
            for ref, install in waiting:
                try:
                    summary = _summary(install.result())
                    size = bytes_below(summary["root"])
                    toolchains.append({**summary, "bytes": size})
                except EnvironmentFailure as error:
                    failures[f"{ref.family}:{ref.revision.name}"] = str(error)
    rows = [
        (one["name"], f"{one['bytes'] / _MIB:.0f} MiB", str(one["root"]))
        for one in toolchains
    ]
    count = plural(len(toolchains), "toolchain")
    size_text = _gib(one["bytes"] for one in toolchains)
    write_answer(
        output,
        {"toolchains": toolchains, "failures": failures},
        [Table(["", "size", "folder"], rows), Paragraph(f"{count}, {size_text}")],
    )
    for message in failures.values():
        print_stderr(f"triage: {message}")
    return Exit.ENVIRONMENT if failures else Exit.OK


@app.command()
@command
def info(
    context: AppContext,
    rev: Annotated[
        str, argument("REV", "Revision, such as `3.4.0` or `FAMILY:3.2.0`.")
    ] = "installed",
    output: FormatOption = "text",
) -> Exit:
    """Describe a toolchain: version, commit, backends, phases, flags."""
    family, text = split_revision(rev, Families(), DEFAULT_FAMILY)
    with open_engine_for(context) as engine:
        toolchain = engine.registry.obtain(engine.registry.resolve(text, family))
    known = toolchain.capabilities
    summary = _summary(toolchain)
    names = ("name", "version", "identity", "root", "program")
    rows = [(name, str(summary[name])) for name in names]
    rows += [
        ("commit", toolchain.revision.commit or "unknown"),
        ("date", toolchain.revision.date or "unknown"),
    ]
    lists = {
        "backends": sorted(known.backends),
        "phases": list(known.phases),
    }
    rows += [(name, ", ".join(values)) for name, values in lists.items() if values]
    rows.append(("flags", str(len(known.flags))))
    answer = {**summary, **lists, "flags": sorted(known.flags)}
    write_answer(output, answer, [Facts(rows)], toolchain.revision.name)
    return Exit.OK


@app.command("prune")
@command
def prune_toolchains(
    keep: Annotated[
        str,
        option("Keep this much; 0 removes everything not in use."),
    ] = "8GiB",
    output: FormatOption = "text",
) -> Exit:
    """Remove the least recently used toolchains and files until the rest fits.

    Toolchains, the folders in which compilers of commits are built, and files that are
    made again when they are needed, such as downloads, inputs and results, are removed.
    While another command runs, nothing is removed.
    """
    try:
        limit = parse_size(keep, least=0) if keep.strip("0") else 0
    except ValueError as error:
        raise BadInput(f"--keep: {error}") from error
    home = open_home()
    removed, left = prune_home(home, limit)
    names = [str(entry.folder.relative_to(home.path)) for entry in removed]
    size = _gib(entry.bytes for entry in removed)
    answer = {"removed": names, "bytes_left": left}
    lines: list[Block] = [Paragraph(f"removed {name}") for name in names]
    lines.append(Paragraph(f"removed {size}; {_gib([left])} are left"))
    write_answer(output, answer, lines)
    return Exit.OK


@command
def doctor(output: FormatOption = "text") -> Exit:
    """Check this machine: home, memory, seal, toolchains, index. Exit 4 when compiling
    cannot work.
    """
    checks = checkup(Families())
    broken = any(check.grade is Grade.BROKEN for check in checks)
    rows = []
    for check in checks:
        advice = f"  ({check.advice})" if check.advice else ""
        grade = Span(check.grade.value, _STYLES[check.grade])
        rows.append((grade, check.check, check.found + advice))
    verdict = Paragraph(Span("not ready", "bad") if broken else "ready")
    write_answer(
        output,
        {"checks": checks, "ok": not broken},
        [Table(["", "", ""], rows), verdict],
        "This machine",
    )
    return Exit.ENVIRONMENT if broken else Exit.OK


def _gib(sizes: Iterable[int]) -> str:
    return f"{sum(sizes) / _GIB:.1f} GiB"


def _summary(toolchain: Toolchain) -> dict[str, Any]:
    names = ("version", "identity", "root", "program", "revision")
    return {
        "name": toolchain.revision.name,
        **{name: getattr(toolchain, name) for name in names},
    }
