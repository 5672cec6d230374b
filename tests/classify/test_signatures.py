"""One failure has one signature, on every machine, with and without notes. Two have
two.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.classify.samples import read_table, scan_output
from tests.classify.test_corpus import corpus
from triage.classify import packaged_rules

TABLE = read_table("signatures")
# What `--mlir-print-op-on-diagnostic=false` leaves out: the note, and the operation
# that it prints in further lines.
NOTE = re.compile(
    r"^.*\bnote: (?:\S+: )?see current operation:[^\n]*\n(?:(?:\s*\n)?(?:%\S+ = )?\"[\w.]+\"\([^\n]*\n)?",
    re.MULTILINE,
)
# What differs between machines, by the name that a message has for it.
VALUES = {
    name: st.from_regex(regex, fullmatch=True)
    for name, regex in TABLE["values"].items()
}


def signatures_in(text: str) -> list[str]:
    return [failure.signature for failure in scan_output(text.encode())]


@pytest.mark.parametrize("message", TABLE["known"] + TABLE["unknown"])
@settings(max_examples=30)
@given(first=st.fixed_dictionaries(VALUES), second=st.fixed_dictionaries(VALUES))
def test_names_numbers_and_paths_do_not_change_the_signature(
    message: str, first: dict[str, str], second: dict[str, str]
) -> None:
    signatures = signatures_in(message.format(**first))
    assert signatures == signatures_in(message.format(**second)) != []
    if message in TABLE["unknown"]:
        assert re.fullmatch(r"unknown:\D+", signatures[0])


@pytest.mark.parametrize("are", ["same", "different"])
def test_one_bug_has_one_signature_and_two_have_two(are: str) -> None:
    for pair in TABLE[are]:
        first, second = map(signatures_in, pair)
        assert first
        assert (first == second) is (are == "same"), pair


def test_notes_do_not_change_the_signature() -> None:
    texts = [example.text for rule in packaged_rules() for example in rule.examples]
    texts += [entry["log"] for entry, _ in corpus()]
    noted = [text for text in texts if NOTE.search(text)]
    assert len(noted) > 50
    for text in noted:
        assert signatures_in(NOTE.sub("", text)) == signatures_in(text), text
