"""Every rule keeps what its file promises: examples, near misses, regexes that compile, anchors that are seen."""

import re

import pytest

from triage.classify import Rule, Scanner, class_names, load_rules, packaged_rules, rule_for
from triage.classify.rule import NEEDLES, Where

RULES = packaged_rules()
# An example without text is told by how the run ended; test_diagnose holds those.
EXAMPLES = [pytest.param(rule, i, id=f"{rule.name}-{i}") for rule in RULES for i, one in enumerate(rule.examples) if one.text]
MISSES = [pytest.param(rule, i, id=f"{rule.name}-{i}") for rule in RULES for i in range(len(rule.near_misses))]


def scan(text: str, rules=None):
    scanner = Scanner(rules)
    scanner.feed(text.encode())
    return scanner.finish()


@pytest.mark.parametrize("rule, index", EXAMPLES)
def test_example(rule: Rule, index: int) -> None:
    example = rule.examples[index]
    failures = scan(example.text)
    assert failures, "nothing was found"
    assert failures[0].failure_class == rule.name, failures
    assert failures[0].family == rule.family
    assert dict(example.details).items() <= dict(failures[0].details).items()
    if example.signature is not None:
        assert failures[0].signature == example.signature


@pytest.mark.parametrize("rule, index", MISSES)
def test_near_miss(rule: Rule, index: int) -> None:
    assert rule.name not in {failure.failure_class for failure in scan(rule.near_misses[index])}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_regexes(rule: Rule) -> None:
    groups = {"message", "frames"}
    for pattern in rule.patterns:
        groups |= set(re.compile(pattern.regex).groupindex)
        if pattern.where in (Where.LINE, Where.CRASH):
            assert pattern.begins or pattern.anchors or any(text in pattern.regex for text in (*NEEDLES, "Assertion"))
            assert not pattern.anchors, "costs a pass over every stream"
    for regex in (*rule.context, *rule.frames):
        groups |= set(re.compile(regex).groupindex)
    for alternatives in rule.identity:
        assert set(alternatives.split("|")) <= groups | {"pass"}


def test_every_class_can_be_looked_up() -> None:
    assert {
        "shared-memory-overflow", "affinity-non-convergence", "clone-to-consumers-non-convergence", "undeclared-device",
        "partition-affinity", "fold-memref-alias", "padding-bounds", "legalization", "verifier", "dominance",
        "distribution", "bufferization", "stack-limit", "unsupported-op", "parse-error", "unknown-flag",
        "missing-backend", "missing-target", "timeout", "out-of-memory", "assertion", "llvm-error", "segfault",
        "unresolved-symbol", "import-error", "unknown",
    } <= set(class_names())  # fmt: skip
    for name in class_names():
        rule = rule_for(name)
        assert rule
        assert rule.explanation.endswith(".")
        assert rule.remedies
    assert rule_for("no-such-class") is None


def test_ranks_are_ascending() -> None:
    ranks = [rule.rank for rule in load_rules()]
    assert ranks == sorted(ranks)
