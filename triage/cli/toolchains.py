"""`triage toolchains` and `triage doctor`: the compilers of this machine, and what else
it has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from triage.cli.cases import open_engine_for, split_revision
from triage.cli.command import (
    AppContext,
    Reply,
    argument,
    command,
    option,
    print_stderr,
    report_rows,
    report_value,
)
from triage.compilers.registry import Families
from triage.execution.machine import Grade, check_machine
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.fields import as_json, parse_size
from triage.model.outcome import Exit
from triage.model.revision import Toolchain
from triage.report.document import Facts, Table
from triage.toolchains.home import open_home, prune_home
from triage.toolchains.registry import ToolchainRef

_INSTALLS = 4  # at once


@command
def list_toolchains(
    app: AppContext,
    families: list[str] | None = argument(
        "FAMILY", "Families, or command:PACKAGE (default: all known)."
    ),
) -> Reply:
    """List the releases of the package index, the newest last, and show which are
    installed.
    """
    releases = []
    with open_engine_for(app) as engine:
        for family in families or Families():
            try:
                refs = engine.registry.releases(family)
            # the other families may be on another index, or known already
            except EnvironmentFailure as error:
                print_stderr(f"triage: {error}")
                continue
            releases += [
                {
                    **as_json(ref.revision),
                    "family": family,
                    "installed": engine.registry.is_installed(ref),
                    "uploaded": ref.release and ref.release.date,
                }
                for ref in refs
            ]
    columns = ("family", "name", "installed")
    code = Exit.OK if releases else Exit.ENVIRONMENT
    return report_rows("releases", releases, columns, code)


@command
def install_toolchains(
    app: AppContext,
    revs: list[str] = argument(
        "REV",
        "Releases such as `3.4.0`, `latest`, `FAMILY:3.2.0`; `all` or "
        "`FAMILY:all` for all of them.",
    ),
) -> Reply:
    """Install releases, several at once. Intact installs are skipped."""
    toolchains = []
    failures = {}
    with open_engine_for(app) as engine:
        registry = engine.registry
        refs: list[ToolchainRef] = []
        for text in revs:
            family, rev = split_revision(text)
            if rev == "all":
                refs += registry.releases(family)
            else:
                refs.append(registry.resolve(rev, family))
        with registry.workspace.threads(_INSTALLS) as pool:
            waiting = [(ref, pool.submit(registry.obtain, ref)) for ref in refs]
            for ref, install in waiting:
                try:
                    toolchains.append(_summary(install.result()))
                except EnvironmentFailure as error:
                    failures[f"{ref.family}:{ref.revision.name}"] = str(error)
    columns = ("name", "root")
    installed = report_rows("toolchains", toolchains, columns, failures=failures)
    if failures:
        problem = EnvironmentFailure("\n".join(failures.values()))
        return replace(installed, error=problem)
    return installed


@command
def info(
    app: AppContext,
    rev: str = argument(
        "REV", "Revision, such as `3.4.0` or `FAMILY:3.2.0`.", default="installed"
    ),
) -> Reply:
    """Describe a toolchain: version, commit, backends, phases, flags."""
    family, text = split_revision(rev)
    with open_engine_for(app) as engine:
        toolchain = engine.registry.obtain(engine.registry.resolve(text, family))
    able = toolchain.capabilities
    backends = sorted(able.backends)
    value = _summary(toolchain)
    shown = ("version", "identity", "root")
    rows = [(name, str(value[name])) for name in shown]
    rows += [("backends", ", ".join(backends)), ("phases", ", ".join(able.phases))]
    value |= {"backends": backends, "phases": able.phases, "flags": sorted(able.flags)}
    return report_value(value, Facts(rows), title=toolchain.revision.name)


def _summary(toolchain: Toolchain) -> dict[str, Any]:
    names = ("version", "identity", "root", "program", "revision")
    values = {name: getattr(toolchain, name) for name in names}
    return {"name": toolchain.revision.name, **values}


@command
def prune_toolchains(
    keep: str = option(
        "SIZE", "Keep this much; 0 removes everything not in use.", default="8GiB"
    ),
) -> Reply:
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
    lines = [
        *(f"removed {name}" for name in names),
        f"{left / (1 << 30):.1f} GiB are left",
    ]
    return report_value({"removed": names, "bytes_left": left}, *lines)


@command
def doctor() -> Reply:
    """Check this machine: home, memory, seal, toolchains, index. Exit 4 when compiling
    cannot work.
    """
    checks = check_machine(Families())
    is_good = all(check.grade is not Grade.BROKEN for check in checks)
    rows = [(check.grade, check.check, check.found, check.advice) for check in checks]
    table = Table(("",) * 4, rows)
    code = Exit.OK if is_good else Exit.ENVIRONMENT
    value = {"checks": checks, "ok": is_good}
    return report_value(value, table, title="This machine", code=code)
