"""Which pass failed, and the phase it belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triage.classify.log_lines import clean
from triage.classify.prefilter import Sieve

_DUMP = re.compile(r"IR Dump After (?P<name>(?:\(anonymous namespace\)|\S)+) Failed(?:(?: \(|: )(?P<argument>[\w.-]*)\)?)?")
_BEFORE = re.compile(
    r"IR Dump Before (?P<name>(?:\(anonymous namespace\)|\S+?))(?: \((?P<argument>[\w.-]+)\))?(?: \(\'|:| //|$)"
)
_PIPELINE = re.compile(r"Pipeline failed while executing \[?`(?P<name>[^`]+)` on '(?P<op>[^']+)'")

# Arguments first: they name the dialect. The order matters, longer prefixes come first.
_ARGUMENTS = (
    ("iree-stream-", "stream"),
    ("iree-hal-", "hal"),
    ("iree-flow-", "flow"),
    ("iree-dispatch-creation-", "dispatch-creation"),
    ("iree-global-opt", "global-optimization"),
    ("iree-preprocessing-", "preprocessing"),
    ("iree-vm-", "vm"),
    ("iree-abi-", "abi"),
    ("iree-input-", "input"),
    ("iree-auto-input-", "input"),
    ("iree-stablehlo-", "input"),
    ("iree-torch-", "input"),
    ("torch-iree-", "input"),
    ("torch-", "input"),
    ("stablehlo-", "input"),
    ("tosa-", "input"),
    ("convert-torch-", "input"),
    ("iree-codegen-", "executable-targets"),
    ("iree-llvmcpu-", "executable-targets"),
    ("iree-llvmgpu-", "executable-targets"),
    ("iree-gpu-", "executable-targets"),
    ("iree-rocdl-", "executable-targets"),
    ("iree-rocm-", "executable-targets"),
    ("iree-spirv-", "executable-targets"),
    ("iree-vmvx-", "executable-targets"),
    ("iree-vector-ext-", "executable-targets"),
    ("iree-linalg-ext-", "executable-targets"),
    ("iree-convert-to-llvm", "executable-targets"),
    ("iree-convert-to-nvvm", "executable-targets"),
    ("iree-convert-to-rocdl", "executable-targets"),
    ("iree-convert-to-spirv", "executable-targets"),
)

# Class names, where the argument is not known (a stack frame, an old message).
_NAMES = (
    (
        "stream",
        r"MaterializeHomogeneousEncodings|SpecializeEncodings|CloneToConsumers|ConvertToStream|ScheduleAllocation|"
        r"ScheduleExecution|ScheduleConcurrency|ElideAsync|ElideTimepoints|RefineUsage|EmplaceAllocations|AnnotateAffinit|"
        r"MaterializeCopyOnWrite|PropagateTimepoints|PackConstants|LayoutSlices|FuseDispatchBindings|UnifyEncoding|"
        r"ReuseAllocations|VerifyAsyncAccessRanges|VerifyLowering|EncodeHostTensors|EncodeDeviceTensors|AutomaticReferenceCounting",
    ),
    (
        "hal",
        r"ConvertToHAL|VerifyDevices|MaterializeInterfaces|ResolveDevicePromises|ResolveDeviceAliases|AssignTargetDevices|"
        r"MaterializeTargetDevices|SerializeExecutables|SerializeTargetExecutables|MaterializeResourceCaches|LinkExecutables|"
        r"ResolveExportOrdinals|AssignLegacyTargetDevices|InitializeDevices",
    ),
    (
        "executable-targets",
        r"TranslateExecutables|TranslateTargetExecutable|TranslateAllExecutables|ConfigureExecutables|"
        r"ConfigureTargetExecutable|ConvertTo(?:LLVM|NVVM|ROCDL|SPIRV)|LLVMGPU|LLVMCPU|ROCDL|SPIRV|VMVX|GPU\w|Codegen|"
        r"SelectLoweringStrategy|LowerExecutable|Bufferize|GenericVectorization|TileAndDistribute|VectorDistribut|"
        r"FoldMemRefAliasOps|EmulateNarrowType|MemrefCopyToLinalg|PadDynamicAlloc|LinalgToLoops|ReconcileTranslationInfo",
    ),
    ("vm", r"ConvertToVM|vm::|VMConversion|GlobalInitialization|OrdinalAllocation|DropEmptyModuleInitializers"),
    (
        "flow",
        r"ConvertToFlow|OutlineDispatch|InitializeEmptyTensors|CanonicalizeFlow|VerifyInputLegality|AnnotateDispatches|"
        r"DeduplicateExecutables|InjectDispatch",
    ),
    (
        "dispatch-creation",
        r"DispatchCreation|FormDispatch|FuseMultiUse|FormScalarDispatch|CloneProducersIntoDispatch|CollapseDimensions|"
        r"ConvertDispatchRegions|MaterializeDefaultWorkgroupCount|SetEncoding|FusionPreprocessing|BubbleUpExpandShapes",
    ),
    (
        "global-optimization",
        r"GlobalOpt|RaiseSpecialOps|FuseDequantization|PropagateLinalgTranspose|HoistIntoGlobals|JitGlobals|IPO\b",
    ),
    ("preprocessing", r"Preprocessing"),
    ("abi", r"WrapEntryPoints|ConvertStreamableOps"),
    (
        "input",
        r"AutoInputConversion|ConvertTorch|Torch|StableHLO|TOSA|Tosa|InputConversion|ImportMLProgram|SanitizeModuleNames",
    ),
)
_BY_NAME = tuple((phase, re.compile(rf"(?:{names})")) for phase, names in _NAMES)

_HOST_ENCODINGS = re.compile(r"(?:iree-codegen-)?(?:cpu|gpu)?-?materialize-?host-?encoding", re.I)
"""Named like code generation, run by global optimisation."""

# `iree-hal-configure-executables` and the like run code generation from inside HAL.
_TARGETS = re.compile(r"iree-hal-(?:translate|configure)-\w*-?(?:all-|target-)?executable")


@dataclass(frozen=True, slots=True)
class FailingPass:
    """A pass's class name and, where it was printed, its command line argument."""

    name: str
    argument: str | None = None

    @property
    def phase(self) -> str | None:
        """The IREE phase it runs in; None when it is not known."""
        return phase_of(self.argument or "") or phase_of(self.name)


def phase_of(name: str) -> str | None:
    """The IREE `--compile-to` phase of a pass, named by its argument (`iree-stream-...`) or its class name."""
    if _HOST_ENCODINGS.match(name):
        return "global-optimization"
    if _TARGETS.match(name):
        return "executable-targets"
    for prefix, phase in _ARGUMENTS:
        if name.startswith(prefix):
            return phase
    if name[:1].isupper():
        for phase, names in _BY_NAME:
            if names.match(name):
                return phase
    return None


def failing_pass(text: str) -> FailingPass | None:
    """The pass that a line says failed: a dump after failure, or MLIR's own note."""
    if match := _DUMP.search(text):
        return FailingPass(match["name"].rsplit("::", 1)[-1], match["argument"] or None)
    if match := _PIPELINE.search(text):
        return FailingPass(match["name"])
    return None


class PassScanner:
    """Reads the output of a run with `--mlir-print-ir-after-failure`: hundreds of MB, of which two words matter.

    `failed` holds the failing passes in order of printing: the first is the innermost, where it began. Where IR is printed
    before each pass instead, `begun` is the last that began: of a run that crashed, the one it crashed in.
    """

    def __init__(self) -> None:
        self._sieve = Sieve((" Failed", "Pipeline failed while executing", "IR Dump Before "))
        self.failed: list[FailingPass] = []
        self.begun: FailingPass | None = None

    def feed(self, data: bytes) -> None:
        """Any cut of the stream gives the same result."""
        self._read(self._sieve.feed(data))

    def finish(self) -> FailingPass | None:
        """The first failing pass, or the last that began; None when no pass was named."""
        self._read(self._sieve.finish())
        return self.failed[0] if self.failed else self.begun

    def _read(self, lines: object) -> None:
        for _, raw in lines:  # type: ignore[attr-defined]
            found = failing_pass(clean(raw).text)
            if found and found not in self.failed and len(self.failed) < 100:
                self.failed.append(found)
            elif match := _BEFORE.search(clean(raw).text):
                self.begun = FailingPass(match["name"].rsplit("::", 1)[-1], match["argument"])
