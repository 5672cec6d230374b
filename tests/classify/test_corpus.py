"""The classifier keeps its goals on failures from public threads, in each part of the corpus."""

import pytest

from benchmarks.classify_corpus import PARTS, logs_without_failure, snippets
from tests.classify.samples import scan_output


@pytest.mark.parametrize(("part", "right", "specific"), [(part, 0.97, 0.92) for part in PARTS])
def test_classes_headlines_and_signatures_of_public_failures(part: str, right: float, specific: float) -> None:
    half = [snippet for snippet in snippets() if snippet.part == part]
    named = [snippet for snippet in half if snippet.names]
    answers = {snippet: snippet.first_failure() for snippet in half}
    assert len({snippet.thread for snippet in snippets()}) == len(snippets()) >= 150
    assert sum(snippet.is_right(answers[snippet]) for snippet in half) >= right * len(half)
    assert sum(snippet.is_specific(answers[snippet]) for snippet in named) >= specific * len(named)


@pytest.mark.parametrize("log", [pytest.param(log, id=name) for name, log in logs_without_failure().items()])
def test_a_log_without_a_failure_has_none(log: str) -> None:
    assert scan_output(log.encode()) == ()
