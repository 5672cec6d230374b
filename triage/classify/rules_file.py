"""Read rule files (YAML) into rule sets; report every mistake of every file with its
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from triage.classify.rules import (
    Rule,
    RuleSet,
    Strict,
    read_yaml,
    required_literals,
)
from triage.model.content import cached_in_file
from triage.model.errors import BadFiles, Problem


@dataclass(frozen=True, slots=True)
class RuleFile(Strict):
    """The content of a file of rules."""

    classes: tuple[Rule, ...]
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
            user_rules |= {rule.name: rule for rule in check_rules(file)}
        except BadFiles as error:
            problems += error.problems
    if problems:
        raise BadFiles(problems)
    packaged = packaged_rules()
    if user_rules:
        others = [rule for rule in packaged if rule.name not in user_rules]
        return _rule_set([*user_rules.values(), *others])
    return packaged


def check_rules(path: Path) -> tuple[Rule, ...]:
    """Read and check one rule file.

    Raises:
        BadFiles: with one problem for each mistake.
    """
    from triage.recipes.document import read_document, validated

    document = read_document(path, "write a list `classes`")
    content = validated(document, RuleFile, context="check its regexes")
    if content is None:
        raise BadFiles(document.in_order())
    return content.rules


def _rule_set(rules: Iterable[Rule]) -> RuleSet:
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.rank)))
