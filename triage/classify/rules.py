"""Failure classes as values, and the rule files (YAML) that say what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property, partial
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Annotated, Any, ClassVar, Literal

from triage.model.content import cached_in_file
from triage.model.errors import BadFiles, Problem
from triage.model.fields import Check
from triage.model.outcome import Advice, Cause, Detail, Failure

# rules of this rank and above describe consequences of another failure
_CONSEQUENCE = 80
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_INTEGER = re.compile(r"-?\d{1,29}\Z")


@cache
def packaged_yaml(name: str) -> Any:
    """Read a YAML file next to this one."""
    path = Path(__file__).with_name(f"{name}.yaml")
    return cached_in_file(name, [path], partial(read_yaml, path))


@cache
def log_format(key: str, form: str = "{}") -> re.Pattern[str]:
    """Compile the regexes that `log_formats.yaml` lists under a key as one. form: what
    stands around them.
    """
    return re.compile(form.format("|".join(packaged_yaml("log_formats")[key])))


def read_yaml(file: Path) -> Any:
    """Read a YAML file of the program."""
    import yaml  # here, because many commands need none of it

    # the safe loader of libyaml, if it is there, is ten times faster
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(file.read_text("utf-8"), Loader=loader)  # noqa: S506


@cache
def compile_regex(regex: str) -> re.Pattern[str]:
    """Compile a regex on first use: a run that never fails pays for none."""
    return re.compile(regex)


def captures_of(match: re.Match[str]) -> dict[str, str]:
    """Return the named groups of a match that are not empty."""
    return {name: value for name, value in match.groupdict().items() if value}


def detail(value: str) -> Detail:
    """Convert a capture for a report: integers as int."""
    if _INTEGER.match(value):
        return int(value)
    return value


def required_literals(regex: str) -> tuple[str, ...]:
    """Return texts of which every match of a regex contains one, as long as possible;
    only the empty text if there are none.

    >>> required_literals(r"(?:no|bad) pass .* failed")
    (' failed',)

    To look for them first is several times faster than the regex.
    """
    parsed = parser.parse(regex)
    if parsed.state.flags & re.IGNORECASE:
        return ("",)
    return _longest_choice(parsed)


def _longest_choice(nodes: Any) -> tuple[str, ...]:
    """Return the texts for the part of a regex whose shortest text is longest."""
    choices: list[tuple[str, ...]] = [("",)]
    literal = ""
    for code, value in nodes:
        if code is codes.LITERAL:
            literal += chr(value)
            continue
        choices.append((literal,))
        literal = ""
        if code is codes.SUBPATTERN and not value[1] & re.IGNORECASE:
            choices.append(_longest_choice(value[3]))
        elif code is codes.BRANCH:
            texts = (text for branch in value[1] for text in _longest_choice(branch))
            choices.append(tuple(dict.fromkeys(texts)))
        elif code in _REPEATS and value[0]:
            choices.append(_longest_choice(value[2]))
    return max(*choices, (literal,), key=lambda texts: min(map(len, texts)))


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


Regex = Annotated[str, Check(_regex)]


class Strict:
    """A mapping of a rule file. Other keys than its fields are mistakes."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}


class MatchScope(StrEnum):
    """The part of the output that a pattern is searched in."""

    # the message of an `error:` diagnostic, without location and severity
    ERROR = "error"
    # the message of a `remark:`; never makes a compile with exit code 0 a failure
    REMARK = "remark"
    LINE = "line"  # a whole line, without the prefixes of CI systems
    EXCEPTION = "exception"  # `Type: message`, the last line of a Python traceback
    # the line that starts or explains a native crash; the stack that follows belongs to
    # it
    CRASH = "crash"


PLAIN = (MatchScope.LINE, MatchScope.CRASH)


@dataclass(frozen=True)
class Pattern(Strict):
    """One wording of a failure."""

    regex: Regex
    scope: MatchScope = field(default=MatchScope.ERROR, metadata={"alias": "where"})
    begins: tuple[str, ...] = ()
    """In a large log, lines are read whose message starts with one of these, after a
    program name, a location and CI prefixes; not needed for lines with `error`.
    """
    anchors: tuple[str, ...] = field(default=(), metadata={"alias": "anchor"})
    """The same for texts anywhere in a line."""
    literals: tuple[str, ...] = ()
    """The `required_literals` of the regex."""


@dataclass(frozen=True)
class RemedyCandidate(Strict):
    """What `triage remedy` may try against a failure class."""

    give: str | None = None
    """A flag to pass instead of any other value of it: `--name=value`, or `--name` with
    each of `values`, of which the first that works is a remedy.
    """
    declare: Literal["devices"] | None = None
    """Declare every device that the program names."""
    option: str | None = None
    """An option to launch a kernel with, in turn with each of `values`."""
    rewrite: Literal["static"] | None = None
    """Make dimensions of arguments static."""
    why: str = ""
    checks_less: bool = False
    """The flag only silences a check."""
    recomputes: bool = False
    """The flag changes types of computations and so the results."""
    values: tuple[Detail, ...] = ()


@dataclass(frozen=True)
class RuleExample(Strict):
    """Output as a compiler prints it, with the details and the signature that must be
    read from it.
    """

    text: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    signature: str | None = None


@dataclass(frozen=True)
class LinesAbove(Strict):
    """A regex for the lines above the match."""

    regex: Regex
    match_text: Regex = field(default="", metadata={"alias": "below"})
    """Search the lines only if this regex matches the text of the match."""


@dataclass(frozen=True)
class Rule(Strict):
    """One failure class."""

    name: str = field(metadata={"alias": "class"})
    rank: int
    """Order of root causes, smallest first; 80 and above are consequences, reported
    only when no root cause is found.
    """
    explanation: str
    advice: Mapping[str, tuple[str, ...]] = field(metadata={"alias": "remedies"})
    """By compiler family; `all` for all."""
    examples: tuple[RuleExample, ...] = ()
    near_misses: tuple[str, ...] = ()
    family: str = ""
    patterns: tuple[Pattern, ...] = ()
    identity: tuple[str, ...] = ()
    """Captures that enter the signature; `headline` stands for the whole message,
    `frames` for the stack. A capture `reason`, from the lines around the match, also
    extends the headline.
    """
    candidates: Mapping[str, tuple[RemedyCandidate, ...]] = field(default_factory=dict)
    """What `triage remedy` tries first, most promising first, by compiler family; `all`
    for all.
    """
    phase: str | None = None
    says_nothing: Cause | None = None
    """Why a probe with this failure is untestable."""
    context: tuple[Regex, ...] = ()
    """Regexes whose captures are read from the lines after the match."""
    above: tuple[LinesAbove, ...] = ()
    """The same for the lines above it."""
    passes: tuple[str, ...] = ()
    """Names of passes that assign this class to a failure no text explains."""
    frames: tuple[Regex, ...] = ()
    """Regexes for symbols of the stack that assign this class to a crash."""
    explains: tuple[str, ...] = ()
    """Signatures (or their beginnings) that this failure causes; they are not reported
    next to it.
    """

    @property
    def remedies(self) -> tuple[Advice, ...]:
        """What to do, with the compiler family that each advice is for."""
        return tuple(
            Advice(text, None if name == "all" else name)
            for name, texts in self.advice.items()
            for text in texts
        )

    @property
    def is_consequence(self) -> bool:
        """Whether this class is reported only when no root cause is found."""
        return self.rank >= _CONSEQUENCE

    @property
    def is_unexplained(self) -> bool:
        """Whether a failure of this class does not say what went wrong: it is only a
        consequence, or a message that no rule knows.
        """
        return self.is_consequence or self.name == "unknown"

    @property
    def needs_pass(self) -> bool:
        """Whether only the failing pass identifies a failure of this class."""
        return self.is_unexplained or self.name == "silent-failure"

    def reclassify(self, failure: Failure, signature: str) -> Failure:
        """Return a failure as one of this class, with another signature."""
        return replace(
            failure,
            failure_class=self.name,
            family=self.family,
            signature=signature,
            phase=self.phase,
            explanation=self.explanation,
            remedies=self.remedies,
        )

    def is_identified_by(self, capture: str) -> bool:
        """Return whether a capture is part of the signature."""
        return any(capture in names.split("|") for names in self.identity)

    def candidates_for(self, compiler: str) -> tuple[RemedyCandidate, ...]:
        """Return the candidates for one compiler family, in order."""
        return (*self.candidates.get("all", ()), *self.candidates.get(compiler, ()))


@dataclass(frozen=True, eq=False)
class RuleSet:
    """The rules that output is classified by: smallest rank first, one rule a class.

    Every set contains the packaged rules or replacements of them, so `unknown`,
    `silent-failure` and `segfault` exist.
    """

    rules: tuple[Rule, ...]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    @cached_property
    def by_name(self) -> Mapping[str, Rule]:
        """The rules by class name."""
        return {rule.name: rule for rule in self.rules}


@dataclass(frozen=True)
class RuleFile(Strict):
    """The content of a file of rules."""

    classes: tuple[Rule, ...]
    family: str | None = None
    """The family of each class that does not name its own."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The classes, each with its family; a class without one is its own family."""
        rules = []
        for rule in self.classes:
            patterns = tuple(
                replace(pattern, literals=required_literals(pattern.regex))
                for pattern in rule.patterns
            )
            family = rule.family or self.family or rule.name
            rules.append(replace(rule, family=family, patterns=patterns))
        return tuple(rules)


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
    """Return the rules that come with the program."""
    files = rule_files()
    sources = [*files, Path(__file__)]
    return cached_in_file("rules", sources, partial(_read_packaged, files))


def _read_packaged(files: Sequence[Path]) -> RuleSet:
    from pydantic import TypeAdapter  # slow to import

    adapter = TypeAdapter(RuleFile)
    contents = [adapter.validate_python(read_yaml(file)) for file in files]
    return _rule_set(rule for content in contents for rule in content.rules)


def load_rules(paths: Sequence[Path] = ()) -> RuleSet:
    """Read the rules in files and add the packaged ones.

    A rule of these files takes precedence over a packaged one of the same rank and
    replaces one of the same class.

    Raises:
        BadFiles: with one problem for each mistake, its file and line.
    """
    user_rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            user_rules |= {rule.name: rule for rule in check_rules(path)}
        except BadFiles as error:
            problems += error.problems
    if problems:
        raise BadFiles(problems)
    if not user_rules:
        return packaged_rules()
    # those of the user come first
    by_name = {**user_rules, **packaged_rules().by_name, **user_rules}
    return _rule_set(by_name.values())


def check_rules(path: Path) -> tuple[Rule, ...]:
    """Read and check one rule file.

    Raises:
        BadFiles: with one problem for each mistake.
    """
    from triage.recipes.document import read_document, validate_document

    document = read_document(path, "write a list `classes`")
    content = validate_document(document, RuleFile)
    if content is None:
        raise BadFiles(document.in_order())
    return content.rules


def _rule_set(rules: Iterable[Rule]) -> RuleSet:
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.rank)))
