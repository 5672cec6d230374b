"""Every packaged rule matches its examples and no near miss."""

import pytest

from tests.classify.samples import scan_output
from triage.classify import Rule, packaged_rules

RULES = packaged_rules().rules


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_class_matches_its_examples_and_no_near_miss(rule: Rule) -> None:
    assert rule.examples
    assert rule.near_misses
    assert rule.explanation.endswith(".")
    assert rule.remedies
    for example in rule.examples:
        if not example.text:  # how a process ended; test_diagnose covers it
            continue
        failure = scan_output(example.text.encode())[0]
        assert (failure.failure_class, failure.family) == (rule.name, rule.family)
        assert dict(example.details).items() <= dict(failure.details).items()
        assert example.signature in (None, failure.signature)
    for text in rule.near_misses:
        seen = {failure.failure_class for failure in scan_output(text.encode())}
        assert rule.name not in seen, text
