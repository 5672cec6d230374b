"""Read rule files (YAML) into rule sets; report every mistake of every file with its line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from triage.classify.rules import (
    ERROR_NEEDLES,
    Above,
    AsRead,
    Context,
    DeclareDevices,
    DropFlag,
    GiveFlag,
    LaunchOption,
    LeastValue,
    MatchScope,
    Pattern,
    RemedyCandidate,
    RewriteInput,
    Rule,
    RuleExample,
    RuleSet,
)
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Ending
from triage.model.outcome import Advice, Cause

Location = tuple[str | int, ...]  # the keys and indices that lead to a value of the file
Complaint = Callable[[Location, str], None]

_FILE_KEYS = {"family", "classes"}
_CLASS_KEYS = {
    "class", "family", "rank", "patterns", "identity", "explanation", "remedies", "phase", "says_nothing", "context", "above",
    "passes", "frames", "endings", "signals", "explains", "examples", "near_misses", "candidates", "source_op", "as_read",
}  # fmt: skip
_REQUIRED = ("class", "rank", "explanation", "remedies", "examples", "near_misses")
_PATTERN_KEYS = {"regex", "where", "begins", "anchor"}
_EXAMPLE_KEYS = {"text", "details", "signature"}
_CANDIDATE_KEYS: Mapping[str, frozenset[str]] = {
    "give": frozenset({"checks_less", "recomputes"}),
    "drop": frozenset(),
    "least": frozenset({"above", "upto", "doubling"}),
    "declare": frozenset(),
    "option": frozenset({"values"}),
    "rewrite": frozenset(),
}
_REWRITES = ("barriers", "affinities", "static", "dtype")
_CLASS_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_FLAG_NAME = re.compile(r"--[a-z][a-z0-9-]*\Z")
_FLAG = re.compile(r"--[a-z][a-z0-9-]*(=\S+)?\Z")


@cache
def packaged_rules() -> RuleSet:
    """Return the rules that come with the program; they are read once and checked by the tests, not at each start."""
    import yaml  # here, because many commands need no rules

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster
    folder = files("triage.classify").joinpath("rules")
    rules: list[Rule] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            document = yaml.load(entry.read_text("utf-8"), Loader=loader)  # noqa: S506 - a safe loader, the C one
            rules += (_rule(fields, document.get("family"), entry.name) for fields in document["classes"])
    return _ranked(rules)


def load_rules(paths: Sequence[Path] = ()) -> RuleSet:
    """Read the rules in `paths` (files, or folders of `*.yaml`) and add the packaged ones.

    A rule of these files takes precedence over a packaged one of the same rank and replaces one of the same class.

    Raises:
        BadFiles: with one problem for each mistake, its file and line.
    """
    if not paths:
        return packaged_rules()
    own: dict[str, Rule] = {}
    problems: list[Problem] = []
    for file in (file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])):
        try:
            for rule in check_rules(file, own):
                own[rule.name] = rule
        except BadFiles as error:
            problems += error.problems
    if problems:
        raise BadFiles(problems)
    return _ranked([*own.values(), *(rule for rule in packaged_rules() if rule.name not in own)])


def check_rules(path: Path, known: Mapping[str, Rule]) -> list[Rule]:
    """Read and check one rule file. known: the rules of other files, whose classes must not be repeated.

    Raises:
        BadFiles: with one problem for each mistake.
    """
    from triage.config.document import FileKind, read_document, read_text

    kind = FileKind("rule file", "write a list `classes`")
    document = read_document(str(path), read_text(path, kind), kind)
    data = document.typed()
    problems = list(document.problems)

    def complain(location: Location, message: str) -> None:
        problems.append(document.problem(document.resolve(location), message, at_key=message.startswith("unknown key")))

    rules: list[Rule] = []
    if problems:
        pass
    elif not isinstance(data, dict) or not isinstance(data.get("classes"), list):
        complain((), "expected a mapping with a list `classes`")
    else:
        for key in data.keys() - _FILE_KEYS:
            complain((key,), f"unknown key {key!r}")
        for index, fields in enumerate(data["classes"]):
            before = len(problems)
            _check_class(fields, ("classes", index), complain)
            if len(problems) == before:
                rules.append(_rule(fields, data.get("family"), str(path)))
                first = known.get(rules[-1].name) or next((rule for rule in rules[:-1] if rule.name == rules[-1].name), None)
                if first:
                    complain(("classes", index, "class"), f"class {first.name!r} is already defined in {first.origin}")
    if problems:
        raise BadFiles(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))
    return rules


def _ranked(rules: Sequence[Rule]) -> RuleSet:
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.rank)))


def _check_class(fields: Any, location: Location, complain: Complaint) -> None:
    if not isinstance(fields, dict):
        complain(location, "expected a mapping")
        return
    for key in fields.keys() - _CLASS_KEYS:
        complain((*location, key), f"unknown key {key!r}")
    for key in _REQUIRED:
        if fields.get(key) in (None, "", []):
            complain(location, f"`{key}` is missing")
    if not _CLASS_NAME.match(str(fields.get("class", "x"))):
        complain((*location, "class"), "a class is named with [a-z0-9-]")
    if not isinstance(fields.get("rank", 0), int) or not 0 <= fields.get("rank", 0) < 100:
        complain((*location, "rank"), "a rank is an integer from 0 to 99")
    for key, kind in (("endings", Ending), ("says_nothing", Cause)):
        for value in _list(fields.get(key)):
            if value not in [member.value for member in kind]:  # it may be a list, which no set can look for
                complain((*location, key), f"unknown {key} {value!r}; use one of {', '.join(kind)}")
    for _, entry, where in _by_compiler(fields, "candidates"):
        _check_candidate(entry, (*location, *where), complain)
    _check_texts(fields, location, complain)


def _check_texts(fields: Mapping[str, Any], location: Location, complain: Complaint) -> None:
    """Check the examples, that the regexes compile, and that they capture what identifies the failure."""
    for index, example in enumerate(_list(fields.get("examples"))):
        if not isinstance(example, dict) or not isinstance(example.get("text"), str) or example.keys() - _EXAMPLE_KEYS:
            complain((*location, "examples", index), "an example has `text` and may have `details` and `signature`")
    groups = {"message", "frames", "caller", "frame", "dispatch", "reason", "running"} | (
        {"source_op"} if fields.get("source_op") else set()
    )
    for index, pattern in enumerate(_list(fields.get("patterns"))):
        groups |= _check_pattern(pattern, (*location, "patterns", index), complain)
    for key in ("context", "frames"):
        for index, entry in enumerate(_list(fields.get(key))):
            regex = entry.get("regex") if key == "context" and isinstance(entry, dict) else entry
            groups |= _check_regex(regex, (*location, key, index), complain)
    for index, entry in enumerate(_list(fields.get("above"))):
        if not isinstance(entry, dict) or entry.keys() != {"below", "regex"}:
            complain((*location, "above", index), "what stands above has `below` and `regex`")
        else:
            _check_regex(entry["below"], (*location, "above", index), complain)
            groups |= _check_regex(entry["regex"], (*location, "above", index), complain)
    for name in _list(fields.get("identity")):
        if not set(str(name).split("|")) <= groups:
            complain((*location, "identity"), f"no pattern captures {name!r}")


def _check_pattern(pattern: Any, location: Location, complain: Complaint) -> set[str]:
    if isinstance(pattern, str):
        pattern = {"regex": pattern}
    if not isinstance(pattern, dict) or not isinstance(pattern.get("regex"), str) or pattern.keys() - _PATTERN_KEYS:
        complain(location, "a pattern is a regex, or a mapping of `regex`, `where`, `begins`, `anchor`")
        return set()
    scope = pattern.get("where", MatchScope.ERROR)
    if scope not in {member.value for member in MatchScope}:
        complain(location, f"unknown `where` {scope!r}; use one of {', '.join(MatchScope)}")
    elif scope in (MatchScope.LINE, MatchScope.CRASH) and not (
        pattern.get("begins")
        or pattern.get("anchor")
        or any(text in pattern["regex"] for text in (*ERROR_NEEDLES, "Assertion"))
    ):
        complain(location, f"a `{scope}` pattern needs `begins` (how its message starts) or an `anchor` (a literal)")
    return _check_regex(pattern["regex"], location, complain)


def _check_regex(regex: Any, location: Location, complain: Complaint) -> set[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # such as `[[`, which a later Python may read otherwise
            return set(re.compile(regex).groupindex)
    except (re.error, TypeError, FutureWarning) as error:
        complain(location, f"not a regular expression: {error}")
        return set()


def _check_candidate(entry: Any, location: Location, complain: Complaint) -> None:
    kinds = [kind for kind in _CANDIDATE_KEYS if isinstance(entry, dict) and kind in entry]
    if len(kinds) != 1:
        complain(location, f"a candidate has exactly one of {', '.join(_CANDIDATE_KEYS)}")
        return
    [kind] = kinds
    for key in entry.keys() - _CANDIDATE_KEYS[kind] - {kind, "why"}:
        complain((*location, key), f"unknown key {key!r} of a candidate with {kind!r}")
    if not isinstance(entry.get("why", ""), str):
        complain((*location, "why"), "`why` is a text")
    for key in ("checks_less", "recomputes", "doubling"):
        if not isinstance(entry.get(key, False), bool):
            complain((*location, key), f"`{key}` is true or false")
    _check_value(kind, entry, location, complain)


def _check_value(kind: str, entry: Mapping[str, Any], location: Location, complain: Complaint) -> None:
    value = entry[kind]
    match kind:
        case "give" if not _FLAG.match(str(value)):
            complain((*location, kind), "`give` names a flag, --name=value")
        case "drop" | "least" if not _FLAG_NAME.match(str(value)):
            complain((*location, kind), f"`{kind}` names a flag, --name without a value")
        case "declare" if value != "devices":
            complain((*location, kind), "only devices can be declared")
        case "rewrite" if value not in _REWRITES:
            complain((*location, kind), f"`rewrite` is one of {', '.join(_REWRITES)}")
        case "option" if not isinstance(entry.get("values"), list) or not entry["values"]:
            complain(location, "an option needs a list of values")
        case "least":
            above, upto = entry.get("above"), entry.get("upto")
            if not (isinstance(above, int) and isinstance(upto, int) and 0 <= above < upto):
                complain(location, "`above` and `upto` are integers, `above` the smaller one")


def _rule(fields: Mapping[str, Any], family: str | None, origin: str) -> Rule:
    return Rule(
        name=fields["class"],
        family=str(fields.get("family", family or fields["class"])),
        rank=fields["rank"],
        patterns=tuple(map(_pattern, _list(fields.get("patterns")))),
        identity=tuple(_list(fields.get("identity"))),
        explanation=_one_line(fields["explanation"]),
        remedies=tuple(Advice(_one_line(text), compiler) for compiler, text, _ in _by_compiler(fields, "remedies")),
        candidates=tuple(
            replace(_candidate(entry), compiler=compiler) for compiler, entry, _ in _by_compiler(fields, "candidates")
        ),
        phase=fields.get("phase"),
        says_nothing=Cause(fields["says_nothing"]) if fields.get("says_nothing") else None,
        context=tuple(
            Context(entry["regex"], entry.get("op"), entry.get("unless")) if isinstance(entry, dict) else Context(entry)
            for entry in _list(fields.get("context"))
        ),
        above=tuple(Above(entry["below"], entry["regex"]) for entry in _list(fields.get("above"))),
        source_op=fields.get("source_op", False),
        as_read=AsRead(fields["as_read"]["class"], fields["as_read"]["certain"]) if fields.get("as_read") else None,
        passes=tuple(_list(fields.get("passes"))),
        frames=tuple(_list(fields.get("frames"))),
        endings=tuple(map(Ending, _list(fields.get("endings")))),
        signals=tuple(_list(fields.get("signals"))),
        explains=tuple(_list(fields.get("explains"))),
        examples=tuple(
            RuleExample(example["text"], example.get("details") or {}, example.get("signature"))
            for example in _list(fields.get("examples"))
        ),
        near_misses=tuple(_list(fields.get("near_misses"))),
        origin=origin,
    )


def _pattern(pattern: str | Mapping[str, Any]) -> Pattern:
    if isinstance(pattern, str):
        return Pattern(pattern)
    scope = MatchScope(pattern.get("where", "error"))
    return Pattern(pattern["regex"], scope, tuple(_list(pattern.get("begins"))), tuple(_list(pattern.get("anchor"))))


def _candidate(entry: Mapping[str, Any]) -> RemedyCandidate:
    why = _one_line(entry.get("why", ""))
    match entry:
        case {"give": text}:
            return GiveFlag(text, why, entry.get("checks_less", False), entry.get("recomputes", False))
        case {"drop": name}:
            return DropFlag(name, why)
        case {"least": name, "above": above, "upto": upto}:
            return LeastValue(name.lstrip("-"), above, upto, entry.get("doubling", False), why)
        case {"option": name, "values": values}:
            return LaunchOption(name, tuple(values), why)
        case {"rewrite": name}:
            return RewriteInput(name, why)
        case _:
            return DeclareDevices(why)


def _by_compiler(fields: Mapping[str, Any], key: str) -> Iterator[tuple[str | None, Any, Location]]:
    """Yield the items of a list, or of one list per compiler family: family (None for all), item, location."""
    value = fields.get(key)
    groups = value.items() if isinstance(value, dict) else [(None, value)]
    for compiler, items in groups:
        for index, item in enumerate(_list(items)):
            yield compiler, item, (key, index) if compiler is None else (key, compiler, index)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _one_line(text: str) -> str:
    return " ".join(str(text).split())
