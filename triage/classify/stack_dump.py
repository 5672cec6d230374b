"""Parse the stack dumps of native crashes, and select the frames that identify a
crash.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from triage.classify.rules import compile_regex, packaged_yaml

_FRAMES = 12  # listed in a failure's details
_MAX_SYMBOLS = 200
_MATCHED = 40  # symbols that a rule may name

_NUMBERED = re.compile(
    r"#(?P<index>\d{1,9}+)\s+0x[0-9a-fA-F]+\s*(?:in\s+)?(?P<rest>.*)"
)
_COLUMNS = re.compile(r"(?P<index>\d{1,9}+)\s+\S+\s+0x[0-9a-fA-F]{6,}\s*(?P<rest>.*)")
# of absl and glog: `    @     0x7f.. 1234  mlir::Foo::bar()`
_AT_ADDRESS = re.compile(
    r"(?:PC: )?@\s+0x[0-9a-f]+\s+(?:\(unknown\)\s+|\d{1,9}\s+)?(?P<unnumbered>\S.*)"
)
# of gdb, whose innermost frame has no address
_OF_DEBUGGER = re.compile(
    r"#(?P<index>\d{1,9}+)\s+(?P<rest>[\w:~<>]+ \(.*\)(?: (?:at|from) \S+)?)\Z"
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
_CLONE = re.compile(r"(?<!\s)\s*+\[(?:clone|with|abi)[^\]]*\]|\(\.\w[\w.]*\)")
_TEMPLATE = re.compile(r"<[^<>]*>")
_INSTANTIATED = re.compile(r"\b(?:To|T|U) = ([\w:]{1,200})")
_OPERATORS = re.compile(
    r"operator(?:\s*(?:<<=?|>>=?|<=>|<=|>=|->\*?|<|>)| (?:new|delete)\b)"
)
_HIDE, _SHOW = str.maketrans("<> ", "\1\2\3"), str.maketrans("\1\2\3", "<> ")
_STATUS = re.compile(r"-?[0-9]{1,9}")
_PASS = re.compile(  # of MLIR; then of LLVM, by its old and its new pass manager
    r"(?:^|::)(?:(?P<mlir>\w+)::runOnOperation|(?P<old>\w+)::runOn(?:Machine)?"
    r"(?:Function|Module|Loop|SCC|Region|BasicBlock)"
    r"|(?P<new>\w+Pass)::run(?:Impl)?)\Z"
)


@cache
def _names_pattern(key: str) -> re.Pattern[str]:
    return re.compile("|".join(packaged_yaml("compiler_names")[key]))


def _is_common(symbol: str) -> bool:
    return _names_pattern("common_frames").match(symbol) is not None


def _is_of_header(symbol: str) -> bool:
    return _names_pattern("header_frames").match(symbol) is not None


@dataclass(slots=True)
class Stack:
    """The frames of one crash as they are read."""

    symbols: list[str] = field(default_factory=list)
    last: int = -1
    """Number of the last frame."""

    @property
    def specific_frames(self) -> tuple[str, ...]:
        """The first frames that are specific to the crash, innermost first, up to the
        pass that ran.
        """
        return tuple(map(_class_and_name, self._specific_symbols()))

    @property
    def own_frame(self) -> str:
        """The innermost function that is not from a header; empty without one."""
        return next(iter(self._own_frames()), "")

    def _own_frames(self) -> tuple[str, ...]:
        symbols = self._specific_symbols()
        return tuple(
            _class_and_name(symbol) for symbol in symbols if not _is_of_header(symbol)
        )

    def _specific_symbols(self) -> list[str]:
        symbols: list[str] = []
        for symbol in self.symbols:
            if _is_common(symbol):
                continue
            # recursion adds nothing
            if not symbols or _class_and_name(symbols[-1]) != _class_and_name(symbol):
                symbols.append(symbol)
            if len(symbols) == _FRAMES or _PASS.search(symbol):
                break
        return symbols

    @property
    def place(self) -> str:
        """Where it crashed, as `function in pass`: the innermost function that is not
        from a header, and the pass that ran.

        Only these two: functions between them are inlined and renamed from release to
        release. Without a pass on the stack, the function's caller.
        """
        frames = self._own_frames() or self.specific_frames
        name = self.failing_pass
        if name is None or not frames:
            return " < ".join(frames[:2])
        if frames[0].startswith(f"{name}::"):
            return frames[0]
        return f"{frames[0]} in {name}"

    def has_frame(self, regexes: Sequence[str]) -> bool:
        """Return whether a regex matches one of the innermost symbols."""
        return any(
            compile_regex(regex).search(symbol)
            for regex in regexes
            for symbol in self.symbols[:_MATCHED]
        )

    @property
    def failing_pass(self) -> str | None:
        """The innermost pass on the stack, or None."""
        for symbol in self.symbols:
            match = _PASS.search(symbol)
            if match and not _is_common(symbol):
                return match["mlir"] or match["old"] or match["new"]
        return None

    def is_begun_by(self, frame: re.Match[str]) -> bool:
        """Return whether a frame is the first one of another stack."""
        return self._index(frame) <= self.last

    def add(self, frame: re.Match[str]) -> None:
        """Append a frame."""
        self.last = self._index(frame)
        groups = frame.groupdict()
        symbol = symbol_of(groups.get("rest") or groups.get("unnumbered") or "")
        # stripped functions of the system's libraries get wrong names
        in_system = _SYSTEM.search(frame[0]) is not None
        is_named = not in_system or symbol in _STOPPING or symbol.startswith("_")
        if symbol and is_named and len(self.symbols) < _MAX_SYMBOLS:
            self.symbols.append(symbol)

    def _index(self, frame: re.Match[str]) -> int:
        return int(frame.groupdict().get("index", self.last + 1))


def _class_and_name(symbol: str) -> str:
    """Return a function's name with its class or namespace. The outer namespaces change
    between releases.

    >>> _class_and_name("mlir::detail::OpToOpPassAdaptor::run")
    'OpToOpPassAdaptor::run'
    """
    return _last_two(symbol.removesuffix("::call").removesuffix("::lambda"))


def _last_two(name: str) -> str:
    return "::".join(name.split("::")[-2:])


def parse_frame(text: str) -> re.Match[str] | None:
    """Parse ` #4 0x00007f.. mlir::Foo::bar(...) Foo.cpp:0:0`, `4  libX.so 0x00007f..
    mlir::Foo::bar(...) + 63`, or
    `@ 0x7f.. mlir::Foo::bar()`. None for another line.
    """
    if "0x" not in text and not text.startswith("#"):
        return None
    for form in (_NUMBERED, _COLUMNS, _AT_ADDRESS, _OF_DEBUGGER):
        match = form.match(text)
        if match:
            return match
    return None


def assertion_headline(captures: Mapping[str, str]) -> str:
    """Describe a failed assertion with its function's name instead of the whole
    declaration; empty if the captures are not those of one.
    """
    function, expression = captures.get("function"), captures.get("expression")
    if not function or not expression:
        return ""
    name = _last_two(symbol_of(function.replace("{anonymous}::", "")))
    file = f" ({captures['file']})" if "file" in captures else ""
    return f"{name}{file}: Assertion `{' '.join(expression.split())}' failed"


def short_name(function: str) -> str:
    """Return the last two components of the name in a declaration. A function of a
    header is followed by the type that it is instantiated for.
    """
    types: list[str] = []
    if is_in_header(function):
        types = _INSTANTIATED.findall(function)
    return " ".join([_last_two(symbol_of(function)), *types[-1:]])


def is_in_header(function: str) -> bool:
    """Return whether a header that all of LLVM and MLIR uses defines the function of
    this declaration.
    """
    return _is_of_header(symbol_of(function))


def symbol_of(text: str) -> str:
    """Return the qualified name in a demangled signature, without arguments, template
    arguments, file and return type.

    >>> symbol_of("void mlir::Foo<int>::run(mlir::Operation *) Foo.cpp:12:3")
    'mlir::Foo::run'
    >>> symbol_of("Layout triton::Layout::reshape(...) const")
    'triton::Layout::reshape'
    """
    text = _CLONE.sub("", _FILE.sub("", " " + text)).strip()
    text = (
        text.removeprefix("decltype(auto) ")
        .replace("(anonymous namespace)::", "")
        .replace("`anonymous namespace'::", "")
    )
    # The brackets and blanks of an operator's name must not be taken for template
    # arguments.
    text = _OPERATORS.sub(lambda match: match[0].translate(_HIDE), text)
    text = text.replace("->", "")
    for _ in range(40):
        text, replaced = _TEMPLATE.subn("", text)
        if not replaced:
            break
    text = text.replace("operator()", "call")
    name = text.split("(", 1)[0].split("<", 1)[0].strip()
    return name.rsplit(" ", 1)[-1].lstrip("*&").translate(_SHOW)


def signal_name(value: str) -> str | None:
    """Return `SIGSEGV` for `Segmentation fault`, `SIGSEGV`, `11`, or an exit code such
    as `139` or `245`; None for a value that means no signal.
    """
    if _STATUS.fullmatch(value):
        number = abs(int(value))
        # a signal, or an exit code of a shell or a Python wrapper
        for candidate in (number, number - 128, 256 - number):
            if 0 < candidate < 32 and (candidate == number or candidate in _CRASHING):
                return signal.Signals(candidate).name
        return None
    if value.startswith("SIG") or not value:
        return value or None
    name: str | None = packaged_yaml("compiler_names")["signals"].get(
        value.strip().lower()
    )
    return name


_CRASHING = frozenset({4, 5, 6, 7, 8, 9, 11, 24})
"""Signals that an exit code may represent: 128 + n from a shell, 256 - n from a Python
wrapper.
"""
