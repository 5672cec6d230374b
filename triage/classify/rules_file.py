"""Read rule files (YAML) into rule sets; report every mistake of every file with its
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triage.classify.rules import (
    NotEmpty,
    Rule,
    RuleSet,
    Strict,
    compile_regex,
    read_yaml,
    required_literals,
)
from triage.model.content import cached_in_file
from triage.model.errors import BadFiles, Problem
from triage.model.outcome import Failure

if TYPE_CHECKING:
    from triage.recipes.document import ConfigDocument

# captured without a pattern
_ALWAYS = ("message", "frames", "frame", "reason", "running", "name")


@dataclass(frozen=True, slots=True)
class RuleFile(Strict):
    """The content of a file of rules."""

    classes: Annotated[tuple[Rule, ...], NotEmpty]
    family: str | None = None
    """The family of each class that does not name its own."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The classes, each with its family; a class without one is its own family."""
        return tuple(
            replace(rule, family=rule.family or self.family or rule.name)
            for rule in self.classes
        )


def rule_files() -> list[Path]:
    """Return the files of the rules that come with the program: those for all
    compilers, then those in the folder of each compiler family.
    """
    package = Path(__file__).parents[1]
    return [
        *sorted(package.glob("classify/rules/*.yaml")),
        *sorted(package.glob("compilers/*/rules.yaml")),
    ]


@cache
def packaged_rules() -> RuleSet:
    """Return the rules that come with the program; their regexes are checked by the
    tests, not at each start.
    """
    files = rule_files()
    modules = [Path(__file__), Path(__file__).with_name("rules.py")]
    return cached_in_file("rules", [*files, *modules], partial(_read_packaged, files))


def _read_packaged(files: Sequence[Path]) -> RuleSet:
    from pydantic import TypeAdapter  # slow to import

    adapter = TypeAdapter(RuleFile)
    rules: list[Rule] = []
    for file in files:
        for rule in adapter.validate_python(read_yaml(file)).rules:
            patterns = tuple(
                replace(pattern, literals=required_literals(pattern.regex))
                for pattern in rule.patterns
            )
            rules.append(replace(rule, patterns=patterns))
    return _rule_set(rules)


def load_rules(paths: Sequence[Path] = ()) -> RuleSet:
    """Read the rules in `paths` (files, or folders of `*.yaml`) and add the packaged
    ones.

    A rule of these files takes precedence over a packaged one of the same rank and
    replaces one of the same class.

    Raises:
        BadFiles: with one problem for each mistake, its file and line.
    """
    user_rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    for file in files:
        try:
            user_rules |= {rule.name: rule for rule in check_rules(file, user_rules)}
        except BadFiles as error:
            problems += error.problems
    if problems:
        raise BadFiles(problems)
    packaged = packaged_rules()
    if user_rules:
        others = [rule for rule in packaged if rule.name not in user_rules]
        return _rule_set([*user_rules.values(), *others])
    return packaged


def check_rules(path: Path, elsewhere: Mapping[str, Rule]) -> tuple[Rule, ...]:
    """Read and check one rule file. elsewhere: the rules of other files, whose classes
    must not be repeated.

    Raises:
        BadFiles: with one problem for each mistake.
    """
    from triage.recipes.document import read_document, validated

    document = read_document(path, "write a list `classes`")
    content = validated(document, RuleFile, context={"check": True})
    rules = content.rules if content else ()
    for index, rule in enumerate(rules):
        _check_identity(rule, index, document)
        earlier = [other.name for other in rules[:index]]
        if rule.name in elsewhere or rule.name in earlier:
            document.report(
                ("classes", index, "class"), f"class {rule.name!r} is already defined"
            )
    if not document.problems:
        _check_examples(rules, elsewhere, document)
    if document.problems:
        raise BadFiles(document.in_order())
    return rules


def _rule_set(rules: Iterable[Rule]) -> RuleSet:
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.rank)))


def _check_identity(rule: Rule, index: int, document: ConfigDocument) -> None:
    regexes = [pattern.regex for pattern in rule.patterns]
    regexes += [lines.regex for lines in rule.context]
    regexes += [lines.regex for lines in rule.above]
    groups = {*_ALWAYS}
    for regex in (*regexes, *rule.frames):
        groups.update(compile_regex(regex).groupindex)
    for names in rule.identity:
        if not set(names.split("|")) <= groups:
            document.report(
                ("classes", index, "identity"), f"no pattern captures {names!r}"
            )


def _check_examples(
    rules: Sequence[Rule], elsewhere: Mapping[str, Rule], document: ConfigDocument
) -> None:
    """Report each example that is not classified as its class or has other details,
    and each near miss that is classified as the class.
    """
    from triage.classify.reader import read_log

    by_name = {rule.name: rule for rule in rules}
    every = _rule_set({**packaged_rules().by_name, **elsewhere, **by_name}.values())
    for number, rule in enumerate(rules):

        def first_failure(text: str, name: str = rule.name) -> Failure | None:
            reader = read_log([text.encode("utf-8", "replace")], every)
            failures = reader.findings.failures
            return next(
                (failure for failure in failures if failure.failure_class == name), None
            )

        for index, example in enumerate(rule.examples):
            at = ("classes", number, "examples", index)
            if not example.text.strip():  # an example of how a process ends has no text
                continue
            first = first_failure(example.text)
            if first is None:
                message = "this example is not classified as its class"
                document.report(at, f"{message}; correct the patterns or the text")
                continue
            read = {name: first.details.get(name) for name in example.details}
            if read != example.details:
                document.report((*at, "details"), f"this example has {read}")
            if example.signature not in (None, first.signature):
                message = f"the signature of this example is {first.signature!r}"
                document.report((*at, "signature"), message)
        for index, text in enumerate(rule.near_misses):
            if first_failure(text):
                message = "this near miss is classified as the class"
                document.report(("classes", number, "near_misses", index), message)
