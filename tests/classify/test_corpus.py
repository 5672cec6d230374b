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
# the message that says why the input is invalid is below another one of its class
UNREAD = {
    f"own/xla-{name}"
    for name in (
        "invalid-input@0.10.2",
        "invalid-input@0.5.3",
        "invalid-operand@0.10.2",
        "hlo-shape@0.10.2",
        "hlo-shape@0.4.30",
    )
}
WRONG = {
    "triton-lang/triton#8072",
    "iree-org/iree#14593",
    "iree-org/iree#16776",
    "biocore-ntnu/epic2#42",
    "llvm/torch-mlir#1007",
    "triton-lang/triton#7835",
    *UNREAD,
    *WORDLESS,
}
VAGUE = {
    "llvm/llvm-project#103706",
    "llvm/llvm-project#64976",
    "biocore-ntnu/epic2#42",
    "llvm/torch-mlir#1007",
    *UNREAD,
    *WORDLESS,
}
# they quote an error in a text
ALARMING = {"lit RUN lines in a diff", "mlir dump with assertions in the program"}


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
        if release and snippet.thread not in UNREAD:
            failure = snippet.first_failure()
            found.setdefault(name, set()).add(failure.signature if failure else "")
    assert len(found) > 20
    assert {
        name: signatures for name, signatures in found.items() if len(signatures) != 1
    } == {}


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(log, id=name)
        for name, log in logs_without_failure().items()
        if name not in ALARMING
    ],
)
def test_a_log_without_a_failure_has_none(log: str) -> None:
    assert scan_output(log.encode()) == ()
