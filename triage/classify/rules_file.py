"""Read rule files (YAML) into rule sets; report every mistake of every file with its line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from triage.classify.rules import (
    Above,
    AsMade,
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
from triage.model.outcome import Advice, Cause, Failure

Location = tuple[str | int, ...]  # the keys and indices that lead to a value of the file
Complaint = Callable[[Location, str], None]

_ALWAYS = ("message", "frames", "caller", "frame", "dispatch", "reason", "running")  # captured without a pattern


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
    from triage.classify.rules_format import RulesFormat
    from triage.config.document import FileKind, read_document, read_text
    from triage.config.schema import checked, in_order

    kind = FileKind("rule file", "write a list `classes`")
    document = read_document(str(path), read_text(path, kind), kind)
    checked(document, RulesFormat)
    data = document.typed()
    entries = _list(data.get("classes")) if isinstance(data, dict) else []
    for index, fields in enumerate(entries):
        _check_identity(fields, ("classes", index), document.report)
    if not document.problems:
        rules = [_rule(fields, data.get("family"), str(path)) for fields in entries]
        earlier = dict(known)
        for index, rule in enumerate(rules):
            if rule.name in earlier:
                document.report(
                    ("classes", index, "class"), f"class {rule.name!r} is already defined in {earlier[rule.name].origin}"
                )
            earlier[rule.name] = rule
        if not document.problems:
            _check_examples(rules, known, document.report)
    if document.problems:
        raise BadFiles(in_order(document.problems))
    return rules


def _ranked(rules: Sequence[Rule]) -> RuleSet:
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.rank)))


def _groups(fields: Mapping[str, Any]) -> set[str]:
    """Return what a class captures, as far as its regexes are valid."""
    texts = [entry for key in ("patterns", "context", "above", "frames") for entry in _list(fields.get(key))]
    regexes: list[Any] = [entry.get("regex") if isinstance(entry, dict) else entry for entry in texts]
    groups = {*_ALWAYS, "source_op"} if fields.get("source_op") else {*_ALWAYS}
    for regex in regexes:
        with suppress(re.error, TypeError), warnings.catch_warnings(action="ignore"):
            groups |= set(re.compile(regex).groupindex)
    return groups


def _check_identity(fields: Any, location: Location, complain: Complaint) -> None:
    if isinstance(fields, dict):
        groups = _groups(fields)
        for name in _list(fields.get("identity")):
            if not set(str(name).split("|")) <= groups:
                complain((*location, "identity"), f"no pattern captures {name!r}")


def _check_examples(rules: Sequence[Rule], known: Mapping[str, Rule], complain: Complaint) -> None:
    """Check that each example is classified as it says, and that no near miss is."""
    from triage.classify.scanner import Scanner

    own = {rule.name: rule for rule in rules}
    others = {**packaged_rules().by_name, **known, **own}
    every = _ranked(tuple(others.values()))

    def failures(text: str) -> tuple[Failure, ...]:
        scanner = Scanner(every)
        scanner.feed(text.encode("utf-8", "replace"))
        return scanner.finish()

    for number, rule in enumerate(rules):
        for index, example in enumerate(rule.examples):
            location: Location = ("classes", number, "examples", index)
            if not example.text.strip():  # it is about how a process ends
                continue
            first = next((failure for failure in failures(example.text) if failure.failure_class == rule.name), None)
            if first is None:
                complain(location, "this example is not classified as its class; correct the patterns or the text")
                continue
            for name, value in example.details.items():
                if first.details.get(name) != value:
                    complain((*location, "details", name), f"`{name}` is {first.details.get(name)!r} in this example")
            if example.signature not in (None, first.signature):
                complain((*location, "signature"), f"the signature of this example is {first.signature!r}")
        for index, text in enumerate(rule.near_misses):
            if any(failure.failure_class == rule.name for failure in failures(text)):
                complain(("classes", number, "near_misses", index), "this near miss is classified as the class")


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
        as_made=AsMade(fields["as_made"]["class"], fields["as_made"]["doubtful"]) if fields.get("as_made") else None,
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
