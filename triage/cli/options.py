"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.screen import Format
from triage.execution.judge import Match, any_failure, same_class, same_family, same_signature
from triage.model.outcome import Failure

RecipePaths = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Recipe files, or folders of them.")]
RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe file.")]
CaseOption = Annotated[
    str | None,
    typer.Option("--case", help="Which case of a recipe with a matrix: its name, or `key=value,...` that no other has."),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Compiles at once. Default: one for each core; memory also bounds it."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Compile again even where the result is known.")]
RepoOption = Annotated[
    Path | None, typer.Option("--repo", metavar="DIR", help="A clone of the compiler: go on to commits, and to nightlies.")
]
ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", metavar="FILE", help="Where compilers of commits come from. Default: triage.yaml, else shipped."),
]
AttributeOption = Annotated[
    bool,
    typer.Option("--attribute/--no-attribute", help="Of commits: compare the passes of both ends first, for what they tell."),
]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="How the answer is written to stdout.")]


class Identity(StrEnum):
    """What counts as the same failure."""

    SIGNATURE = "signature"
    CLASS = "class"
    FAMILY = "family"
    ANY = "any"


MATCHES: dict[Identity, Callable[[Failure], Match]] = {
    Identity.SIGNATURE: same_signature,
    Identity.CLASS: same_class,
    Identity.FAMILY: same_family,
    Identity.ANY: lambda _: any_failure,
}
