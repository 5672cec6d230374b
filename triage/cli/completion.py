"""Shell completion of option values: revisions that are installed, and the cases of the recipes on the command line."""

from __future__ import annotations

from pathlib import Path

import typer


def complete_revision(incomplete: str) -> list[str]:
    """Return the installed releases that begin with `incomplete`, newest first, those of other families with their prefix."""
    from triage.compilers.registry import DEFAULT_FAMILY, Families
    from triage.toolchains.home import home_path
    from triage.toolchains.install import installed

    names = ["latest", "previous", "installed"]
    for family in Families().values():
        prefix = "" if family.name == DEFAULT_FAMILY else f"{family.name}:"
        releases = installed(home_path() / "toolchains", family.distribution, family.packaging)
        names += [f"{prefix}{release.version}" for release in reversed(releases)]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_case(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of cases that begin with `incomplete`, from the recipes before it on the command line."""
    from triage.cli.context import load_cases
    from triage.model.errors import TriageError

    # An option without its value stops the parser, which then leaves the arguments unread.
    words = [*ctx.args, ctx.params.get("recipe"), *(ctx.params.get("paths") or ())]
    recipes = [path for path in map(Path, filter(None, words)) if path.exists()]
    try:
        return [case.name for case in load_cases(recipes) if case.name.startswith(incomplete)] if recipes else []
    except TriageError:
        return []
