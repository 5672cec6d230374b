"""Rule files -> rules. Every problem of every file is told at once, with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from triage.classify.candidates import Complaint, Place, candidate_of, check_candidate
from triage.classify.rule import NEEDLES, Advice, Example, Pattern, Rule, Where
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Ending
from triage.model.outcome import Cause

SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster

TOP = {"family", "classes"}
KEYS = {
    "class", "family", "rank", "patterns", "identity", "explanation", "remedies", "phase", "says_nothing", "context",
    "passes", "frames", "endings", "signals", "explains", "examples", "near_misses", "candidates",
}  # fmt: skip
REQUIRED = ("class", "rank", "explanation", "remedies", "examples", "near_misses")
PATTERN_KEYS = {"regex", "where", "begins", "anchor"}
EXAMPLE_KEYS = {"text", "details", "signature"}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


@cache
def packaged_rules() -> tuple[Rule, ...]:
    """The rules that come with the program, smallest rank first; read once."""
    folder = files("triage.classify").joinpath("rules")
    texts = [
        (entry.name, entry.read_text("utf-8"))
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".yaml")
    ]
    return _rules(texts, check_regexes=False)


def load_rules(extra_paths: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """The packaged rules and those of `extra_paths` (files, or folders of `*.yaml`), smallest rank first.

    A rule of the user's wins over a packaged one of the same rank, and replaces one of the same name.

    Raises:
        BadFiles: with one problem for each thing wrong, its file and line.
    """
    if not extra_paths:
        return packaged_rules()
    texts: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for path in extra_paths:
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            try:
                texts.append((str(file), file.read_text("utf-8")))
            except (OSError, UnicodeDecodeError) as error:
                problems.append(Problem(str(file), None, None, f"cannot be read: {error}"))
    if problems:
        raise BadFiles(problems)
    own = _rules(texts, check_regexes=True)
    names = {rule.name for rule in own}
    both = (*own, *(rule for rule in packaged_rules() if rule.name not in names))
    return tuple(sorted(both, key=lambda rule: rule.rank))


def _rules(texts: Iterable[tuple[str, str]], *, check_regexes: bool) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for name, text in texts:
        complaints: list[tuple[Place, str]] = []
        try:
            document = yaml.load(text, Loader=SafeLoader)  # noqa: S506 - a safe loader, the C one
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
            problems.append(Problem(name, line, column, f"not YAML: {getattr(error, 'problem', None) or error}"))
            continue
        found = _document(document, name, lambda place, message: complaints.append((place, message)), check_regexes)  # noqa: B023 - called before the next turn
        for place, rule in found:
            if rule.name in seen:
                complaints.append(((*place, "class"), f"class {rule.name!r} is already defined in {seen[rule.name]}"))
            seen[rule.name] = name
            rules.append(rule)
        problems.extend(_located(name, text, complaints))
    if problems:
        raise BadFiles(problems)
    return tuple(sorted(rules, key=lambda rule: rule.rank))


def _document(document: Any, origin: str, complain: Complaint, check_regexes: bool) -> list[tuple[Place, Rule]]:
    if not isinstance(document, dict) or not isinstance(document.get("classes"), list):
        complain((), "expected a mapping with a list `classes`")
        return []
    for key in document.keys() - TOP:
        complain((key,), f"unknown key {key!r}")
    found = []
    for index, entry in enumerate(document["classes"]):
        place: Place = ("classes", index)
        if not isinstance(entry, dict):
            complain(place, "expected a mapping")
            continue
        wrong = False

        def report(where: Place, message: str) -> None:
            nonlocal wrong
            wrong = True
            complain(where, message)

        _check(entry, place, report, check_regexes)
        if not wrong:
            found.append((place, _rule(entry, str(document.get("family", entry["class"])), origin)))
    return found


def _check(entry: Mapping[str, Any], place: Place, complain: Complaint, check_regexes: bool) -> None:
    for key in entry.keys() - KEYS:
        complain((*place, key), f"unknown key {key!r}")
    for key in REQUIRED:
        if entry.get(key) in (None, "", []):
            complain(place, f"`{key}` is missing")
    if not NAME.match(str(entry.get("class", "x"))):
        complain((*place, "class"), "a class is named with [a-z0-9-]")
    if not isinstance(entry.get("rank", 0), int) or not 0 <= entry.get("rank", 0) < 100:
        complain((*place, "rank"), "a rank is an integer from 0 to 99")
    for key, kind in (("endings", Ending), ("says_nothing", Cause)):
        for value in _list(entry.get(key)):
            if value not in {member.value for member in kind}:
                complain((*place, key), f"unknown {key} {value!r}; one of {', '.join(kind)}")
    for index, example in enumerate(_list(entry.get("examples"))):
        if not isinstance(example, dict) or not isinstance(example.get("text"), str) or example.keys() - EXAMPLE_KEYS:
            complain((*place, "examples", index), "an example has `text` and may have `details` and `signature`")
    for _, candidate, where in _by_compiler(entry, "candidates"):
        check_candidate(candidate, (*place, *where), complain)
    _check_texts(entry, place, complain, check_regexes)


def _check_texts(entry: Mapping[str, Any], place: Place, complain: Complaint, check_regexes: bool) -> None:
    """Patterns, and that what identifies the failure is captured by one of them."""
    groups: set[str] = {"message", "frames"}
    for index, pattern in enumerate(_list(entry.get("patterns"))):
        groups |= _check_pattern(pattern, (*place, "patterns", index), complain, check_regexes)
    for key in ("context", "frames"):
        for index, regex in enumerate(_list(entry.get(key))):
            groups |= _check_regex(regex, (*place, key, index), complain, check_regexes)
    for name in _list(entry.get("identity")):
        if check_regexes and not set(str(name).split("|")) <= groups:
            complain((*place, "identity"), f"no pattern captures {name!r}")


def _check_pattern(pattern: Any, place: Place, complain: Complaint, check_regexes: bool) -> set[str]:
    if isinstance(pattern, str):
        pattern = {"regex": pattern}
    if not isinstance(pattern, dict) or not isinstance(pattern.get("regex"), str) or pattern.keys() - PATTERN_KEYS:
        complain(place, "a pattern is a regex, or a mapping of `regex`, `where`, `begins`, `anchor`")
        return set()
    where = pattern.get("where", Where.ERROR)
    if where not in {member.value for member in Where}:
        complain(place, f"unknown `where` {where!r}; one of {', '.join(Where)}")
    elif where in (Where.LINE, Where.CRASH) and not (
        pattern.get("begins") or pattern.get("anchor") or any(text in pattern["regex"] for text in (*NEEDLES, "Assertion"))
    ):
        complain(place, f"a `{where}` pattern needs `begins`, what its message begins with, or an `anchor`, a literal")
    return _check_regex(pattern["regex"], place, complain, check_regexes)


def _check_regex(regex: Any, place: Place, complain: Complaint, check_regexes: bool) -> set[str]:
    if not check_regexes:  # the packaged ones are compiled by the tests, not at every start
        return set()
    try:
        return set(re.compile(regex).groupindex)
    except (re.error, TypeError) as error:
        complain(place, f"not a regular expression: {error}")
        return set()


def _rule(entry: Mapping[str, Any], family: str, origin: str) -> Rule:
    return Rule(
        name=entry["class"],
        family=entry.get("family", family),
        rank=entry["rank"],
        patterns=tuple(_pattern(pattern) for pattern in _list(entry.get("patterns"))),
        identity=tuple(_list(entry.get("identity"))),
        explanation=" ".join(entry["explanation"].split()),
        remedies=tuple(Advice(" ".join(str(text).split()), whose) for whose, text, _ in _by_compiler(entry, "remedies")),
        candidates=tuple(candidate_of(one, whose) for whose, one, _ in _by_compiler(entry, "candidates")),
        phase=entry.get("phase"),
        says_nothing=Cause(entry["says_nothing"]) if entry.get("says_nothing") else None,
        context=tuple(_list(entry.get("context"))),
        passes=tuple(_list(entry.get("passes"))),
        frames=tuple(_list(entry.get("frames"))),
        endings=tuple(Ending(value) for value in _list(entry.get("endings"))),
        signals=tuple(_list(entry.get("signals"))),
        explains=tuple(_list(entry.get("explains"))),
        examples=tuple(
            Example(example["text"], example.get("details") or {}, example.get("signature"))
            for example in _list(entry.get("examples"))
        ),
        near_misses=tuple(_list(entry.get("near_misses"))),
        origin=origin,
    )


def _by_compiler(entry: Mapping[str, Any], key: str) -> Iterator[tuple[str | None, Any, Place]]:
    """What stands in a list, or in one list for each compiler family: the family, the item, and where it stands."""
    value = entry.get(key)
    groups = value.items() if isinstance(value, dict) else [(None, value)]
    for compiler, items in groups:
        for index, item in enumerate(_list(items)):
            yield compiler, item, (key, index) if compiler is None else (key, compiler, index)


def _pattern(pattern: str | Mapping[str, Any]) -> Pattern:
    if isinstance(pattern, str):
        return Pattern(pattern)
    return Pattern(
        pattern["regex"],
        Where(pattern.get("where", "error")),
        tuple(_list(pattern.get("begins"))),
        tuple(_list(pattern.get("anchor"))),
    )


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _located(name: str, text: str, complaints: Sequence[tuple[Place, str]]) -> list[Problem]:
    """Complaints with line and column. The file is parsed a second time, for its marks; only a wrong one is."""
    if not complaints:
        return []
    root = yaml.compose(text, Loader=SafeLoader)
    problems = []
    for place, message in complaints:
        node = root
        for step in place:
            node = _child(node, step) or node
        line, column = (node.start_mark.line + 1, node.start_mark.column + 1) if node else (None, None)
        problems.append(Problem(name, line, column, message))
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def _child(node: Any, step: str | int) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None
