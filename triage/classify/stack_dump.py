"""Native crashes: the lines of a stack dump, and the few frames that tell one crash from another."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

FRAMES = 3
"""Meaningful frames that enter a signature: more of them differ with inlining, fewer name a helper."""

_NUMBERED = re.compile(r"#(?P<index>\d+)\s+0x[0-9a-fA-F]+\s*(?:in\s+)?(?P<rest>.*)")
_COLUMNS = re.compile(r"(?P<index>\d+)\s+\S+\s+0x[0-9a-fA-F]{6,}\s*(?P<rest>.*)")
_TRAILER = re.compile(
    r"Stack dump|PLEASE submit a bug report|Please report issues to https?://|"
    r"\d+\.\s+(?:Program arguments:|Running pass)|\*\*\* Check failure stack trace"
)
_FILE = re.compile(r"\s+(?:\(?\S*\+0x[0-9a-fA-F]+\)|\S+:\d+(?::\d+)?|\+ \d+)\s*\Z|\s*\(\S*\+0x[0-9a-fA-F]+\)\s*\Z")
_CLONE = re.compile(r"\s*\[(?:clone|with|abi)[^\]]*\]|\(\.[\w.]+\)")
_TEMPLATE = re.compile(r"<[^<>]*>")
_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#?\d*\}|'lambda\d*'|\$_\d+|<lambda[^>]*>|\{unnamed[^{}]*\}")
_OPERATORS = re.compile(r"operator\s*(?:<<|>>|<=>|<=|>=|->\*?|<|>)")
_PASS = re.compile(r"(?:^|::)(?P<name>\w+(?:Pass|\w))::runOnOperation\Z")

# Frames that every crash has: the handler, the C library, how passes are run, how functions are wrapped.
_GENERIC = re.compile(
    r"(?:llvm::sys::|SignalHandler|_?_?sigaction|__restore_rt|_?_?sigtramp|abort|raise|gsignal|__GI_|__pthread_kill|pthread_kill|"
    r"__assert|__libc|_start\b|main\b|start_thread|_?_?clone3?\b|__interceptor|___interceptor|backtrace|libc|call_init|"
    r"std::|__gnu_cxx::|__cxxabi|__cxa_|_Unwind|operator new|operator delete|_?_int_free|cfree|free\b|malloc|"
    r"llvm::report_|llvm::install|llvm::function_ref|llvm::detail::|llvm::thread|llvm::ThreadPool|llvm::StdThreadPool|llvm::parallel|"
    r"llvm::cast|llvm::dyn_cast|llvm::isa|decltype|llvm::CrashRecovery|llvm::llvm_unreachable|"
    r"mlir::detail::OpToOpPassAdaptor|mlir::PassManager|mlir::OpPassManager|mlir::Pass::|mlir::failableParallelForEach|"
    r"mlir::parallelFor|mlir::detail::walk|mlir::Operation::walk|mlir::walk|mlir::detail::PassInstrumentation|"
    r"mlir::applyPatternsGreedily|mlir::applyPatternsAndFoldGreedily|mlir::applyOpPatterns|mlir::PatternApplicator|"
    r"GreedyPatternRewriteDriver|RegionPatternRewriteDriver|mlir::applyPartialConversion|mlir::applyFullConversion|"
    r"mlir::OperationConverter|OperationConverter|OperationLegalizer|mlir::ConversionPattern|(?:\w+::)*applyConversion|mlir::OpConversionPattern|mlir::FrozenRewrite|"
    r"ireeCompiler|mlir::iree_compiler::runIreec|mlir::iree_compiler::embed|mlir::iree_compiler::API|iree_compiler_|"
    r"_?Py[A-Z_]|pybind11|nanobind|_PyEval|cfunction|method_vectorcall|object_vacall|slot_tp|type_call|\?\?|0x|<unknown>|\Z)"
)

_SIGNALS = {
    "segmentation fault": "SIGSEGV",
    "segfault": "SIGSEGV",
    "access violation": "SIGSEGV",
    "aborted": "SIGABRT",
    "abort trap": "SIGABRT",
    "floating point exception": "SIGFPE",
    "illegal instruction": "SIGILL",
    "bus error": "SIGBUS",
    "killed": "SIGKILL",
    "trace/breakpoint trap": "SIGTRAP",
    "subprocess aborted": "SIGABRT",
    "segv": "SIGSEGV",
}


@dataclass(slots=True)
class Stack:
    """The frames of one crash as they are read. `last` is the number of the last one, -1 before the first."""

    symbols: list[str] = field(default_factory=list)
    last: int = -1

    @property
    def meaningful(self) -> tuple[str, ...]:
        """The first frames that tell who crashed, innermost first, up to the pass that ran."""
        found: list[str] = []
        for symbol in self.symbols:
            if _GENERIC.match(symbol):
                continue
            short = "::".join(symbol.removesuffix("::call").removesuffix("::lambda").split("::")[-2:])
            if not found or found[-1] != short:  # recursion adds nothing, outer namespaces move between releases
                found.append(short)
            if len(found) == FRAMES or _PASS.search(symbol):
                break
        return tuple(found)

    @property
    def failing_pass(self) -> str | None:
        """The innermost pass on the stack."""
        for symbol in self.symbols:
            if (match := _PASS.search(symbol)) and not _GENERIC.match(symbol):
                return match["name"]
        return None

    def add(self, frame: Frame) -> bool:
        """Whether the frame continues this stack; False when it begins another."""
        if frame.index <= self.last:
            return False
        self.last = frame.index
        if frame.symbol and len(self.symbols) < 200:
            self.symbols.append(frame.symbol)
        return True


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack: its number and the bare qualified name, empty when it has no symbol."""

    index: int
    symbol: str


def frame(text: str) -> Frame | None:
    """` #4 0x00007f.. mlir::Foo::bar(...) Foo.cpp:0:0`, or `4  libX.so 0x00007f.. mlir::Foo::bar(...) + 63`."""
    match = _NUMBERED.match(text) or _COLUMNS.match(text)
    return Frame(int(match["index"]), symbol_of(match["rest"])) if match else None


def told_briefly(captures: Mapping[str, str]) -> str | None:
    """A failed assertion by the function's own name in the place of its whole declaration; None where none is named."""
    function, expression = captures.get("function"), captures.get("expression")
    if not function or not expression:
        return None
    name = "::".join(symbol_of(function).split("::")[-2:])
    place = f" ({captures['file']})" if "file" in captures else ""
    return f"{name}{place}: assertion `{' '.join(expression.split())}' failed"


def trailer(text: str) -> bool:
    """A line that LLVM prints around a stack dump."""
    return bool(_TRAILER.match(text))


def symbol_of(text: str) -> str:
    """A demangled signature -> its qualified name, without arguments, template arguments, file and return type."""
    text = _CLONE.sub("", _FILE.sub("", " " + text)).strip()
    text = text.replace("(anonymous namespace)::", "").replace("`anonymous namespace'::", "")
    text = _OPERATORS.sub("operator", _LAMBDA.sub("lambda", text)).replace("->", "")
    for _ in range(40):
        text, replaced = _TEMPLATE.subn("", text)
        if not replaced:
            break
    text = text.replace("operator()", "call")
    name = text.split("(", 1)[0].split("<", 1)[0].strip()
    return name.rsplit(" ", 1)[-1].lstrip("*&")


def signal_name(value: str) -> str | None:
    """`Segmentation fault`, `SIGSEGV`, `11`, or an exit code such as `139` or `245` -> `SIGSEGV`; None for others."""
    if value.lstrip("-").isdigit():
        number = abs(int(value))
        for candidate in (number, number - 128, 256 - number):
            if 0 < candidate < 32 and (candidate == number or candidate in _CRASHING):
                return signal.Signals(candidate).name
        return None
    return _SIGNALS.get(value.strip().lower(), value if value.startswith("SIG") else None)


_CRASHING = frozenset({4, 5, 6, 7, 8, 9, 11, 24})
"""Signals whose number an exit code may stand for: 128 + n from a shell, 256 - n from a Python wrapper."""
