"""Passes over MLIR modules return valid modules that are not larger, whatever the failure is."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from tests.mlir.programs import programs
from tests.reduce.test_search import CASE
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.reduce.frontends.mlir.document import Checker, MlirDocument
from triage.reduce.frontends.mlir.frontend import mlir_frontend
from triage.reduce.program import Candidate

pytestmark = pytest.mark.real
OLD = "3.3.0"


class LuckyTest:
    """A test for drafts that are valid and have some luck, the same each time for the same program."""

    def __init__(self, reader: Reader, luck: int) -> None:
        self.frontend, self.luck = mlir_frontend(Checker(reader)), luck

    def first(self, drafts: Iterable[Candidate]) -> Candidate | None:
        for candidate in drafts:
            content = candidate.document.valid()
            if content is not None and sha256(content + bytes([self.luck])).digest()[0] < 110:
                return candidate
        return None

    def is_valid(self, draft: Candidate) -> bool:
        return draft.document.valid() is not None


def document(reader: Reader, text: str) -> MlirDocument:
    generic = reader.valid(text)
    assert generic is not None
    return MlirDocument(parse_module(generic), Checker(reader))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=programs(), luck=st.integers(0, 255), line=st.one_of(st.none(), st.integers(1, 20)))
def test_every_pass_returns_a_valid_module_that_is_not_larger(
    readers: Readers,  # noqa: F811
    text: str,
    luck: int,
    line: int | None,
) -> None:
    reader = readers(OLD)
    test = LuckyTest(reader, luck)
    draft = Candidate(document(reader, text), CASE)
    for step in (test.frontend.approach(line), *test.frontend.passes, *test.frontend.final_passes):
        made = step(draft, test)
        assert made.document.valid() is not None, step
        assert made.document.size <= draft.document.size, step
        draft = made
