"""The classifier keeps its goals on failures from public threads, and finds nothing in
logs without a failure.
"""

from tests.classify.corpus import logs_without_failure, snippets
from tests.classify.samples import scan_output

# nothing, or only a warning
WORDLESS = {
    "fortran-lang/homebrew-fortran#3",
    "ish-app/ish#656",
    "pytorch/pytorch#170049",
}
WRONG = WORDLESS | {
    "WisconsinAIVision/yolact_edge#106",
    "iree-org/iree#14593",
    "iree-org/iree#17009",
    "iree-org/iree#19874",
    "jax-ml/jax#16546",
    "jax-ml/jax#18514",
    "triton-lang/triton#8072",
    "own/dominance",
}
VAGUE = WORDLESS | {
    "jax-ml/jax#16546",
    "jax-ml/jax#39157",
    "llvm/llvm-project#103706",
    "llvm/llvm-project#138223",
    "llvm/llvm-project#64976",
    "rust-lang/rust#124523",
}


def test_class_headline_and_signature_of_public_failures() -> None:
    found = [(snippet, snippet.first_failure()) for snippet in snippets()]
    wrong = {snippet.thread for snippet, first in found if not snippet.is_right(first)}
    vague = {
        snippet.thread for snippet, first in found if not snippet.is_specific(first)
    }
    assert wrong <= WRONG
    assert vague <= VAGUE


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


def test_a_log_without_a_failure_has_none() -> None:
    for name, log in logs_without_failure().items():
        assert scan_output(log.encode()) == (), name
