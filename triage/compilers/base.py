"""The port a compiler family implements. Adapters translate; they never run anything on a case."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from triage.mlir import Module
from triage.mlir.fingerprint import Vocabulary
from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.outcome import Untestable
from triage.model.revision import Capabilities, Toolchain


@dataclass(frozen=True, slots=True)
class Description:
    """What an installed compiler tells of itself. version: PEP 440; commit: full sha; date: `YYYY-MM-DD`."""

    version: str | None
    commit: str | None
    date: str | None
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class Wheel:
    """A release is its wheel, unpacked alone. interpreted: it is run by a Python of the version that the wheel is for; a
    native binary needs none, so that any wheel of the platform will do.
    """

    interpreted: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """A release is a virtual environment that holds the package and what it depends on. beside: requirements that are
    installed with it.
    """

    beside: tuple[str, ...] = ()


Packaging = Wheel | Environment

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Invocation:
    """What to run. `options`: all arguments but program, input and output; they enter the evidence key.
    `printing`: options that only change what is printed, and enter no key. `env`: variables beside the inherited ones.
    `launcher`: what runs in the program's place, such as an interpreter and a script; enters no key.
    `places`: for a command line of the user's own, which `options` then are: what `{name}` in them stands for. `{input}`
    and `{output}` are known anyway, and nothing is added.
    """

    options: tuple[str, ...]
    printing: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ()
    places: Mapping[str, str] | None = None

    def argv(self, program: Path, source: Path, output: Path) -> list[str]:
        """The command line, program first."""
        if self.places is not None:
            known = {**self.places, "input": str(source), "output": str(output)}
            return [_PLACE.sub(lambda found: known.get(found[1], found[0]), word) for word in self.options]
        begin = self.launcher or (str(program),)
        return [*begin, *self.options, *self.printing, str(source), "-o", str(output)]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a family reads out of a run beside its failures. phase: the one it ended in; metrics: name -> value, with the
    unit at the name's end (`shared_bytes`) where it is no count.
    """

    phase: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MlirTools:
    """What a toolchain of an MLIR compiler has for programs in between. optimizer: its `opt` program, which parses and
    prints and runs passes; python_root, package: where its Python bindings are imported from (`package.ir`).
    """

    optimizer: Path
    python_root: Path
    package: str


@dataclass(frozen=True, slots=True)
class Importer:
    """What turns ONNX into the family's input: a Python module, run as `module MODEL -o FILE`, and the packages whose
    versions decide what it makes.
    """

    module: str
    packages: tuple[str, ...]


class Ir(Protocol):
    """How a family's IR is made to be printed."""

    @property
    def words(self) -> Vocabulary:
        """What its operations, types and passes are called."""

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        """Whether this compiler knows the options that print it."""

    def phases(self, toolchain: Toolchain, last: str | None) -> tuple[str, ...]:
        """The phases whose output can be compared, in order, up to `last`; all where it is None or none of them."""

    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        """The same compile, ended after a phase, its output in generic form."""

    def footprint_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        """The phase whose output tells most of what a program compiled up to `last` asks for; None where none does."""

    def footprint(self, printed: Path, backend: str) -> Mapping[str, float]:
        """What a program asks for, from its IR after that phase: numbers as in `RunFacts`."""

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        """The same compile, printing the IR after each pass that changed it; `only`: after those with this argument."""


class Runner(Protocol):
    """How a family's compiled programs are run on this machine, by a package that is released beside the compiler."""

    distribution: str

    def runs(self, case: Case) -> bool:
        """Whether the case is compiled for this machine."""

    def program(self, root: Path) -> Path | None:
        """The program that runs a compiled one and takes the time, in an install of the package."""

    def argv(self, program: Path, module: Path, function: str, types: tuple[str, ...]) -> list[str] | None:
        """The command that runs a function several times, on zeros; None where an argument's size is not known."""

    def seconds(self, said: str) -> list[float]:
        """Wall time of each repetition, from what the command printed."""


class Compiler(Protocol):
    """One compiler family."""

    name: str
    distribution: str  # empty where there are no releases, only folders
    packaging: Packaging
    where: str  # one sentence: which folders `locate` understands

    def unsupported(self, version: str) -> str | None:
        """Why a release cannot compile anything here, known without installing it; None when it may."""

    def locate(self, root: Path) -> Path | None:
        """The native binary below an installation, a build tree or a virtual environment; None when there is none."""

    def essence(self, program: Path) -> tuple[Path, ...]:
        """The files whose bytes are the compiler: the binary and the libraries that hold its code."""

    def describe(self, program: Path) -> Description:
        """Ask the binary. EnvironmentFailure when it does not run."""

    def dialects(self, program: Path) -> frozenset[str]:
        """The dialects it knows, empty where it does not tell; no compile needs them. EnvironmentFailure as `describe`."""

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        """The options for this case on this version, or why there can be none."""

    def naming_the_pass(self, invocation: Invocation, *, crashed: bool) -> Invocation:
        """The same compile, printing which pass failed; `crashed`: the one before ended by a signal."""

    def told(self, execution: Execution) -> RunFacts:
        """What a finished run told of itself."""

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:
        """The toolchain's own MLIR tools; None where the family or the installation has none."""

    def ir(self) -> Ir | None:
        """How the family's IR is printed; None where it cannot be."""

    def placement(self) -> Placement | None:
        """How the family's programs and options name devices; None where they cannot."""

    def runner(self) -> Runner | None:
        """How its programs are run on this machine; None where they cannot be."""


@dataclass(frozen=True, slots=True)
class PlacementWords:
    """How operations are read. interface: the attribute of an argument or result that places it; placed_by: attributes
    of an operation that place its results; moves: operations that move a value to another device; barrier: the operation
    that keeps optimizations apart; carried: dialects and
    operations that only pass values on, wherever these are; updates: operation -> the operand it writes in place;
    passes_on: operations whose first operand is their result; loads, stores: of a global; constants: of tensors; tiled: what
    is tiled and padded; demoted: element type -> the option without which it is computed in a narrower one.
    """

    interface: str
    placed_by: tuple[str, ...]
    moves: frozenset[str]
    barrier: str
    carried: frozenset[str]
    updates: dict[str, int]
    passes_on: frozenset[str]
    loads: frozenset[str]
    stores: frozenset[str]
    constants: frozenset[str]
    attention: frozenset[str]
    tiled: frozenset[str]
    demoted: dict[str, str]


@dataclass(frozen=True, slots=True)
class MissingTypes:
    """Element types that a backend lacks, as they were seen to fail. chips: the chips it is about, None for all; interface:
    only an argument or result of that type fails.
    """

    backends: frozenset[str]
    types: frozenset[str]
    why: str
    chips: re.Pattern[str] | None = None
    interface: bool = False
    unless: str | None = None  # an option without which the type is replaced before it can fail


@dataclass(frozen=True, slots=True)
class Declared:
    """The devices that options declare: name -> the word that declares it. problem: why the compiler refuses them; sole: an
    option beside which no other declares anything.
    """

    devices: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    sole: str | None = None


@dataclass(frozen=True, slots=True)
class Solver:
    """The analysis that finds a device for every value in a limited number of iterations. limit: the option up to its `=`, None
    where this version has none. phase: by whose end the analysis has succeeded; family: of the failures that say it did
    not. prepared, prepared_phase: options and phase of a compile whose output it can be run on alone, with `analysis` as
    options of the optimizer.
    """

    limit: str | None
    phase: str
    family: str
    prepared: tuple[str, ...]
    prepared_phase: str
    analysis: tuple[str, ...]


class Placement(Protocol):
    """Devices of one compiler family."""

    @property
    def words(self) -> PlacementWords:
        """How its operations are read."""

    @property
    def missing_types(self) -> Sequence[MissingTypes]:
        """What its backends lack."""

    def devices_in(self, text: str) -> Iterator[str]:
        """The names of the devices that an attribute's or a type's text refers to."""

    def position(self, device: str) -> int | None:
        """The position that a device's name stands for; None where it is a name of the user's own."""

    def declared_by(self, options: Sequence[str]) -> Declared:
        """What a command line declares."""

    def declared_in(self, module: Module) -> Declared:
        """What the module declares itself."""

    def declaring(self, devices: Sequence[str], backend: str | None, given: Sequence[str]) -> tuple[str, ...]:
        """The options that declare these devices, for a backend, as like the given ones as can be."""

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        """The backend and the chip that a command line compiles for; None for what it does not name, or names several of."""

    def gpu(self, backend: str | None) -> bool:
        """Whether a backend's programs run on a GPU."""

    def solver(self, toolchain: Toolchain) -> Solver:
        """How the analysis of devices is limited and measured on this version."""


_MARK = "triage: "


def lines_told(execution: Execution) -> RunFacts:
    """Lines that begin with `triage: ` and go on as JSON: `{"stage": "llir"}` as a stage begins, and numbers as
    `{"metrics": {"shared_bytes": 4096}}`. Other lines, and what is no number, are passed over.
    """
    phase: str | None = None
    metrics: dict[str, float] = {}
    for line in execution.stdout.text.splitlines():
        if not line.startswith(_MARK):
            continue
        try:
            said = json.loads(line.removeprefix(_MARK))
        except ValueError:
            continue
        if not isinstance(said, dict):
            continue
        if isinstance(stage := said.get("stage"), str):
            phase = stage
        if isinstance(numbers := said.get("metrics"), dict):
            metrics |= {str(name): value for name, value in numbers.items() if type(value) in (int, float)}
    return RunFacts(phase, metrics)
