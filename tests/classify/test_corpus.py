"""The classifier keeps its goals on failures from public threads, and finds nothing in
logs without a failure.
"""

import pytest

from tests.classify.corpus import Snippet, logs_without_failure, snippets
from tests.classify.samples import scan_output

# nothing, or only a warning
WORDLESS = {
    "fortran-lang/homebrew-fortran#3",
    "ish-app/ish#656",
    "pytorch/pytorch#170049",
}
# the last: the first of two errors that say the same in other words is taken
WRONG = {
    "triton-lang/triton#8072",
    "iree-org/iree#14593",
    "jax-ml/jax#16546",
    *WORDLESS,
}
VAGUE = {
    "jax-ml/jax#16546",
    "llvm/llvm-project#103706",
    "llvm/llvm-project#64976",
    *WORDLESS,
}


@pytest.mark.parametrize(
    "snippet", [pytest.param(snippet, id=snippet.thread) for snippet in snippets()]
)
def test_class_headline_and_signature_of_a_public_failure(snippet: Snippet) -> None:
    found = snippet.first_failure()
    assert snippet.is_right(found) or snippet.thread in WRONG, found
    assert snippet.is_specific(found) or snippet.thread in VAGUE, found


def test_a_failure_has_one_signature_in_all_releases() -> None:
    found: dict[str, set[str]] = {}
    for snippet in snippets():
        name, _, release = snippet.thread.partition("@")
        if release:
            failure = snippet.first_failure()
            found.setdefault(name, set()).add(failure.signature if failure else "")
    assert len(found) > 20
    assert {
        name: signatures for name, signatures in found.items() if len(signatures) != 1
    } == {}


@pytest.mark.parametrize(
    "log", [pytest.param(log, id=name) for name, log in logs_without_failure().items()]
)
def test_a_log_without_a_failure_has_none(log: str) -> None:
    assert scan_output(log.encode()) == ()
