"""What a command line in a pasted text may ask of a compiler.

Somebody else wrote the text, and compilers have flags that start programs, load plugins
and write files. So a flag is passed on only if its name is in a list of flags that do
none of this, and its value can name no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources.abc import Traversable

from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

VARIABLES = frozenset({"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
"""What a text may set. It needs a list, because many variables load code or write
files.
"""

_PLAIN = re.compile(r"(?!.*\.\.)[\w.,:;+=\[\]-]*")  # no path, no response file
_PIPELINES = frozenset({"pass-pipeline", "iree-preprocessing-pass-pipeline", "passes"})
_PIPELINE = re.compile(r"(?!.*\.\.)[\w.,:;+=(){}<>\s-]*")
_PASS_OPTIONS = re.compile(r"\{([^{}]*)\}|<([^<>]*)>")
_ANCHORS = re.compile(
    r"any|module|cgscc|function|loop|loop-mssa|machine-function|default|thinlto|lto"
    r"|\w+\.[\w.]+"
)
# In the name of a pass's option: its value names a file or a program.
_OPENS = re.compile(
    r"path|file|dir|command|cmd|exec|plugin|dump|output|log|tool|lib|script|opts"
    r"|module|spec|prefix|substitut"
)


def names_in(file: Traversable) -> frozenset[str]:
    """Return the names in a YAML file of lists, such as `pasted_flags.yaml` of a
    family.
    """
    import yaml

    lists: Mapping[str, str] = yaml.safe_load(file.read_text("utf-8"))
    return frozenset(name for names in lists.values() for name in names.split())


def keep_harmless(start: RecipeStart, names: frozenset[str]) -> RecipeStart:
    """Return the recipe with the flags and variables of a pasted command line that can
    do no harm.

    `refused` has the others. Raises BadInput if the target is not a word.
    """
    target = start.target or Target("host")
    for word in (target.backend, target.chip or ""):
        if not _PLAIN.fullmatch(word):
            raise BadInput(
                f"{word!r} names no target; name it with --backend and --chip"
            )
    flags = [flag for flag in start.flags if _is_harmless(flag, names)]
    env = {
        name: value
        for name, value in start.env.items()
        if name in VARIABLES and _PLAIN.fullmatch(value)
    }
    refused = [
        f"{name}={value}" for name, value in start.env.items() if name not in env
    ]
    refused += [flag for flag in start.flags if flag not in flags]
    return replace(start, flags=flags, env=env, refused=refused)


def harmless_flags(words: Sequence[str], names: frozenset[str]) -> list[str]:
    """Return the flags of a pasted command line that can do no harm, for a command that
    is printed for a user to run. A value in a word of its own is left out with its
    flag.

    >>> known = frozenset({"backend", "fuse"})
    >>> harmless_flags(["a.mlir", "--backend=rocm", "--load=x.so", "--fuse"], known)
    ['--backend=rocm', '--fuse']
    """
    following = [*words[1:], "--"]
    return [
        word
        for word, after in zip(words, following, strict=True)
        if word.startswith("-")
        and ("=" in word or after.startswith("-"))
        and _is_harmless(word, names)
    ]


def _is_harmless(flag: str, names: frozenset[str]) -> bool:
    name, _, value = flag.lstrip("-").partition("=")
    if name not in names:
        return False
    if name in _PIPELINES:
        return _PIPELINE.fullmatch(value) is not None and all(
            _is_known(part, names) for part in _parts(value)
        )
    option, is_option, _ = value.partition("=")
    return _PLAIN.fullmatch(value) is not None and not (
        is_option and _OPENS.search(option)
    )


def _parts(pipeline: str) -> Iterator[str]:
    """Yield the passes of a pipeline, and the assignments in their options."""
    for match in _PASS_OPTIONS.finditer(pipeline):
        yield from (match[1] or match[2] or "").split()
    yield from re.findall(r"[\w.-]+", _PASS_OPTIONS.sub(" ", pipeline))


def _is_known(part: str, names: frozenset[str]) -> bool:
    option, is_option, _ = part.partition("=")
    if is_option:
        return not _OPENS.search(option)
    return part in names or _ANCHORS.fullmatch(part) is not None
