"""The keys of a recipe that only its compiler's family has, as lines of YAML that are read back as the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from triage.model.case import Case, CommandLine, Constant, Kernel

RULES = "failure.rules"  # no name that is taken for a recipe's
_PLAIN = re.compile(r"[A-Za-z_]{2}\w*")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "none"))


def keys_of(case: Case) -> list[str]:
    """`compiler:` and what follows from it, a line each."""
    rules = [f"rules: {RULES}"] if case.rules else []
    match case.how:
        case Kernel() as how:
            return ["compiler: triton", *_kernel(how), *rules]
        case CommandLine() as how:
            return ["compiler: command", *_command(how), *rules]
    return [f"compiler: {case.compiler}", *rules]


def _kernel(how: Kernel) -> Iterator[str]:
    types = dict(how.signature)
    hints = {name: dict(given) for name, given in how.hints.items()}
    for name, given in hints.items():
        if name in types and given.get("divisibility") in (1, 16):
            types[name] = f"{types[name]}:{given.pop('divisibility')}"
    if how.name is not None:
        yield f"kernel: {_scalar(how.name)}"
    yield f"signature: {_mapping(types)}"
    if how.constexprs:
        yield f"constexprs: {_mapping(how.constexprs)}"
    left = {name: given for name, given in hints.items() if given}
    if left:
        yield f"hints: {{{', '.join(f'{_key(name)}: {_mapping(given)}' for name, given in left.items())}}}"
    if how.options:
        yield f"options: {_mapping(how.options)}"


def _command(how: CommandLine) -> Iterator[str]:
    if how.packages:
        yield f"package: {json.dumps(how.packages, ensure_ascii=False)}"
    yield f"command: {json.dumps(how.words, ensure_ascii=False)}"
    if how.version is not None:
        run, pattern = (json.dumps(one, ensure_ascii=False) for one in (how.version.run, how.version.pattern))
        yield f"version: {{run: {run}, pattern: {pattern}}}"


def _mapping(given: Mapping[str, Constant] | Mapping[str, str] | Mapping[str, int]) -> str:
    return f"{{{', '.join(f'{_key(name)}: {_scalar(value)}' for name, value in given.items())}}}"


def _key(name: str) -> str:
    """YAML 1.1 takes `y`, `on` and their like for truth values."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in _WORDS else json.dumps(name)


def _scalar(value: Constant) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | int):
        return json.dumps(value)
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
