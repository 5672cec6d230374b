"""The keys of a recipe as pydantic models, and as a JSON schema for editors.

The models check a recipe after its placeholders are replaced. A compiler family with keys of its own subclasses RecipeFormat.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from packaging.version import Version
from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from triage.model.case import CaseSpec, Expectation, RunSpec
from triage.model.execution import Limits, Stage
from triage.recipes import fields
from triage.recipes.family import RecipeFamilies, RecipeFamily
from triage.recipes.files import EXPECT_FILE, check_expect_file, check_input
from triage.recipes.mapping import MappingFormat
from triage.recipes.values import VARIABLE, advice, as_size, as_text, as_variables

_SCALAR = {"type": ["string", "number", "boolean"]}
PLACEHOLDER = {"type": "string", "pattern": r"\$\{[^{}]+\}"}
_VERSION = {"type": "string", "pattern": r"^v?[0-9]+(\.[0-9]+)*([-_.]?[a-z]+[0-9]*)*(\+.+)?$"}
_NOTHING_BLANK = {"type": "string", "pattern": r"\S"}


_Text = Annotated[str, BeforeValidator(as_text), WithJsonSchema(_NOTHING_BLANK)]
_Name = Annotated[
    str,
    BeforeValidator(fields.check_name),
    WithJsonSchema({"type": "string", "pattern": f"^{fields.NAME.pattern}$", "maxLength": fields.MAX_NAME}),
]
_Compiler = Annotated[str, BeforeValidator(fields.check_compiler), WithJsonSchema({"type": "string"})]
_InputPath = Annotated[str, BeforeValidator(check_input), WithJsonSchema(_NOTHING_BLANK)]
# Which words a backend may be hangs on the compiler, so this can only suggest.
_Backend = Annotated[
    str,
    BeforeValidator(fields.check_backend),
    WithJsonSchema({"type": "string", "minLength": 1, "examples": ["cuda", "llvm-cpu", "rocm", "vulkan-spirv"]}),
]
_Chip = Annotated[str, BeforeValidator(fields.check_word), WithJsonSchema({"type": "string", "pattern": r"^\S+$"})]
_Devices = Annotated[
    int | None,
    BeforeValidator(fields.check_devices),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": fields.MAX_DEVICES}, PLACEHOLDER]}),
]
_Phase = Annotated[str, BeforeValidator(fields.check_phase), WithJsonSchema({"type": "string"})]
_FlagText = Annotated[str, BeforeValidator(fields.check_flag), WithJsonSchema({"type": "string", "pattern": r"^(-|\$\{)"})]
_Version = Annotated[str, BeforeValidator(fields.check_version), WithJsonSchema(_VERSION)]
_Failure = Annotated[str, BeforeValidator(fields.check_failure), WithJsonSchema(_NOTHING_BLANK)]
_Stage = Annotated[Stage, BeforeValidator(fields.check_stage), WithJsonSchema({"enum": [stage.value for stage in Stage]})]
_Issue = Annotated[
    str,
    BeforeValidator(fields.check_issue),
    WithJsonSchema({"type": "string", "pattern": f"^({fields.ISSUE.pattern})$"}),
]
_Arg = Annotated[str, BeforeValidator(fields.check_arg), WithJsonSchema(_SCALAR)]
_Key = Annotated[str, BeforeValidator(fields.check_key)]
_Choice = Annotated[str, BeforeValidator(fields.check_choice), WithJsonSchema(_SCALAR)]
_TimeLimit = Annotated[
    tuple[float, bool],
    BeforeValidator(fields.as_time_limit),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^[0-9][0-9.hms]*( cpu)?$", "exclusiveMinimum": 0}),
]
_Size = Annotated[
    int,
    BeforeValidator(as_size),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B$"}),
]

_VARIABLE = {"pattern": f"^{VARIABLE.pattern}$"}
_Variables = Annotated[
    dict[str, str | None],
    BeforeValidator(as_variables),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string", **_VARIABLE}},
                {"type": "object", "propertyNames": _VARIABLE, "additionalProperties": _SCALAR},
            ]
        }
    ),
]


class BoundedFormat(MappingFormat):
    """Something that holds for versions in [since, until)."""

    since: _Version | SkipJsonSchema[None] = Field(
        default=None, description="First version it holds for; left out: from the beginning.", examples=["3.5.0"]
    )
    until: _Version | SkipJsonSchema[None] = Field(
        default=None, description="First version it holds for no longer; left out: to this day.", examples=["3.9.0"]
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since is not None and self.until is not None and Version(self.since) >= Version(self.until):
            empty = f'no version is in the range since "{self.since}" until "{self.until}"'
            raise advice(f"{empty}; until is the first version without it, so it must be later than since.", "until")
        return self


class TargetFormat(MappingFormat):
    """What is compiled for."""

    noun: ClassVar[str] = "a target"

    backend: _Backend = Field(description="Code generator. Each version gets its own spelling of the flag.", examples=["cuda"])
    chip: _Chip | SkipJsonSchema[None] = Field(
        default=None, description="Chip, architecture or CPU.", examples=["sm_86", "gfx942", "znver4"]
    )
    devices: _Devices | SkipJsonSchema[None] = Field(
        default=None, description="How many devices the program is compiled for; 1 when left out.", examples=[2]
    )


class FlagFormat(BoundedFormat):
    """A compiler flag for some versions only."""

    noun: ClassVar[str] = "a flag"

    flag: _FlagText = Field(description="The flag as one argument.", examples=["--iree-opt-level=O3"])


class LimitsFormat(MappingFormat):
    """What one compilation may use."""

    noun: ClassVar[str] = "limits"

    timeout: _TimeLimit | SkipJsonSchema[None] = Field(
        default=None,
        description="Wall time: 120s, 2m, 1h30m, or a number of seconds. With ` cpu` behind it, the time in which the "
        "program waits for a core does not count; it may then take four times as long.",
        examples=["120s", "1h30m", "300s cpu"],
    )
    memory: _Size | SkipJsonSchema[None] = Field(
        default=None, description="Resident memory of all processes together.", examples=["8GiB", "512MiB"]
    )
    output: _Size | SkipJsonSchema[None] = Field(
        default=None,
        description="Bytes in the output file and all other files that it writes to its working and temporary folder.",
        examples=["4GiB", "512MiB"],
    )

    def value(self, default: Limits) -> Limits:
        seconds, without_waiting = self.timeout or (default.timeout, default.without_waiting)
        return Limits(seconds, self.memory or default.memory, self.output or default.output, default.kept, without_waiting)


class ExpectFormat(BoundedFormat):
    """A known failure: a case that fails so is no news, one that passes is."""

    noun: ClassVar[str] = "an expect entry"

    failure: _Failure | SkipJsonSchema[None] = Field(
        default=None, description="Failure class or family; every failure of the stage when left out.", examples=["timeout"]
    )
    stage: _Stage | SkipJsonSchema[None] = Field(
        default=None, description="Stage that fails: compile, run or compare.", examples=["run"]
    )
    issue: _Issue | SkipJsonSchema[None] = Field(
        default=None, description="The issue that tracks it.", examples=["iree-org/iree#19575"]
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.failure is None and self.stage is None:
            raise advice("an expect entry needs a failure class or a stage: write `failure: timeout` or `stage: compile`.")
        return self

    def value(self) -> Expectation:
        return Expectation(self.failure, self.since, self.until, self.issue, self.stage)


def _flag_form(value: Any) -> Literal["text", "mapping"]:
    return "text" if isinstance(value, str) else "mapping"


_FlagEntry = Annotated[
    Annotated[_FlagText, Tag("text")] | Annotated[FlagFormat, Tag("mapping")],
    Discriminator(_flag_form),
]


def _expect_form(value: Any) -> Literal["file", "list"]:
    return "file" if isinstance(value, str) else "list"


_ExpectFile = Annotated[
    str, BeforeValidator(check_expect_file), WithJsonSchema({"type": "string", "pattern": EXPECT_FILE.pattern})
]
_Expect = Annotated[
    Annotated[_ExpectFile, Tag("file")] | Annotated[list[ExpectFormat], Tag("list")],
    Discriminator(_expect_form),
]


class RecipeFormat(MappingFormat):
    """One recipe: what is compiled, for which target, and what is known about it."""

    noun: ClassVar[str] = "a recipe"

    name: _Name = Field(
        description="Unique among all recipes: small letters, digits and hyphens.", examples=["cuda-matmul-f32"]
    )
    summary: _Text = Field(default="", description="One line that says what the case is about.")
    compiler: _Compiler = Field(default="", description="Compiler family.")
    input: _InputPath = Field(
        description="File to compile, relative to the recipe: .mlir, .mlirbc, .onnx or a .py generator; or a pattern with `*` "
        "or `**` for many files, each of which is a case.",
        examples=["models/matmul_f32.mlir", "models/**/*.onnx"],
    )
    args: dict[_Key, _Arg] = Field(
        default={},
        description="Arguments of a generator, each handed over as --key value.",
        examples=[{"size": 4096}],
        json_schema_extra={"propertyNames": {"pattern": f"^{fields.KEY.pattern}$"}},
    )
    target: TargetFormat = Field(description="What to compile for.", examples=[{"backend": "cuda", "chip": "sm_86"}])
    flags: list[_FlagEntry] = Field(
        default=[], description="Compiler flags, each a text or {flag, since, until}.", examples=[["--iree-opt-level=O3"]]
    )
    phase: _Phase | SkipJsonSchema[None] = Field(default=None, description="Stop after this phase of the compiler.")
    matrix: dict[_Key, Annotated[list[_Choice], Field(min_length=1)]] = Field(
        default={},
        description="Every combination is a case; ${key} is filled in within input, args, flags, target and env.",
        examples=[{"dtype": ["f16", "f32"]}],
        json_schema_extra={"propertyNames": {"pattern": f"^{fields.KEY.pattern}$"}},
    )
    env: _Variables = Field(
        default={},
        description="Environment variables beside the few that are passed on: names to pass on as well, or names with values.",
        examples=[{"OMP_NUM_THREADS": "1"}],
    )
    limits: LimitsFormat = Field(
        default_factory=LimitsFormat,
        description="Limits of one compile.",
        examples=[{"timeout": "120s", "memory": "8GiB"}],
    )
    expect: _Expect = Field(
        default=[],
        description="Known failures, or the file with a list of them for each case: `expect.yaml` or `NAME.expect.yaml`.",
        examples=[[{"failure": "shared-memory-overflow"}], "expect.yaml"],
    )

    def toolchain_family(self, compiler: str) -> str:
        """The family whose toolchains compile the recipe; `compiler` is the value of that key or its default."""
        return compiler

    def spec(self) -> CaseSpec | None:
        """What the family needs of a case beyond target and flags."""
        return None

    def run_spec(self, folder: Path, source: Path) -> RunSpec | None:  # noqa: ARG002 - only some families run what they compile
        """How to run what was compiled, None to compile only. BadFiles for mistakes in its files.

        folder: the recipe's; source: the input.
        """
        return None

    def benchmarks(self, folder: Path) -> tuple[RunSpec, ...]:  # noqa: ARG002 - as above
        """The functions whose run time is measured; `folder` is the recipe's."""
        return ()

    def failure_rules(self, folder: Path) -> Path | None:  # noqa: ARG002 - only some families have the key
        """The file of the recipe's own failure rules; `folder` is the recipe's."""
        return None


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def recipe_schema(families: RecipeFamilies) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a recipe file, its definitions inside.

    It describes shapes and words, and which of them belong to which compiler. Relations between keys, such as the order of
    since and until or an unused matrix key, are checked by the loader only.
    """
    whole = RecipeFormat.model_json_schema(mode="validation")
    properties, definitions = whole["properties"], whole["$defs"]
    required = set(whole["required"])
    for family in families.values():
        schema = family.model().model_json_schema(mode="validation")
        for key, value in schema["properties"].items():
            properties.setdefault(key, value)
        definitions |= schema["$defs"]
        required &= set(schema["required"])  # a key that one family does not require is required by conditions
    whole["required"] = [key for key in whole["required"] if key in required]
    default = next(iter(families))
    properties["compiler"] |= {"enum": list(families), "default": default}
    properties["phase"] |= {"enum": list(dict.fromkeys(phase for family in families.values() for phase in family.phases))}
    rules = [
        _of_family(family, list(properties), whole["required"], default=family.name == default) for family in families.values()
    ]
    return {"$schema": DIALECT, "title": "triage recipe", **_trimmed(whole), "allOf": rules}


def _of_family(family: RecipeFamily, properties: Sequence[str], required: Sequence[str], *, default: bool) -> dict[str, Any]:
    """The keys, backends and phases of one compiler, as a condition on `compiler`."""
    own = family.model()
    then: dict[str, Any] = {key: False for key in properties if key not in own.model_fields}
    if family.backends:
        backend = {"anyOf": [{"enum": list(family.backends)}, PLACEHOLDER]}
        then["target"] = {"properties": {"backend": backend}}
    if family.phases:
        then["phase"] = {"enum": list(family.phases)}
    condition: dict[str, Any] = {"properties": {"compiler": {"const": family.name}}}
    if not default:
        condition["required"] = ["compiler"]
    needed = [key for key, field in own.model_fields.items() if field.is_required() and key not in required]
    return {"if": condition, "then": {"properties": then, "required": needed}}


def _trimmed(schema: Any) -> Any:
    """The schema without titles made from key names, and without null defaults."""
    match schema:
        case dict():
            return {
                key: _trimmed(value)
                for key, value in schema.items()
                if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
            }
        case list():
            return [_trimmed(item) for item in schema]
        case _:
            return schema
