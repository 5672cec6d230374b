"""Failures from public threads keep their class, headline and signature, and nothing
fails in logs without a failure.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from benchmarks.first_look import FOLDER, classified, is_right, is_specific
from tests.classify.samples import TABLES, read_table, scan_output
from triage.classify import ClassifiedLog, LogStatus
from triage.classify.rules import read_yaml

CORPUS = TABLES.with_name("classify_corpus")
READING = read_table("reading")


@cache
def corpus() -> list[tuple[dict[str, Any], ClassifiedLog]]:
    """The failures of the corpus: facts of the threads, in texts of our own."""
    paths = set(CORPUS.glob("*.yaml")) - {CORPUS / "no_failure.yaml"}
    entries = [entry for path in sorted(paths) for entry in read_yaml(path)]
    return [(entry, classified(entry["log"])) for entry in entries]


@pytest.mark.parametrize(
    ("known", "is_read"), [("wrong", is_right), ("vague", is_specific)]
)
def test_class_headline_and_signature_of_public_failures(known, is_read) -> None:
    missed = {entry["thread"] for entry, log in corpus() if not is_read(entry, log)}
    assert missed <= {*READING[known]}


def test_a_failure_has_one_signature_in_all_releases() -> None:
    signatures = defaultdict(set)
    for entry, log in corpus():
        name, _, release = entry["thread"].partition("@")
        if release:
            signatures[name].add(log.failures[0].signature)
    assert len(signatures) > 20
    assert all(len(found) == 1 for found in signatures.values()), signatures


def test_a_log_without_a_failure_has_none() -> None:
    for entry in read_yaml(CORPUS / "no_failure.yaml"):
        assert scan_output(entry["log"].encode()) == (), entry


@pytest.mark.parametrize("name", READING["least"])
def test_failing_logs_of_strangers_are_read_and_never_called_green(name: str) -> None:
    """A rule that gains one of them must not lose others."""
    entries = read_yaml(FOLDER / f"logs_{name}.yaml")
    logs = [(entry, classified(entry["log"])) for entry in entries]
    right, specific, green = READING["least"][name]
    assert sum(is_right(*log) for log in logs) >= right
    assert sum(is_specific(*log) for log in logs) >= specific
    assert sum(log.status is LogStatus.NO_FAILURES for _, log in logs) <= green


def test_green_logs_of_strangers_raise_no_alarm() -> None:
    alarms = [
        entry["name"]
        for name in READING["least"]
        for entry in read_yaml(FOLDER / f"green_{name}.yaml")
        if classified(entry["log"]).status is not LogStatus.NO_FAILURES
    ]
    known = READING["alarming"]
    assert [name for name in alarms if not name.startswith(tuple(known))] == []
    assert len(alarms) == len(known)
