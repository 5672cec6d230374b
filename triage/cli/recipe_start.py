"""Start a recipe from an input file, a command line, or a text with both: an issue, a gist or a log; try what was guessed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import typer

from triage.classify import classify_log, load_rules
from triage.cli.context import failure_names, open_runner, refs_of
from triage.cli.screen import print_stderr
from triage.compilers.parts import TextExcerpt
from triage.compilers.registry import DEFAULT_FAMILY, family_named, recipe_families, recipe_starters
from triage.execution.engine import Engine
from triage.model.case import Case, Target
from triage.model.errors import BadInput
from triage.model.execution import Execution
from triage.model.outcome import Compiled, Failed, Untestable
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart, new_recipe
from triage.recipes.loader import load_recipes
from triage.report.elements import plural
from triage.toolchains.home import temporary_folder

_VERSION = r"v?(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?![\w.]*\d)"
_SECONDS = 30.0  # of one compile that tries a guess
_OLDER = 4  # installed releases that are tried, the newest included


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for."""

    recipe: Path
    source: Path | None  # the program, instead of one that a text or a command line names
    backend: str | None
    chip: str | None
    kernel: str | None


@dataclass(frozen=True)
class TrialResult:
    """How a new recipe compiles on a toolchain."""

    toolchain: str
    status: str  # passed, failed or untestable
    reason: str | None


def start_from_command(wish: Wish, words: Sequence[str]) -> RecipeStart:
    """Start a recipe from the command line of a compiler."""
    start = _first(each.from_command(words, wish.backend, wish.source) for each in recipe_starters().values())
    if start is None:
        raise BadInput(f"no compiler family reads command lines of {words[0]}; name the model with --input")
    _check_file(start.input)
    if recipe_families()[start.family].kind_of(start.input.suffix) is None:  # a compiler reads a file of any name
        return replace(start, input=wish.recipe.with_suffix(".mlir"), copied=start.input.read_text("utf-8", "replace"))
    return start


def start_from_file(wish: Wish, source: Path) -> RecipeStart:
    """Start a recipe from an input file, by the first family that understands it."""
    _check_file(source)
    starters = recipe_starters().values()
    start = _first(each.from_source(wish.recipe, source, wish.backend, wish.chip, wish.kernel) for each in starters)
    if start is None:
        raise BadInput(f"{source} has no kernel; --kernel names one in a Python file")
    return start


def start_from_text(wish: Wish, source: Path, block: int | None, line: int | None) -> tuple[RecipeStart, list[str]]:
    """Start a recipe from a program and a command line of a text, and return the revisions that it reports about.

    Args:
        wish: The program is written next to its recipe.
        source: The file, or `-` for stdin.
        block: The number of the program to use.
        line: The number of the command line to use.

    Raises:
        BadInput: The text has no program, several, or one that was cut.
    """
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"{source} cannot be read: {error.strerror}") from error
    # The text is about the default family if its compiler is called, else about the first that finds anything.
    found = {name: starter.read_text(text) for name, starter in recipe_starters().items()}
    family = DEFAULT_FAMILY
    if not found[family].commands:
        family = next((name for name, pasted in found.items() if pasted.programs or pasted.commands), family)
    pasted = found[family]
    program = None if wish.source else _chosen("program", pasted.programs, block, "--block")
    if wish.source is None and program is None:
        raise BadInput(f"{source} contains no program; name it with --input")
    if program and program.lacks:
        raise BadInput(
            f"the program in line {program.line} of {source} was cut: {program.lacks}. Name a whole one with --input"
        )
    call = _chosen("command line", pasted.commands, line, "--line")
    copied = program.text if program else None
    place = wish.recipe.with_suffix(".mlir")
    if call:
        file = wish.source or place
        start = _first(each.from_command([call.text], wish.backend, file) for each in recipe_starters().values())
        assert start is not None  # a family found this command line
        if program and start.family != DEFAULT_FAMILY and "define " in program.text:
            start = replace(start, input=wish.recipe.with_suffix(".ll"))
        start = replace(start, copied=copied)
    elif program is None:
        start = start_from_file(wish, wish.source or place)
    elif family != DEFAULT_FAMILY:
        start = _start_from_kernel(wish, family, program)
    elif wish.backend is None:
        raise BadInput(f"{source} contains no command line of a compiler; name what to compile for with --backend")
    else:
        start = RecipeStart(DEFAULT_FAMILY, place, Target(wish.backend), copied=copied)
    versions = _versions(text, family)
    failures = classify_log(BytesIO(text.encode("utf-8", "replace")), load_rules())
    failure = next((failure.failure_class for failure in failures if failure.failure_class in failure_names()), None)
    notes = [*start.notes, *(f"The text also runs: {run}" for run in pasted.runs)]
    if versions:
        notes.append(f"Reported for {', '.join(versions)}.")
    if failure:
        notes.append(f"Reported failure: {failure}. `triage run` says xfail when it reproduces.")
    return replace(start, notes=tuple(notes), expect=(failure,) if failure else ()), versions


def try_start(
    context: typer.Context, start: RecipeStart, title: str, revs: Sequence[str]
) -> tuple[RecipeStart, list[TrialResult]]:
    """Correct the guessed values on the newest installed toolchain, and compile the result on those that are named.

    A newest release that lacks what the program uses is followed by the named ones and by older installed ones, until the
    program compiles on one.
    """
    results: list[TrialResult] = []
    with temporary_folder() as folder, open_runner(context.obj, ()) as runner:
        installed = [*reversed(runner.registry.installed_releases(start.family))]
        named = refs_of(runner, start.family, revs)
        refs = {ref.revision.name: ref for ref in (*installed[:1], *named, *installed[1:_OLDER])}
        if not refs:
            latest = f"{start.family}:latest"
            print_stderr(f"not tried: no release of {start.family} is installed; -t {latest} installs one and tries it")
        for name, ref in refs.items():
            # A release that fails shows what is wrong with the values; one that lacks something shows nothing.
            if any(result.status != "untestable" for result in results) and ref not in named:
                continue
            toolchain = runner.registry.obtain(ref)
            if all(result.status != "passed" for result in results):
                start = _improved(runner, folder, title, start, toolchain)
            outcome = runner.probe_on(_case(folder, title, start), toolchain).outcome
            status = {Compiled: "passed", Untestable: "untestable", Failed: "failed"}[type(outcome)]
            results.append(TrialResult(name, status, outcome.reason or (outcome.failure.headline if outcome.failure else None)))
    return start, results


def _improved(runner: Engine, folder: Path, title: str, start: RecipeStart, toolchain: Toolchain) -> RecipeStart:
    task = runner.progress.task(f"trying guesses  {title}  {toolchain.revision.name}")

    def compile_(candidate: RecipeStart) -> Execution | None:
        case = _case(folder, title, candidate)
        case = replace(case, limits=replace(case.limits, timeout=_SECONDS))
        execution = runner.observe(case, toolchain, lambda invocation: invocation)
        return execution if isinstance(execution, Execution) else None

    try:
        return recipe_starters()[start.family].improve(start, compile_)
    finally:
        task.finish()


def _case(folder: Path, title: str, start: RecipeStart) -> Case:
    source = start.input.absolute()
    if start.copied is not None:
        source = folder.absolute() / start.input.name
        source.write_text(start.copied, "utf-8")
    recipe = folder / "trial.yaml"
    recipe.write_text(new_recipe(recipe_families(), title, str(source), start), "utf-8")
    [case] = load_recipes([recipe], recipe_families(), failure_names())
    return case


def _first(starts: Iterator[RecipeStart | None]) -> RecipeStart | None:
    return next(filter(None, starts), None)


def _check_file(path: Path) -> None:
    try:
        is_there = path.is_file()
    except OSError:  # its name is too long
        is_there = False
    if not is_there:
        raise BadInput(f"there is no input {path}")


def _start_from_kernel(wish: Wish, family: str, program: TextExcerpt) -> RecipeStart:
    place = wish.recipe.with_suffix(".py")
    with temporary_folder() as folder:
        file = folder / place.name
        file.write_text(program.text, "utf-8")
        start = recipe_starters()[family].from_source(wish.recipe, file, wish.backend, wish.chip, wish.kernel)
    if start is None:
        raise BadInput(f"the program in line {program.line} has no kernel; name one with --kernel")
    return start if start.copied is not None else replace(start, input=place, copied=program.text)


def _versions(text: str, name: str) -> list[str]:
    """At most three revisions of the compiler that a text names, those under the issue form's heading first."""
    family = family_named(name)
    heading = re.escape(family.issue_form.version)
    section = re.search(rf"(?ims)^#+ *{heading} *\n(.*?)(?=^#|\Z)", text)
    versions = re.findall(rf"(?m)^[ \t]*{_VERSION}[ \t]*$", section[1]) if section else []
    names = "|".join(re.escape(name) for name in (family.distribution, *family.recipe.nicknames, family.name) if name)
    versions += re.findall(rf"(?i)\b(?:{names})\b[^\n\d]{{0,40}}?(?<![\d.]){_VERSION}", text)
    nightly = re.compile(r".*rc(\d{4})(\d\d)(\d\d)")
    return list(dict.fromkeys(nightly.sub(r"nightly:\1-\2-\3", version) for version in versions))[:3]


def _chosen(noun: str, excerpts: Sequence[TextExcerpt], number: int | None, option: str) -> TextExcerpt | None:
    """The excerpt that is meant. BadInput if there are several and none was chosen, or if there is no such number."""
    if number is not None and number > len(excerpts):
        raise BadInput(f"there is no {noun} {number}: the text has {plural(len(excerpts), noun)}")
    if len(excerpts) > 1 and number is None:
        choices = (
            f"  {index}  line {each.line}: {' '.join(each.text.split())[:160]}" for index, each in enumerate(excerpts, 1)
        )
        raise BadInput("\n".join([f"the text has {plural(len(excerpts), noun)}; choose one with {option} N:", *choices]))
    return excerpts[(number or 1) - 1] if excerpts else None
