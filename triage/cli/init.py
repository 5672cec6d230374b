"""`triage init`: the bundled example recipes as a folder to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from typing import Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option
from triage.model.errors import BadInput
from triage.report.document import Code, Paragraph
from triage.report.elements import plural
from triage.report.formats import write_answer
from triage.toolchains.home import disk_errors

_FIRST = "cuda-matmul-f32.yaml"  # small, and its status differs between releases


@command
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create.")],
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Write a first folder of recipes to start from.

    The folder holds the bundled examples with their models: IREE programs, Triton kernels and a compiler behind a command.

    - `triage init recipes`
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not empty; name a new folder")
    with disk_errors(f"write {folder}"):
        installed = Path(str(files("triage"))) / "examples"  # not in a checkout
        source = installed if installed.is_dir() else Path(__file__).parents[2] / "recipes"
        copytree(source, folder, ignore=ignore_patterns("__pycache__"), copy_function=copyfile, dirs_exist_ok=True)
    recipes = sorted(path.name for path in folder.glob("*.yaml"))
    commands = (
        f"triage recipe list {folder}",
        f"triage run {folder / _FIRST} -t 3.0.0 -t 3.3.0",
        f"triage recipe new {folder}/mine.yaml --input model.mlir --backend llvm-cpu",
    )
    written = Paragraph(f"{plural(len(recipes), 'recipe')} written to {folder}; next:")
    write_answer(output, {"folder": folder, "recipes": recipes}, [written, Code("\n".join(commands), "sh")])
    return Exit.OK
