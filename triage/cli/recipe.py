"""Commands that write recipes and their known failures: `triage init`, `triage recipe`
and `triage expect`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from typing import Annotated

import typer

from triage.cli.context import cases_in, select_one_family
from triage.cli.exit_codes import Exit, command
from triage.cli.options import (
    Compiling,
    FormatOption,
    FreshOption,
    RecipePaths,
    RunCodeOption,
    SuiteOption,
    argument,
    flag,
    format_option,
    option,
    rev_option,
)
from triage.cli.program import (
    CodeNotAllowed,
    StartedRecipe,
    allow_code,
    read_pasted,
    split_kernel,
)
from triage.cli.program import from_text as start_from_text
from triage.cli.screen import AppContext, print_stderr
from triage.compilers.recipe_start import NewRecipe
from triage.compilers.registry import DEFAULT_FAMILY, recipe_families, suite_reader
from triage.execution.engine import Engine
from triage.execution.judge import status_of
from triage.execution.task import ProbeJob
from triage.model.case import Expectation
from triage.model.errors import BadFiles, BadInput
from triage.model.outcome import Failed, NoAnswer, Passed, Probe, Status
from triage.recipes.expectations import (
    ExpectationUpdate,
    LeftCase,
    ObservedCase,
    matches,
    updated_expectations,
)
from triage.recipes.family import RecipeStart
from triage.recipes.recipe import recipe_schema
from triage.recipes.values import parse_version
from triage.report.document import Code, Paragraph, Table
from triage.report.elements import plural
from triage.report.formats import write_answer, write_report
from triage.report.tables import update_document
from triage.toolchains.home import disk_errors, save_file
from triage.toolchains.registry import ToolchainRef

app = typer.Typer(no_args_is_help=True, help="Write, validate and list recipes.")
_FAILS = "affinity-symbol-undeclared.yaml"
_PASSES = "row-sum.yaml"
_REGRESSED = "cuda-matmul-f32.yaml"
_MODELS = {
    _FAILS: "affinity_symbol.mlir",
    _PASSES: "row_sum.mlir",
    _REGRESSED: "matmul_f32.mlir",
}


@command
def init(
    folder: Annotated[Path, argument("DIR", "Folder to create.")],
    every: Annotated[
        bool, flag("Write all bundled examples, of all compilers.", "--all")
    ] = False,
    output: FormatOption = "text",
) -> Exit:
    """Write a first folder of recipes: one that fails, one that passes and one that
    regressed between two releases.

    - `triage init recipes`
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not empty; name a new folder")
    installed = Path(str(files("triage"))) / "examples"  # not in a checkout
    source = installed if installed.is_dir() else Path(__file__).parents[2] / "recipes"
    with disk_errors(f"write {folder}"):
        if every:
            copytree(
                source,
                folder,
                ignore=ignore_patterns("__pycache__"),
                copy_function=copyfile,
                dirs_exist_ok=True,
            )
        else:
            (folder / "models").mkdir(parents=True)
            for name in (*_MODELS, *(f"models/{model}" for model in _MODELS.values())):
                copyfile(source / name, folder / name)
    recipes = sorted(path.name for path in folder.glob("*.yaml"))
    here = shlex.quote(str(folder))
    commands = (
        f"triage why {here}/{_FAILS}",
        f"triage run {here} -t 3.0.0 -t 3.3.0",
        f"triage bisect {here}/{_REGRESSED} --good 3.0.0 --bad 3.3.0",
        (
            f"triage recipe new mine.yaml --input {here}/models/{_MODELS[_PASSES]} "
            "--backend llvm-cpu"
        ),
    )
    written = Paragraph(f"{plural(len(recipes), 'recipe')} written to {folder}; next:")
    write_answer(
        output,
        {"folder": folder, "recipes": recipes},
        [written, Code("\n".join(commands), "sh")],
    )
    return Exit.OK


@app.command()
@command
def validate(paths: RecipePaths, output: FormatOption = "text") -> Exit:
    """Check recipes without running anything. Print every mistake with file:line:column
    and what to write instead.
    """
    try:
        cases = cases_in(paths)
    except BadFiles as error:
        if output != "json":
            raise
        write_answer(output, {"cases": 0, "problems": error.problems}, ())
        return Exit.USAGE
    recipes = plural(len({case.source for case in cases}), "recipe")
    text = Paragraph(f"{recipes}, {plural(len(cases), 'case')}, no problems")
    write_answer(output, {"cases": len(cases), "problems": []}, [text])
    return Exit.OK


@app.command()
@command
def schema(output: Annotated[str, format_option(only=("json",))] = "json") -> Exit:  # noqa: ARG001 - only JSON
    """Print the JSON Schema of recipe files, for editors."""
    typer.echo(json.dumps(recipe_schema(recipe_families()), indent=2))
    return Exit.OK


@app.command("list")
@command
def list_recipes(
    paths: Annotated[
        list[Path] | None,
        argument(
            "[PATH...]", "Recipe files, or folders of recipes (default: recipes)."
        ),
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """List the cases of recipes."""
    rows, listed = [], []
    for case in cases_in(paths or [Path("recipes")]):
        target = case.target
        shown = f"{target.backend}:{target.chip}" if target.chip else target.backend
        if target.devices:
            shown += f" x{target.devices}"
        rows.append((case.name, shown, case.summary))
        keys = {
            "recipe": case.recipe,
            "case": case.name,
            "summary": case.summary,
            "phase": case.phase,
        }
        listed.append({**keys, "backend": target.backend, "chip": target.chip})
    write_answer(
        output, {"cases": listed}, [Table(["case", "target", "summary"], rows)], "Cases"
    )
    return Exit.OK


@app.command()
@command
def new(
    context: AppContext,
    path: Annotated[Path, argument("RECIPE", "The YAML file to write.")],
    command: Annotated[
        list[str] | None,
        argument(
            "COMMAND",
            "After --: a compiler's command line to take input, target and flags from.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        option(
            "Use this model (.mlir, .mlirbc, .onnx, a .py generator), "
            "FILE.py:KERNEL, or file with one kernel.",
            "--input",
            "-i",
        ),
    ] = None,
    backend: Annotated[
        str | None,
        option(
            "Compile for this backend: llvm-cpu, rocm, cuda, vulkan-spirv, ... "
            "(default: llvm-cpu; cuda for a kernel)."
        ),
    ] = None,
    chip: Annotated[
        str | None, option("Compile for this chip, such as gfx942 or sm_86.")
    ] = None,
    from_text: Annotated[
        Path | None,
        option(
            "Take the program and the command line from this issue or gist; - "
            "is stdin.",
            metavar="FILE",
        ),
    ] = None,
    run_code: RunCodeOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Write a commented recipe to start from.

    A command line is stored in a form that every version understands; --input names the
    program where it reads stdin. The argument types of a kernel are guessed from their
    use and marked as guessed. A kernel that imports
    from its own package is copied next to the recipe, with the functions that it uses.

    - `triage recipe new mine.yaml --input model.mlir --backend rocm --chip gfx942`

    - `triage recipe new mine.yaml -- iree-compile model.mlir
      --iree-hal-target-device=hip --iree-hip-target=gfx942 -o out.vmfb`

    - `triage recipe new mine.yaml --from-text issue.md`
    """
    file, kernel = split_kernel(source) if source else (None, None)
    wanted = NewRecipe(path, Path(file) if file else None, backend, chip, kernel)
    if from_text:
        text = read_pasted(from_text)
        started = start_from_text(context, wanted, text, from_text)
        try:
            allow_code(started, from_text, run_code=run_code)
        # it is written, and runs when the user compiles the recipe
        except CodeNotAllowed as error:
            print_stderr(str(error))
    elif command and kernel is None:
        started = StartedRecipe(wanted, wanted.from_command(command))
    elif wanted.source is None or command:
        raise BadInput(
            "name the model or the kernel's file with --input, or write the command "
            "line that compiles it after --"
        )
    else:
        started = StartedRecipe(wanted, wanted.from_file(wanted.source))
    started = started.with_chip()
    started.write()
    start, reported = started.start, started.reported
    answer = {
        "recipe": path,
        "input": start.input,
        "left_out": [*start.left_out, *start.refused],
        "notes": start.notes,
        "reported_for": reported,
        "reported_failure": next(iter(start.expect), None),
    }
    write_answer(output, answer, [Paragraph(str(path))])
    for remark in _remarks(path, start, reported):
        print_stderr(remark)
    return Exit.OK


def _remarks(
    path: Path,
    start: RecipeStart,
    reported: Sequence[str],
) -> Iterator[str]:
    if start.copied is not None:
        yield f"the program was copied into {start.input}"
    if start.left_out:
        yield (
            "left out, because they do not affect the compiled code: "
            f"{' '.join(start.left_out)}"
        )
    yield from start.notes
    revs = reported
    if start.toolchain:
        revs = [start.toolchain]
    elif not reported and start.family != DEFAULT_FAMILY:
        revs = [f"{start.family}:latest"]
    yield " ".join([f"next: triage run {path}", *(f"-t {rev}" for rev in revs)])


expect = typer.Typer(no_args_is_help=True, help="Update the lists of known failures.")


@expect.command()
@command
def update(
    compiling: Compiling,
    paths: Annotated[
        list[Path],
        argument("PATH...", "Recipe files, folders of recipes, or test suites."),
    ],
    suite_config: SuiteOption = None,
    toolchain: Annotated[
        str,
        rev_option(
            "Match the lists to the results of this toolchain.", "--toolchain", "-t"
        ),
    ] = "latest",
    fresh: FreshOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Rewrite the lists of known failures to match the results of a toolchain.

    Cached results are used; what is not known is compiled and run. In a suite config a
    test that passes leaves its list, and one that fails at another stage moves to the
    other list. In the file that a recipe names, such as `expect: expect.yaml`, an entry
    ends at this version, and a new one begins with the oldest release that is known to
    fail so; both files are written. The new list of a recipe itself is printed, to be
    pasted. Flaky and untestable cases are named and stay as they are; a known failure
    that was not seen is tried once more.

    - `triage expect update recipes/ -t 3.13.0`

    - `triage expect update iree-test-suites/onnx_ops --suite-config onnx_ops_cpu.json
      -t 3.13.0` updates the config
    """
    selection = select_one_family(
        cases_in(paths, suite_config), (toolchain,), "expect update"
    )
    with compiling.open(*selection.cases, fresh=fresh) as engine:
        [ref] = selection.refs(engine)
        probes = list(
            engine.probe_all([ProbeJob(case, ref) for case in selection.cases])
        )
        unsure = _cases_that_fail_again(engine, probes, ref)
        revision = engine.registry.revision(ref)
        since = {
            probe.case.name: _first_known(engine, probe)
            for probe in probes
            if isinstance(probe.outcome, Failed)
        }
    left: list[LeftCase] = []
    observed: dict[Path, list[ObservedCase]] = {}
    for probe in probes:
        case = probe.case
        seen = observed.setdefault(case.source, [])
        reason = _why_left(probe)
        if case.name in unsure:
            reason = "flaky: it passes and fails"
        if reason:
            left.append(LeftCase(case.name, reason))
        else:
            failure, known = probe.outcome.failure, since.get(case.name)
            seen.append(ObservedCase(case, probe.version, failure, known))
    files = []
    for source, seen in observed.items():
        if suite_config:
            files.append(suite_reader().updated_config(source, seen))
        elif seen:
            cases = [case for case in selection.cases if case.source == source]
            files.append(updated_expectations(source, cases, seen))
    for file in files:
        if file.changes and file.paste is None:
            save_file(file.path, file.text, f"write {file.path}")
    found = ExpectationUpdate(revision, files, left)
    write_report(output, found, update_document)
    return Exit.OK


def _cases_that_fail_again(
    engine: Engine, probes: Sequence[Probe], ref: ToolchainRef
) -> set[str]:
    """Compile and run the cases with a known failure that was not seen once more, and
    return those that do not pass again.
    """
    jobs = [
        ProbeJob(probe.case, ref, fresh=True)
        for probe in probes
        if status_of(probe) is Status.XPASS
    ]
    again = engine.probe_all(jobs, "unexpected passes")
    return {probe.case.name for probe in again if not isinstance(probe.outcome, Passed)}


def _first_known(engine: Engine, probe: Probe) -> str | None:
    """Return the oldest version that is known to fail as a probe does, with none
    between that is known not to.
    """
    version = parse_version(probe.version)
    failure = probe.outcome.failure
    oldest = probe.version
    assert failure
    same = Expectation(failure.failure_class, stage=failure.stage)
    for ref in reversed(engine.registry.installed_releases(probe.case.compiler)):
        release = parse_version(ref.revision.name)
        if version and release and release < version:
            known = engine.recall(ProbeJob(probe.case, ref))
        else:
            known = None
        if (
            known
            and isinstance(known.outcome, Failed)
            and not known.outcome.flaky
            and matches(same, known.outcome.failure)
        ):
            oldest = known.version
        elif known and not isinstance(known.outcome, NoAnswer):
            break
    return oldest


def _why_left(probe: Probe) -> str | None:
    """Return why a result changes no list; None if it does."""
    match probe.outcome:
        case NoAnswer(reason=reason):
            return f"untestable: {reason}"
        case Failed(failure, flaky=True):
            return f"flaky: {failure.failure_class}"
    return None
