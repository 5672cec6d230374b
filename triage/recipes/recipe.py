"""The keys of a recipe as a pydantic model, and as a JSON schema for editors.

The model checks a recipe after its placeholders are replaced. A compiler family with
keys of its own subclasses RecipeFormat.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from packaging.version import Version
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import models_json_schema

from triage.model.case import Case, Expectation, Flag, InputKind, Target
from triage.model.checks import FlagText, Text, fits, known
from triage.model.execution import Limits
from triage.recipes.document import why_unreadable
from triage.recipes.family import RecipeFamilies, RecipeFamily
from triage.recipes.mapping import (
    AtKey,
    MappingFormat,
    OneValue,
    Scalar,
    Size,
    Variables,
)
from triage.recipes.values import did_you_mean, parse_duration, unknown_word

MAX_CASES = 4096
FILE = "file"
"""The key of a case whose input is one of the files of a pattern."""
EXPECT_FILE = r"(?:^|.*[./])expect\.ya?ml$"
"""The name of a file of known failures; no recipe has such a name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the checks of a recipe's values need to know."""

    family: RecipeFamily
    folder: Path | None
    """The folder of relative paths; None means that files are not looked for."""
    failures: Collection[str]
    """Known failure classes. If there are none, any word is accepted."""

    def check_word(self, noun: str, word: str) -> None:
        """Raise ValueError if a word is not a known backend, phase or failure class. If
        none is known, it accepts any word.
        """
        words: dict[str, Collection[str]] = {
            "backend": self.family.backends,
            "phase": self.family.phases,
        }
        known = words.get(noun, self.failures)
        if known and word not in known:
            raise ValueError(unknown_word(word, noun, known, self.family.aliases))


def _setting(info: ValidationInfo) -> Setting:
    assert isinstance(info.context, Setting)
    return info.context


def locate(folder: Path, text: str) -> Path:
    """Return the absolute path of a file that is written relative to a folder."""
    path = folder / text
    return path.parent.resolve() / path.name


def is_pattern(text: str) -> bool:
    """Whether an input names many files, with `*` or `?`."""
    return "*" in text or "?" in text


def matching(folder: Path, pattern: str) -> list[tuple[str, Path]]:
    """Return the files that match a pattern, with the names of their cases, sorted by
    name.

    The name of `models/a/b.mlir` is `a/b` for `models/**/*.mlir`, and `a` for
    `models/*/b.mlir`: the path below the part without wildcards, without the suffix and
    without a file name that all share.
    """
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if is_pattern(part))
    base = locate(folder, str(Path(*parts[:first])))
    files = {}
    for path in base.glob(str(Path(*parts[first:]))):
        inner = path.relative_to(base)
        if path.is_file() and not any(part.startswith(".") for part in inner.parts):
            name = inner.parent
            if is_pattern(parts[-1]) or len(inner.parts) == 1:
                name = inner.with_suffix("")
            files[name.as_posix()] = path
    return sorted(files.items())


def check_file(text: str, info: ValidationInfo) -> str:
    """Raise ValueError if a file of a recipe does not exist."""
    folder = _setting(info).folder
    try:
        missing = folder is not None and not (folder / text).is_file()
    except OSError:  # its name is too long
        missing = True
    if missing:
        raise ValueError(
            f'there is no file "{text}"; paths are relative to the recipe\'s folder.'
        )
    return text


def _check_inside(text: str, info: ValidationInfo) -> str:
    """Raise ValueError if a file is not below the recipe: errors print parts of it."""
    folder = (_setting(info).folder or Path()).resolve()
    if not (folder / text).resolve().is_relative_to(folder):
        raise ValueError(f'"{text}" is not in the recipe\'s folder.')
    return text


def _check_input(text: str, info: ValidationInfo) -> str:
    """Raise ValueError, which says what to write instead, if the family does not take
    the input, or if it does not exist.
    """
    family, folder = _setting(info).family, _setting(info).folder
    suffix = Path(text).suffix
    if family.kind_of(suffix) is None:
        guess = did_you_mean(suffix, family.inputs if suffix else ())
        kinds = ", ".join(family.inputs)
        raise ValueError(
            f'{family.name} does not take the input "{text}" with this suffix{guess} '
            f"Kinds: {kinds}."
        )
    if folder is None:
        return text
    if is_pattern(text):
        _check_matches(folder, text)
        return text
    path = folder / text
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError) as error:
        reason = why_unreadable(path, error)
        raise ValueError(
            f'the input "{text}": {reason} Paths are relative to the recipe\'s folder.'
        ) from None
    if not is_regular:
        raise ValueError(f'the input "{text}" is a folder, or not a regular file.')
    return text


def _check_matches(folder: Path, pattern: str) -> None:
    """Raise ValueError if no files match a pattern, or if they cannot name cases."""
    try:
        files = matching(folder, pattern)
    except ValueError as error:
        raise ValueError(f'the input "{pattern}": {error}.') from None
    if not 0 < len(files) <= MAX_CASES:
        raise ValueError(
            f'{len(files)} files fit the pattern "{pattern}", and one to {MAX_CASES} '
            "may; ** is any folder."
        )
    for name, path in files:
        if re.search(r"[,=\[\]\s]", name):
            advice = "rename it without commas, brackets, = and white space."
            raise ValueError(f'the file "{path}" cannot name a case: {advice}')


def _time_limit(text: str) -> tuple[float, bool]:
    """Return the seconds of a limit such as `120s cpu`, and whether it ends with `cpu`:
    then, the time in which a program waits for a core does not count.
    """
    seconds = text.removesuffix(" cpu")
    return parse_duration(seconds), seconds != text


def _distinct(values: list[str]) -> list[str]:
    for value in values:
        if values.count(value) > 1:  # it would make two cases of the same name
            raise ValueError(f'"{value}" is repeated; remove one.')
    return values


def _as_flag(value: Any) -> Any:
    return {"flag": value} if isinstance(value, str) else value


def _form(value: Any) -> str:
    return "text" if isinstance(value, str) else "list"


File = Annotated[Text, AfterValidator(check_file), AfterValidator(_check_inside)]
"""A file, whose path is relative to the recipe."""
Bounded = TypeVar("Bounded", Flag, Expectation)
_NAME_ADVICE = (
    '"{text}" cannot be a name: use at most 100 lowercase letters, digits and '
    'hyphens, such as "cuda-matmul-f32".'
)
_EXPECT_ADVICE = (
    '"{text}" is not a list of known failures: write `[{failure: timeout}]`, or the '
    "name of a file `expect.yaml`."
)
_KEY_ADVICE = (
    '"{text}" cannot be a key here: use letters, digits, _ and -, starting with a '
    "letter, such as dtype."
)
_Key = Annotated[str, fits("[A-Za-z][A-Za-z0-9_-]*", _KEY_ADVICE)]
_CHOICE_ADVICE = (
    '"{text}" cannot be part of a case name: remove commas, brackets, line breaks and '
    "outer spaces."
)
_Choice = Annotated[Scalar, fits(r"(?!\s)[^,\[\]\n\r\t]*(?<!\s)", _CHOICE_ADVICE)]
_TIME = {
    "type": ["string", "number"],
    "pattern": r"^[0-9][0-9.hms]*( cpu)?$",
    "exclusiveMinimum": 0,
}


def _in_order(item: Bounded) -> Bounded:
    """Raise AtKey if no version is in [since, until)."""
    if item.since and item.until and Version(item.since) >= Version(item.until):
        raise AtKey(
            "until",
            f'until is the first version without it, so "{item.until}" must be later '
            f'than since, "{item.since}".',
        )
    return item


def _names_something(item: Expectation) -> Expectation:
    if item.failure is None and item.stage is None:
        raise ValueError(
            "an entry needs a failure class or a stage: write `failure: timeout` or "
            "`stage: compile`."
        )
    return item


Entries = list[
    Annotated[Expectation, AfterValidator(_in_order), AfterValidator(_names_something)]
]
"""Known failures."""


class LimitsFormat(MappingFormat):
    """What one compilation may use."""

    timeout: (
        Annotated[
            tuple[float, bool],
            BeforeValidator(_time_limit),
            OneValue,
            WithJsonSchema(_TIME),
        ]
        | None
    ) = Field(
        default=None,
        description="Wall time: 120s, 2m, 1h30m, or a number of seconds. With ` cpu` "
        "behind it, the time in which the program waits for a core does "
        "not count; it may then take four times as long.",
        examples=["120s", "1h30m", "300s cpu"],
    )
    memory: Size | None = Field(
        default=None,
        description="Resident memory of all processes together.",
        examples=["8GiB", "512MiB"],
    )
    output: Size | None = Field(
        default=None,
        description=(
            "Bytes in the output file and all other files that it writes to its "
            "working and temporary folder."
        ),
        examples=["4GiB", "512MiB"],
    )

    def value(self, default: Limits) -> Limits:
        """Return the limits, with defaults for those that are not given."""
        given: dict[str, Any] = {"memory": self.memory, "output": self.output}
        if self.timeout:
            given["timeout"], given["without_waiting"] = self.timeout
        known = {name: value for name, value in given.items() if value is not None}
        return replace(default, **known)


class RecipeFormat(MappingFormat):
    """One recipe: what is compiled, for which target, and what is known about it."""

    name: Annotated[Text, fits("[a-z0-9-]{1,100}", _NAME_ADVICE)] = Field(
        description="Unique among all recipes: lowercase letters, digits and hyphens.",
        examples=["cuda-matmul-f32"],
    )
    summary: Text = Field(
        "",
        description="One line that says what the case is about.",
        examples=["a matmul on sm_86"],
    )
    compiler: Text = Field("", description="Compiler family.", examples=["command"])
    input: Annotated[Text, AfterValidator(_check_input)] = Field(
        description="File to compile, relative to the recipe: .mlir, .mlirbc, .onnx "
        "or a .py generator; or a pattern with `*` or `**` for many "
        "files, each of which is a case.",
        examples=["models/matmul_f32.mlir", "models/**/*.onnx"],
    )
    args: dict[_Key, Scalar] = Field(
        {},
        description="Arguments of a generator, each handed over as --key value.",
        examples=[{"size": 4096}],
    )
    target: Target = Field(
        description="What to compile for.",
        examples=[{"backend": "cuda", "chip": "sm_86"}],
    )
    flags: list[
        Annotated[
            Flag,
            AfterValidator(_in_order),
            BeforeValidator(_as_flag, json_schema_input_type=FlagText | Flag),
        ]
    ] = Field(
        [],
        description="Compiler flags, each a text or {flag, since, until}.",
        examples=[["-O3"]],
    )
    phase: Annotated[Text, known("phase")] | None = Field(
        None,
        description="Stop after this phase of the compiler.",
        examples=["executable-targets"],
    )
    matrix: dict[
        _Key, Annotated[list[_Choice], Field(min_length=1), AfterValidator(_distinct)]
    ] = Field(
        {},
        description=(
            "Every combination is a case; ${key} is filled in within input, args, "
            "flags, target and env."
        ),
        examples=[{"dtype": ["f16", "f32"]}],
    )
    env: Variables = Field(
        {},
        description=(
            "Environment variables besides the few that are passed on: names to pass "
            "on as well, or names with values."
        ),
        examples=[{"OMP_NUM_THREADS": "1"}],
    )
    reads: list[Text] = Field(
        [],
        description=(
            "Files and folders that the compile or the run reads besides its input, "
            "relative to the recipe. It can read nothing else of yours."
        ),
        examples=[["include", "../data/weights.bin"]],
    )
    limits: LimitsFormat = Field(
        default=LimitsFormat(),
        description="Limits of one compile.",
        examples=[{"timeout": "120s", "memory": "8GiB"}],
    )
    expect: Annotated[
        Annotated[File, fits(EXPECT_FILE, _EXPECT_ADVICE), Tag("text")]
        | Annotated[Entries, Tag("list")],
        Discriminator(_form),
    ] = Field(
        [],
        description=(
            "Known failures, or the file with a list of them for each case: "
            "`expect.yaml` or `NAME.expect.yaml`."
        ),
        examples=[[{"failure": "shared-memory-overflow"}], "expect.yaml"],
    )

    @model_validator(mode="after")
    def _fits_the_input(self, info: ValidationInfo) -> Self:
        kind = _setting(info).family.kind_of(Path(self.input).suffix)
        if self.args and kind is not InputKind.GENERATOR:
            raise AtKey(
                "args",
                f'only a generator takes args, and the input "{self.input}" is '
                "not one; remove them.",
            )
        if FILE in self.matrix and is_pattern(self.input):
            raise AtKey(
                "matrix",
                f'"{FILE}" names the files of the input\'s pattern; give the '
                "matrix key another name.",
            )
        return self

    def complete(self, case: Case, folder: Path) -> Case:  # noqa: ARG002 - families need it
        """Return a case of the recipe with the values of the family's own keys. Raises
        BadFiles for mistakes in their files.
        """
        return case


def keys_of(family: RecipeFamily) -> type[RecipeFormat]:
    """Import the model of the keys of a family's recipes."""
    if family.keys is None:
        return RecipeFormat
    keys = family.keys()
    assert issubclass(keys, RecipeFormat)
    return keys


def recipe_schema(families: RecipeFamilies) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a recipe file: the keys of the family
    that `compiler` names.

    It describes shapes and words. Relations between keys, such as the order of since
    and until or an unused matrix key, are checked by the loader only.
    """
    models = {name: keys_of(family) for name, family in families.items()}
    wanted = [(model, "validation") for model in models.values()]
    references, schema = models_json_schema(wanted)  # type: ignore[arg-type]
    default = next(iter(families))
    rules = []
    for name in families:
        condition: dict[str, Any] = {"properties": {"compiler": {"const": name}}}
        if name != default:
            condition["required"] = ["compiler"]
        then = references[(models[name], "validation")]
        rules.append({"if": condition, "then": then})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "triage recipe",
        "type": "object",
        "properties": {"compiler": {"enum": list(families), "default": default}},
        "allOf": rules,
        **schema,
    }
