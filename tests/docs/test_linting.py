"""docs/linting.md lists the rules there are."""

from __future__ import annotations

from tests.docs.linting import PAGE, TABLE, rules_table


def test_the_table_of_rules_is_what_the_code_says() -> None:
    [found] = TABLE.findall(PAGE.read_text())
    assert found == rules_table(), "run: python -m tests.docs.linting"
