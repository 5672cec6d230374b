"""No regex of the classifier takes more than linear time, on texts that are made from its own pattern."""

from __future__ import annotations

import importlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.classify.regex_steps import adversarial_texts, count_steps
from triage.classify import classify_log, packaged_rules
from triage.classify.literals import may_match, required_literals

MODULES = ("diagnose", "findings", "log_lines", "passes", "rules", "scanner", "stack_dump")
SHORT, LONG = 40, 160
STEPS = 20 * LONG  # a quadratic search of the long text takes about LONG * LONG / 2
MOST = LONG * LONG
GROWTH = 8.0  # times as many steps for a text four times as long; quadratic is 16


@pytest.fixture(autouse=True)
def deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


def rule_patterns() -> Iterator[tuple[str, str]]:
    for rule in packaged_rules():
        yield from ((f"{rule.name} {pattern.scope}", pattern.regex) for pattern in rule.patterns)
        yield from ((f"{rule.name} context", context.regex) for context in rule.context)


def own_patterns() -> Iterator[tuple[str, str, bool]]:
    for name in MODULES:
        module = importlib.import_module(f"triage.classify.{name}")
        source = Path(str(module.__file__)).read_text("utf-8")
        for variable, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str) and f"{variable} = re.compile" in source:
                starts = re.search(rf"\b{variable}\.(?:search|sub|subn|findall|finditer)\b", source)
                yield f"{name}.{variable}", value.pattern, starts is not None


def superlinear_text(regex: str, *, literals: bool = True, anywhere: bool = True) -> str | None:
    steps = required_literals(regex) if literals else ()
    prefix = "" if anywhere else r"\A"
    for short, long in zip(adversarial_texts(regex, SHORT), adversarial_texts(regex, LONG), strict=True):
        if may_match(steps, long):
            count = count_steps(f"{prefix}(?:{regex})", long, MOST)
            if count == MOST or (count > STEPS and count > GROWTH * count_steps(f"{prefix}(?:{regex})", short, MOST)):
                return long
    return None


@pytest.mark.parametrize(("regex", "is_linear"), [("a*b", False), ("(?:a|b)*c", False), ("^[^b]*+b", True), ("a++b|c", False)])
def test_steps_grow_as_the_engine_backtracks(regex: str, is_linear: bool) -> None:
    assert (superlinear_text(regex, literals=False) is None) is is_linear


def test_no_rule_is_superlinear() -> None:
    slow = {name: text for name, regex in rule_patterns() if (text := superlinear_text(regex))}
    assert slow == {}


def test_no_own_regex_is_superlinear() -> None:
    slow = {
        name: text
        for name, regex, anywhere in own_patterns()
        if (text := superlinear_text(regex, literals=False, anywhere=anywhere))
    }
    assert slow == {}


def test_messages_beyond_the_limit_are_counted_and_hide_no_better_cause() -> None:
    def letters(number: int) -> str:
        return "".join(chr(97 + number // 26**place % 26) for place in range(4))

    lines = [f"m.mlir:{number}:1: error: '{letters(number)}.op' op is odd in {letters(number)}" for number in range(9000)]
    cause = "m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes"
    log = "\n".join([*lines, cause, lines[0]]).encode()
    failures = classify_log(io.BytesIO(log), packaged_rules())
    assert failures[0].failure_class == "shared-memory-overflow"
    assert sum(failure.count for failure in failures) == 9002
    assert len(failures) < 600
