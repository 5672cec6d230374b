"""Read where a compiler failed: the pass that failed, the phase it belongs to, and the
frames of a crash that identify it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from triage.classify.log import HEAD
from triage.classify.rules import compile_regex, log_format, packaged_yaml
from triage.model.content import LineCutter
from triage.model.execution import IR_DUMP, PassName, dumped_pass

_FRAMES = 12  # listed in a failure's details
_MAX_SYMBOLS = 200
_MATCHED = 40  # symbols that a rule may name

_FRAME = re.compile(
    r"(?:(?:#|(?=\d+\s+\S+\s+0x[0-9a-fA-F]{6}))(?P<index>\d{1,9}+)\s+(?:\S+\s+)??0x"
    r"[0-9a-fA-F]+(?:\s+in)?"
    # of absl and glog: `    @     0x7f.. 1234  mlir::Foo::bar()`
    r"|(?:PC: )?@\s+0x[0-9a-f]+(?:\s+\(unknown\)|\s+\d{1,9}(?=\s))?)\s*(?P<rest>.*)"
)
AROUND_STACK = re.compile(
    r"Stack dump|(?:PLEASE|Please) submit a bug report|Please report issues to "
    r"https?://|\*\*\* Check failure stack trace|"
    r"\d+\.\s+(?:Program arguments:|Running pass|<eof> parser|Code "
    r"generation|Optimizer|MLIR Parser|\S+:\d+:\d+: )|"
    # a frame on Windows
    r"(?:0x[0-9A-F]{12,16})*, \S.*\(0x[0-9A-F]+\) \+ 0x[0-9A-F]+ byte\(s\)"
)
TASK = re.compile(
    r"""\d+\.\s+(?:Running pass ['"](?P<running>(?:(?!['"]|[Pp]ass [Mm]anager).)+)"""
    r"""['"] on )"""
)
"""A line of a stack dump that names the pass that ran."""
_STOPPING = frozenset({"abort", "raise", "gsignal", "pthread_kill", "__assert_fail"})
_SYSTEM = re.compile(r"\blib(?:c|pthread|system_\w+)[.-]|/glibc\b")
# Blanks are searched from the first one only: from each one, a long run takes quadratic
# time.
_FILE = re.compile(
    r"(?<!\s)\s++(?:\(?[^\s(]*\+0x[0-9a-fA-F]+\)|\S+:\d+(?::\d+)?|\+ "
    r"\d+)\s*\Z|(?<!\s)\s*+\([^\s(]*\+0x[0-9a-fA-F]+\)\s*\Z"
)
_UNNAMED = re.compile(
    r"\Adecltype\(auto\) |(?:\(anonymous namespace\)|`anonymous namespace'"
    r"|\{anonymous\})::|->"
)
_TEMPLATE = re.compile(r"<[^<>]*>")
_INSTANTIATED = re.compile(r"\b(?:To|T|U) = ([\w:]{1,200})")
_PASS = re.compile(  # of MLIR; then of LLVM, by its old and its new pass manager
    r"(?:^|::)(?:(?P<mlir>\w+)::runOnOperation|(?P<old>\w+)::runOn(?:Machine)?"
    r"(?:Function|Module|Loop|SCC|Region|BasicBlock)"
    r"|(?P<new>\w+Pass)::run(?:Impl)?)\Z"
)
# the passes that ran are nested, and the last is the one that failed; the second form
# is below what the verifier of XLA found
_PASS_FAILED = re.compile(
    r"Pipeline failed while executing (?:\[?(?:`[^`]+` on '[^']+' operation[^`]*, "
    r")*`(?P<name>[^`]+)` on '[^']+'|(?P<bare>\w{4,}+)\Z)"
    r"|\AFailed after (?P<of_hlo>(?!pipeline-start\b)[a-z][\w-]*)\Z"
)


def _is_common(symbol: str) -> bool:
    return log_format("common_frames").match(symbol) is not None


def is_of_header(symbol: str) -> bool:
    """Return whether a header that all of LLVM and MLIR uses defines a function."""
    return log_format("header_frames").match(symbol) is not None


@dataclass
class Stack:
    """The frames of one crash as they are read."""

    symbols: list[str] = field(default_factory=list)
    last: int = -1
    """Number of the last frame."""

    @property
    def specific_frames(self) -> list[str]:
        """The first frames that are specific to the crash, innermost first."""
        symbols = [symbol for symbol in self.symbols if not _is_common(symbol)]
        return [_last_two(symbol) for symbol in symbols[:_FRAMES]]

    @property
    def own_frames(self) -> list[str]:
        """Those of them that are not from a header."""
        symbols = [symbol for symbol in self.symbols if not is_of_header(symbol)]
        return Stack(symbols).specific_frames

    @property
    def crash_site(self) -> str:
        """Where it crashed, as `function in pass`: the innermost function that is not
        from a header, and the pass that ran.

        Only these two: functions between them are inlined and renamed from release to
        release. Without a pass on the stack, the function's caller.
        """
        frames = self.own_frames or self.specific_frames
        if self.failing_pass is None or not frames:
            return " < ".join(frames[:2])
        return f"{frames[0]} in {self.failing_pass.name}"

    def has_symbol(self, regexes: Sequence[str]) -> bool:
        """Return whether a regex matches one of the innermost symbols."""
        return any(
            compile_regex(regex).search(symbol)
            for regex in regexes
            for symbol in self.symbols[:_MATCHED]
        )

    @property
    def failing_pass(self) -> PassName | None:
        """The innermost pass on the stack, or None."""
        for symbol in self.symbols:
            match = _PASS.search(symbol)
            if match and not _is_common(symbol):
                return PassName(match["mlir"] or match["old"] or match["new"])
        return None

    def is_begun_by(self, frame: re.Match[str]) -> bool:
        """Return whether a frame is the first one of another stack."""
        return self._index(frame) <= self.last

    def add(self, frame: re.Match[str]) -> None:
        """Append a frame."""
        self.last = self._index(frame)
        symbol = symbol_of(frame["rest"])
        # stripped functions of the system's libraries get wrong names
        is_named = symbol.startswith("_") or symbol in _STOPPING
        if not is_named and _SYSTEM.search(frame[0]):
            return
        if symbol and len(self.symbols) < _MAX_SYMBOLS:
            self.symbols.append(symbol)

    def _index(self, frame: re.Match[str]) -> int:
        return int(frame["index"] or self.last + 1)


def _last_two(name: str) -> str:
    """Return a function's name with its class or namespace. The outer namespaces change
    between releases.
    """
    return "::".join(name.split("::")[-2:])


def parse_frame(text: str) -> re.Match[str] | None:
    """Parse ` #4 0x00007f.. mlir::Foo::bar(...) Foo.cpp:0:0`, `4  libX.so 0x00007f..
    mlir::Foo::bar(...) + 63`, or
    `@ 0x7f.. mlir::Foo::bar()`. None for another line.
    """
    if "0x" in text:
        return _FRAME.match(text)
    return None


def assertion_headline(captures: Mapping[str, str]) -> str:
    """Describe a failed assertion with its function's name instead of the whole
    declaration; empty if the captures are not those of one.
    """
    function = captures.get("function")
    expression = captures.get("expression")
    if not function or not expression:
        return ""
    name = _last_two(symbol_of(function))
    file = f" ({captures['file']})" if "file" in captures else ""
    return f"{name}{file}: Assertion `{' '.join(expression.split())}' failed"


def short_name(function: str) -> str:
    """Return the last two components of the name in a declaration. A function of a
    header is followed by the type that it is instantiated for.
    """
    symbol = symbol_of(function)
    types = _INSTANTIATED.findall(function)
    if is_of_header(symbol):
        return " ".join([_last_two(symbol), *types[-1:]])
    return _last_two(symbol)


def symbol_of(text: str) -> str:
    """Return the qualified name in a demangled signature, without arguments, template
    arguments, file and return type.

    >>> symbol_of("void mlir::Foo<int>::run(mlir::Operation *) Foo.cpp:12:3")
    'mlir::Foo::run'
    >>> symbol_of("Layout triton::Layout::reshape(...) const")
    'triton::Layout::reshape'
    """
    text = _UNNAMED.sub("", _FILE.sub("", " " + text).strip())
    for _ in range(40):
        text, replaced = _TEMPLATE.subn("", text)
        if not replaced:
            break
    text = text.replace("operator()", "call")
    name = text.split("(", 1)[0].split("<", 1)[0].strip()
    return name.rsplit(" ", 1)[-1].lstrip("*&")


def signal_name(value: str) -> str | None:
    """Return `SIGSEGV` for `Segmentation fault`, `SIGSEGV`, `11`, or an exit code such
    as `139` or `245`; None for a value that means no signal.
    """
    if value.startswith("SIG"):
        return value
    name: str | None = packaged_yaml("compiler_names")["signals"].get(
        value.strip().lower().removeprefix("-")
    )
    return name


def phase_of(failed: PassName) -> str | None:
    """Return the `--compile-to` phase that a pass runs in, if it is known."""
    return _phase_of(failed.argument or "") or _phase_of(failed.name)


@cache
def _phase_of(name: str) -> str | None:
    for entry in packaged_yaml("compiler_names")["phases"]:
        if re.match("|".join(entry["begins"]), name):
            return str(entry["phase"])
    return None


def failing_pass(text: str) -> PassName | None:
    """Return the pass that a line reports as failed, in a dump after failure or in
    MLIR's own note; None if it reports none.

    >>> failing_pass("// -----// IR Dump After CSEPass Failed (cse) //----- //")
    PassName(name='CSEPass', argument='cse')
    """
    dumped = dumped_pass(text[max(0, text.find(IR_DUMP)) :], IR_DUMP)
    if dumped:
        name, has_failed = dumped
        if has_failed:
            return name
    match = _PASS_FAILED.search(text)
    if match:
        qualified = match["name"] or match["bare"] or match["of_hlo"]
        return PassName(qualified.rsplit("::", 1)[-1])
    return None


class PassScanner:
    """Finds the failing pass in hundreds of MB of IR printed after a failure. Of nested
    passes, the innermost is printed first.
    """

    def __init__(self) -> None:
        self._lines = LineCutter(HEAD)
        self._first: PassName | None = None

    def feed(self, data: bytes) -> None:
        """Read a piece of the stream; pieces may be cut anywhere."""
        self._read(self._lines.feed(data))

    def finish(self) -> PassName | None:
        """Return the pass that failed first, if one was named."""
        self._read(self._lines.finish())
        return self._first

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self._first is None and b"ailed" in line:
                self._first = failing_pass(line.decode("utf-8", "replace"))
