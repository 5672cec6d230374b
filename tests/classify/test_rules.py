"""Every packaged rule matches its examples, no near miss, and has valid regexes that
the prefilter lets through.
"""

import re

import pytest

from tests.classify.samples import scan_output
from triage.classify import Rule, packaged_rules

RULES = packaged_rules().rules
# Examples without text are about how a process ended; test_diagnose covers them.
EXAMPLES = [
    pytest.param(rule, i, id=f"{rule.name}-{i}")
    for rule in RULES
    for i, example in enumerate(rule.examples)
    if example.text
]
MISSES = [
    pytest.param(rule, i, id=f"{rule.name}-{i}")
    for rule in RULES
    for i in range(len(rule.near_misses))
]


@pytest.mark.parametrize("rule, index", EXAMPLES)
def test_an_example_matches_its_rule(rule: Rule, index: int) -> None:
    example = rule.examples[index]
    failures = scan_output(example.text.encode())
    assert failures
    assert failures[0].failure_class == rule.name, failures
    assert failures[0].family == rule.family
    assert dict(example.details).items() <= dict(failures[0].details).items()
    if example.signature is not None:
        assert failures[0].signature == example.signature


@pytest.mark.parametrize("rule, index", MISSES)
def test_a_near_miss_does_not_match(rule: Rule, index: int) -> None:
    assert rule.name not in {
        failure.failure_class
        for failure in scan_output(rule.near_misses[index].encode())
    }


def test_every_class_has_an_explanation_advice_and_examples() -> None:
    for rule in packaged_rules():
        assert rule.examples
        assert rule.near_misses
        for pattern in rule.patterns:
            re.compile(pattern.regex)
        assert rule.explanation.endswith(".")
        assert rule.remedies
