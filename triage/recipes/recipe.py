"""What a recipe may contain: its keys, which are a frozen dataclass whose types check
the values, after placeholders are replaced, and describe them to editors; what a
compiler family contributes; and the text of a new recipe.

A family with keys of its own subclasses Recipe.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from packaging.version import Version

from triage.model.case import Case, Expectation, Flag, Input, InputKind, Target
from triage.model.content import resolve_regular
from triage.model.execution import Limits
from triage.model.fields import (
    NOT_EMPTY,
    REQUIRED,
    Check,
    CheckedBy,
    FlagText,
    Text,
    as_pairs,
    file_key,
    fits,
)
from triage.recipes.document import STRICT, Variables
from triage.recipes.run_values import with_located_file
from triage.recipes.values import (
    name_from,
    recipe_lines,
    unknown_word,
    why_unreadable,
)

MAX_CASES = 4096
SECTIONS = ("input", "args", "flags", "target", "env")
"""Where ${key} is replaced for every family; in flags only the text, not the bounds."""
MODEL_SUFFIX = ".onnx.py"
"""Of the name of a generator that prints an ONNX model."""
FILE = "file"
"""The key of a case whose input is one of the files of a pattern."""
EXPECT_FILE = re.compile(r"(?:^|.*[./])expect\.ya?ml$")
"""The name of a file of known failures; no recipe has such a name."""


@dataclass(frozen=True)
class RecipeContext:
    """Checks what depends on where a recipe is and on its compiler family."""

    family: RecipeFamily
    folder: Path
    """The folder of relative paths."""
    failures: Callable[[], Collection[str]]
    """Returns the known failure classes. If there are none, any word is accepted."""

    def backend(self, word: str) -> str:
        return _check_known(word, "backend", self.family.backends)

    def phase(self, word: str) -> str:
        return _check_known(word, "phase", self.family.phases)

    def failure(self, word: str) -> str:
        return _check_known(word, "failure class", sorted(self.failures()))

    def value(self, text: str) -> str:
        """Return a value with the absolute path of its file."""
        return with_located_file(text, self.folder)

    def file(self, text: str) -> str:
        """Check a file below the recipe: errors print parts of it."""
        _check_file(self.folder, text, self.folder)
        return text

    def input(self, text: str) -> str:
        """Check that the family takes an input, and that it exists."""
        suffix = Path(text).suffix
        if self.family.kind_of(suffix) is None:
            raise ValueError(unknown_word(suffix, "suffix", self.family.inputs))
        if not is_pattern(text):
            _check_file(self.folder, text, Path("/"))
            return text
        files = matching_files(self.folder, text)
        if not 0 < len(files) <= MAX_CASES:
            raise ValueError(
                f'{len(files)} files fit the pattern "{text}", and one to {MAX_CASES} '
                "may; ** is any folder."
            )
        return text


def _check_known(word: str, noun: str, choices: Collection[str]) -> str:
    if choices and word not in choices:
        raise ValueError(unknown_word(word, noun, choices))
    return word


def _check_file(folder: Path, text: str, root: Path) -> None:
    """Refuse what is not a regular file below `root`."""
    try:
        resolve_regular(folder / text, sys.maxsize, root)
    except OSError as error:
        reason = why_unreadable(folder / text, error)
        raise ValueError(
            f'"{text}", relative to the recipe\'s folder: {reason}'
        ) from None


def locate(folder: Path, text: str) -> Path:
    """Return the absolute path of a file that is written relative to a folder."""
    path = folder / text
    return path.parent.resolve() / path.name


def is_pattern(text: str) -> bool:
    """Whether an input names many files, with `*` or `?`."""
    return "*" in text or "?" in text


def matching_files(folder: Path, pattern: str) -> list[tuple[str, Path]]:
    """Return the files that match a pattern, with the names of their cases, sorted by
    name. The only file of another text has an empty name.

    The name of `models/a/b.mlir` is `a/b` for `models/**/*.mlir`, and `a` for
    `models/*/b.mlir`: the path below the part without wildcards, without the suffix and
    without a file name that all share.
    """
    if not is_pattern(pattern):
        return [("", locate(folder, pattern))]
    whole = Path(pattern)
    start = next(part for part in whole.parents if not is_pattern(str(part)))
    base = locate(folder, str(start))
    files = []
    for path in base.glob(str(whole.relative_to(start))):
        name = path.relative_to(base)
        if not path.is_file() or re.search(r"(^|/)\.", name.as_posix()):
            continue
        if is_pattern(whole.name) or len(name.parts) == 1:
            name = name.with_suffix("")
        else:  # all share the file's name
            name = name.parent
        files.append((name.as_posix(), path))
    return sorted(files)


def _distinct(values: list[str]) -> list[str]:
    for value in values:
        if values.count(value) > 1:  # it would make two cases of the same name
            raise ValueError(f'"{value}" is repeated; remove one.')
    return values


def _as_flag(value: Any) -> Any:
    if isinstance(value, str):
        return {"flag": value}
    return value


Bounded = TypeVar("Bounded", Flag, Expectation)


def _check_expectation(item: Bounded) -> Bounded:
    """Refuse bounds with no version between them, and an entry for no failure."""
    if item.since and item.until and Version(item.since) >= Version(item.until):
        raise ValueError(
            f'until is the first version without it, so "{item.until}" must be later '
            f'than since, "{item.since}".'
        )
    if replace(item, since=None, until=None) == Expectation():
        raise ValueError(
            "an entry needs a failure class or a stage: write `failure: timeout` or "
            "`stage: compile`."
        )
    return item


def _without_file_name(value: Any) -> Any:
    """Leave out the name of a file of known failures, whose lists are read later."""
    if isinstance(value, str):
        return ()
    return value


File = Annotated[Text, CheckedBy("file")]
"""A file, whose path is relative to the recipe."""
_NAME_ADVICE = (
    '"{text}" cannot be a name: use at most 100 lowercase letters, digits and '
    'hyphens, such as "cuda-matmul-f32".'
)
_KEY_ADVICE = (
    '"{text}" cannot be a key here: use letters, digits, _ and -, starting with a '
    "letter, such as dtype."
)
_Key = Annotated[str, fits("[A-Za-z][A-Za-z0-9_-]*", _KEY_ADVICE)]
_Args = Annotated[tuple[tuple[str, str], ...], Check(as_pairs, dict[_Key, str])]
_CHOICE_ADVICE = (
    '"{text}" cannot be part of a case name: remove commas, brackets, line breaks and '
    "outer spaces."
)
_Choice = Annotated[str, fits(r"(?!\s)[^,\[\]\n\r\t]*(?<!\s)", _CHOICE_ADVICE)]
_Choices = Annotated[list[_Choice], NOT_EMPTY, Check(_distinct)]
_Flag = Annotated[
    Flag,
    Check(_check_expectation),
    Check(_as_flag, reads=FlagText | Flag, is_first=True),
]
Entries = tuple[Annotated[Expectation, Check(_check_expectation)], ...]
"""Known failures."""
_Expect = Check(_without_file_name, reads=Text | Entries, is_first=True)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One recipe: what is compiled, for which target, and what is known about it."""

    __pydantic_config__: ClassVar = STRICT

    name: Annotated[Text, fits("[a-z0-9-]{1,100}", _NAME_ADVICE)] = file_key(
        REQUIRED,
        "Unique among all recipes: lowercase letters, digits and hyphens.",
        "cuda-matmul-f32",
    )
    summary: Text = file_key(
        "", "One line that says what the case is about.", "a matmul on sm_86"
    )
    compiler: Text = file_key("", "Compiler family.", "command")
    input: Annotated[Text, CheckedBy("input")] = file_key(
        REQUIRED,
        "File to compile, relative to the recipe: .mlir, .mlirbc, .onnx or a .py "
        "generator; or a pattern with `*` or `**` for many files, each of which is a "
        "case.",
        "models/matmul_f32.mlir",
        "models/**/*.onnx",
    )
    args: _Args = file_key(
        (), "Arguments of a generator, each handed over as --key value.", {"n": 4096}
    )
    target: Target = file_key(
        REQUIRED, "What to compile for.", {"backend": "cuda", "chip": "sm_86"}
    )
    flags: tuple[_Flag, ...] = file_key(
        (), "Compiler flags, each a text or {flag, since, until}.", ["-O3"]
    )
    phase: Annotated[Text, CheckedBy("phase")] | None = file_key(
        None, "Stop after this phase of the compiler.", "executable-targets"
    )
    matrix: dict[_Key, _Choices] | None = file_key(
        None,
        "Every combination is a case; ${key} is filled in within input, args, flags, "
        "target and env.",
        {"dtype": ["f16", "f32"]},
    )
    env: Variables = file_key(
        (),
        "Environment variables besides the few that are passed on: names to pass on "
        "as well, or names with values.",
        {"OMP_NUM_THREADS": "1"},
    )
    reads: tuple[Text, ...] = file_key(
        (),
        "Files and folders that the compile or the run reads besides its input, "
        "relative to the recipe. It can read nothing else of yours.",
        ["include", "../data/weights.bin"],
    )
    limits: Limits = file_key(
        Limits(), "Limits of one compile.", {"timeout": "120s", "memory": "8GiB"}
    )
    expect: Annotated[Entries, _Expect] = file_key(
        (),
        "Known failures, or the file with a list of them for each case: `expect.yaml` "
        "or `NAME.expect.yaml`.",
        [{"failure": "shared-memory-overflow"}],
        "expect.yaml",
    )

    def mistakes(self) -> Iterable[tuple[str, str]]:
        """Return what is wrong with keys together, with the key to change."""
        return ()

    def complete(self, case: Case, folder: Path) -> Case:  # noqa: ARG002 - families need it
        """Return a case of the recipe with the values of the family's own keys. Raises
        BadFiles for mistakes in their files.
        """
        return case


@dataclass(frozen=True)
class RecipeFamily:
    """What a recipe for one compiler family may contain."""

    name: str
    """The value of `compiler`."""
    nicknames: tuple[str, ...] = ()
    """Words that people write instead of the name."""
    backends: tuple[str, ...] = ()
    """In the order to show them. If there are none, any word is accepted."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Words that people write for a backend."""
    phases: tuple[str, ...] = ()
    """The phases after which the compiler can stop, in order."""
    inputs: Mapping[str, InputKind] = field(
        default_factory=lambda: {".mlir": InputKind.MLIR, ".mlirbc": InputKind.BYTECODE}
    )
    """Suffix -> kind of input."""
    imported: frozenset[InputKind] = frozenset()
    """The kinds that are converted before the compiler reads them."""
    any_input: bool = False
    """Whether files with other suffixes are accepted, too."""
    sections: tuple[str, ...] = ()
    """The family's own keys in which placeholders are replaced."""
    keys: type[Recipe] = Recipe

    def kind_of(self, suffix: str) -> InputKind | None:
        """Return the kind of an input by its suffix, `.mlir`, or None if the family
        does not accept it.
        """
        return self.inputs.get(suffix, InputKind.OTHER if self.any_input else None)

    def input_at(self, path: Path, args: tuple[tuple[str, str], ...] = ()) -> Input:
        """Return the input in a file. Its suffix decides its kind."""
        kind = self.kind_of(path.suffix) or InputKind.OTHER
        is_model = kind in self.imported or path.name.endswith(MODEL_SUFFIX)
        return Input(path, kind, args, imported=is_model)


RecipeFamilies = Mapping[str, RecipeFamily]
"""Families by name. The first is the family of recipes without the key `compiler`."""


def recipe_json_schema(families: RecipeFamilies) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a recipe file: the keys of the family
    that `compiler` names.

    It describes shapes and words. Relations between keys, such as the order of since
    and until or an unused matrix key, are checked by the loader only.
    """
    from pydantic import TypeAdapter  # slow to import

    adapters = {name: TypeAdapter(family.keys) for name, family in families.items()}
    references, schema = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters.items()]
    )
    default, *others = families
    rules = []
    for name in families:
        condition: dict[str, Any] = {"properties": {"compiler": {"const": name}}}
        if name in others:
            condition["required"] = ["compiler"]
        rules.append({"if": condition, "then": references[(name, "validation")]})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "triage recipe",
        "type": "object",
        "properties": {"compiler": {"enum": list(families), "default": default}},
        "allOf": rules,
        # a text may look like a number
        **json.loads(json.dumps(schema), object_hook=_with_any_scalar),
    }


def _with_any_scalar(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") in ("string", "number", "integer", "boolean"):
        schema["type"] = ["string", "number", "boolean"]
    return schema


@dataclass(frozen=True)
class RecipeStart:
    """The contents of a new recipe."""

    family: str
    """The family of its compiler."""
    input: Path
    target: Target | None
    flags: Sequence[str] = ()
    phase: str | None = None
    keys: Mapping[str, object] = field(default_factory=dict)
    """The keys that only this family has, with their values."""
    comment: str = ""
    """A sentence for the user about these keys."""
    left_out: Sequence[str] = ()
    """Words of a command line that a recipe does not need."""
    refused: Sequence[str] = ()
    """Words of a pasted command line that could start programs or name files."""
    copied: str | None = None
    """The text to write to `input`, unless the file exists."""
    notes: Sequence[str] = ()
    """Sentences for the user, which the recipe holds as comments."""
    guessed: Mapping[str, str] = field(default_factory=dict)
    """Name of an entry of the family's keys whose value is guessed -> why it has this
    value.
    """
    expect: Sequence[str] = ()
    """The class of the failure that was reported."""
    reported: Sequence[str] = ()
    """The revisions for which a text reports it."""
    assumed: Sequence[str] = ()
    """Backend, chip and values that nobody named, such as `llvm-cpu`."""


def new_recipe(title: str, input_path: str, start: RecipeStart) -> str:
    """Return the YAML text of a new recipe. Its name is made from the title."""
    name = summary = name_from(title) or start.family
    if start.target:
        summary += f" on {start.target.chip or start.target.backend}"
    values = {
        "name": name,
        "summary": summary,
        "compiler": start.family,
        "input": input_path,
        **start.keys,
        "target": start.target,
        "flags": start.flags,
        "phase": start.phase,
        "limits": {"timeout": "120s", "memory": "8GiB"},
        "expect": [{"failure": failure} for failure in start.expect],
    }
    notes = [*start.notes, start.comment]
    notes += [f"guessed: {name}, {why}" for name, why in start.guessed.items()]
    comments = "\n".join(filter(None, notes))
    lines = [f"# {line}\n" for line in comments.splitlines()]
    lines += [f"{line}\n" for line in recipe_lines(values)]
    return "".join(lines)
