"""Commands that write recipes and their known failures: `triage init`, `triage recipe`
and `triage expect`.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns

import typer

from triage.cli.cases import ProgramTarget, cases_in, of_one_family, open_engine_for
from triage.cli.command import (
    RECIPES,
    SUITE,
    AppContext,
    Reply,
    argument,
    command,
    option,
    report,
    report_rows,
    report_value,
    toolchain_option,
)
from triage.cli.program import start_recipe, with_program
from triage.compilers.pasted_text import RecipeRequest
from triage.compilers.registry import RecipesByFamily, load_cases, suite_reader
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput
from triage.model.outcome import Failed, NoAnswer, Probe
from triage.model.revision import Revision
from triage.recipes.expectations import (
    ExpectationUpdate,
    UnchangedCase,
    UpdatedFile,
    updated_expectations,
)
from triage.recipes.recipe import recipe_json_schema
from triage.report.elements import plural
from triage.report.tables import update_document
from triage.toolchains.home import disk_errors, save_file


@command
def init(
    folder: Path = argument("DIR", "Folder to create."),
) -> Reply:
    """Write the bundled examples into a first folder of recipes.

    - `triage init recipes`
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not empty; name a new folder")
    installed = Path(str(files("triage"))) / "examples"  # not in a checkout
    source = installed if installed.is_dir() else Path(__file__).parents[2] / "recipes"
    unwanted = ignore_patterns("__pycache__")
    with disk_errors(f"write {folder}"):
        copytree(
            source, folder, ignore=unwanted, copy_function=_copy, dirs_exist_ok=True
        )
    count = plural(len(list(folder.glob("*.yaml"))), "recipe")
    text = f"{count} written to {folder}"
    return report_value({"folder": folder}, text)


def _copy(source: str, target: str) -> None:
    """Copy a file. `copytree` would collect the errors of all files."""
    with disk_errors(f"write {target}"):
        copyfile(source, target)


@command
def validate(
    paths: list[Path] = argument("PATH", "Recipe files, or folders of recipes."),
) -> Reply:
    """Check recipes without running anything. Print every mistake with file:line:column
    and what to write instead.
    """
    try:
        cases = cases_in(paths)
    except BadFiles as error:
        problems = {"cases": 0, "problems": error.problems}
        return replace(report_value(problems), error=error)
    recipes = plural(len({case.source for case in cases}), "recipe")
    text = f"{recipes}, {plural(len(cases), 'case')}, no problems"
    return report_value({"cases": len(cases), "problems": []}, text)


@command
def schema() -> Reply:
    """Print the JSON Schema of recipe files, for editors, whatever the format."""
    text = json.dumps(recipe_json_schema(RecipesByFamily()), indent=2)
    return Reply(lambda _: typer.echo(text))


@command
def list_recipes(
    paths: list[Path] | None = argument(
        "PATH", "Recipe files, or folders of recipes (default: recipes)."
    ),
) -> Reply:
    """List the cases of recipes."""
    listed = [
        {
            "recipe": case.recipe,
            "case": case.name,
            "summary": case.summary,
            "phase": case.phase,
            "backend": case.target.backend,
            "chip": case.target.chip,
        }
        for case in load_cases(paths or [Path("recipes")])
    ]
    columns = ("case", "backend", "chip", "summary")
    return report_rows("cases", listed, columns)


@command
def new(
    target: ProgramTarget,
    path: Path = argument("RECIPE", "The YAML file to write."),
    command: list[str] | None = argument(
        "COMMAND",
        "After --: a compiler's command line to take input, target and flags from.",
    ),
    source: str | None = option(
        "FILE",
        "Use this model (.mlir, .mlirbc, .onnx, a .py generator), FILE.py:KERNEL, "
        "file with one kernel, or text with a program (.md, .txt, .log, .html; - is "
        "stdin).",
        "--input",
        "-i",
    ),
) -> Reply:
    """Write a commented recipe to start from.

    A command line is stored in a form that every version understands; --input names the
    program where it reads stdin. The argument types of a kernel are guessed from their
    use and marked as guessed. A kernel that imports
    from its own package is copied next to the recipe, with the functions that it uses.

    - `triage recipe new mine.yaml --input model.mlir --backend rocm --chip gfx942`

    - `triage recipe new mine.yaml -- iree-compile model.mlir
      --iree-hal-target-device=hip --iree-hip-target=gfx942 -o out.vmfb`

    - `triage recipe new mine.yaml --input issue.md`
    """
    if path.suffix not in RECIPES:
        raise BadInput(f"{path}: the name of a recipe ends with .yaml")
    if not source and not command:
        raise BadInput("name a program with --input, or a command line after --")
    request = RecipeRequest(path, None, target.backend, target.chip, None)
    if source:
        request = with_program(request, source)
    words = command or [""]  # one word if they have options
    line = shlex.join(words) if words[1:] else words[0]
    started = start_recipe(target.app, request, source or "", line)
    start = started.start
    started.write()
    written = {
        "recipe": path,
        "input": start.input,
        "left_out": [*start.left_out, *start.refused],
        "notes": start.notes,
        "reported_for": start.reported,
        "reported_failure": next(iter(start.expect), None),
    }
    for note in start.notes:
        target.app.note(note)
    return report_value(written, str(path))


@command
def update(
    app: AppContext,
    paths: list[Path] = argument(
        "PATH", "Recipe files, folders of recipes, or test suites."
    ),
    suite_config: list[Path] | None = SUITE,
    toolchain: str = toolchain_option(
        "Match the lists to the results of this toolchain.", default="latest"
    ),
) -> Reply:
    """Rewrite the lists of known failures to match the results of a toolchain.

    Cached results are used; what is not known is compiled and run. In a suite config a
    test that passes leaves its list, and one that fails at another stage moves to the
    other list. In the file that a recipe names, such as `expect: expect.yaml`, an entry
    ends at this version, and a new one begins with it; both files are written. The new
    list of a recipe itself is printed, to be pasted. Flaky and untestable cases are
    named and stay as they are.

    - `triage expect update recipes/ -t 3.13.0`

    - `triage expect update iree-test-suites/onnx_ops --suite-config onnx_ops_cpu.json
      -t 3.13.0` updates the config
    """
    cases = of_one_family(cases_in(paths, suite_config), (toolchain,))
    with open_engine_for(app, cases) as engine:
        ref = engine.registry.resolve(toolchain, cases[0].compiler)
        probes = engine.probe_in_order([ProbeJob(case, ref) for case in cases])
        revision = engine.registry.revision(ref)
    update_file = updated_config if suite_config else updated_expectations
    updated = updated_lists(revision, probes, update_file)
    for file in updated.files:
        if file.changes and file.paste is None:
            save_file(file.path, file.text, f"write {file.path}")
    return report(updated, update_document)


def updated_lists(
    revision: Revision,
    probes: Sequence[Probe],
    update: Callable[[Path, Sequence[Case], Sequence[Probe]], UpdatedFile],
) -> ExpectationUpdate:
    """Return the lists of known failures as the probes of all cases leave them. update:
    updates the list for the cases of a file to what was seen of some of them.
    """
    left: list[UnchangedCase] = []
    tested = defaultdict[Path, list[Probe]](list)
    for probe in probes:
        case = probe.case
        match probe.outcome:
            case NoAnswer(reason=reason):
                left.append(UnchangedCase(case.name, f"untestable: {reason}"))
            case Failed(failure, flaky=True):
                left.append(UnchangedCase(case.name, f"flaky: {failure.failure_class}"))
            case _:
                tested[case.source].append(probe)
    files = []
    for source, of_source in tested.items():
        its_cases = [probe.case for probe in probes if probe.case.source == source]
        files.append(update(source, its_cases, of_source))
    return ExpectationUpdate(revision, files, left)


def updated_config(
    source: Path, _: Sequence[Case], tested: Sequence[Probe]
) -> UpdatedFile:
    """Update the lists of a test suite's config."""
    return suite_reader().updated_config(source, tested)
