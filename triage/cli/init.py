"""`triage init`: the bundled example recipes as a folder to start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.model.errors import BadInput
from triage.report.elements import plural
from triage.report.registry import Report, write_report
from triage.report.shapes import Shape
from triage.toolchains.home import disk_errors

_FIRST = "cuda-matmul-f32.yaml"  # small, and its status differs between releases


@dataclass(frozen=True)
class InitShape(Shape):
    """JSON of `triage init`."""

    folder: str
    recipes: list[str]


@dataclass(frozen=True, slots=True)
class InitReport(Report):
    """The recipes that were written."""

    folder: Path
    recipes: list[str]

    def shape(self) -> InitShape:
        return InitShape(str(self.folder), self.recipes)

    def blocks(self) -> Iterable[RenderableType]:
        yield Text(f"{plural(len(self.recipes), 'recipe')} written to {self.folder}")
        yield Text("next:")
        yield Text(f"  triage recipe list {self.folder}")
        yield Text(f"  triage run {self.folder / _FIRST} -t 3.0.0 -t 3.3.0")
        yield Text(f"  triage recipe new {self.folder}/mine.yaml --input model.mlir --backend llvm-cpu")


@command
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create.")],
    output: Annotated[str, format_option(InitReport)] = "text",
) -> Exit:
    """Write a first folder of recipes to start from.

    The folder holds the bundled examples with their models: IREE programs, Triton kernels and a compiler behind a command.

    - `triage init recipes`
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not empty; name a new folder")
    with disk_errors(f"write {folder}"):
        _copy(_examples(), folder)
    write_report(InitReport(folder, sorted(path.name for path in folder.glob("*.yaml"))), output)
    return Exit.OK


def _examples() -> Traversable:
    """Return the example recipes: in the package when it is installed, in the checkout otherwise."""
    installed = files("triage") / "examples"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "recipes"


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            _copy(entry, target / entry.name)
        elif entry.is_file():
            (target / entry.name).write_bytes(entry.read_bytes())
