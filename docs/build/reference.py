"""Write the reference pages from the code while the site is built (a script of
mkdocs-gen-files).
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import pkgutil
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import mkdocs_gen_files
import yaml

import triage.report
from triage.bisect.history import KnownReleases
from triage.classify import ClassifiedLog, packaged_rules
from triage.cli.app import every_command
from triage.compilers.registry import Families, RecipesByFamily
from triage.model.fields import printed_keys
from triage.model.outcome import MEANINGS
from triage.recipes.recipe import recipe_json_schema


def option_row(param: Any) -> str:
    """Return one row of a command's table: the spellings, then the meaning with choices
    and the default.
    """
    positional = not param.opts[0].startswith("-")
    spelling = (
        f"`{param.metavar or param.name.upper()}`"
        if positional
        else ", ".join(f"`{option}`" for option in param.opts)
    )
    notes = []
    if "|" in (param.metavar or "") and not positional:
        notes.append(f"one of `{param.metavar.replace('|', '`, `')}`")
    if (
        isinstance(param.default, str | int | float)
        and not isinstance(param.default, bool)
        and not positional
    ):
        notes.append(f"default `{param.default}`")
    text = (getattr(param, "help", None) or "").replace("|", "\\|")
    return f"| {spelling} | {text}{' (' + '; '.join(notes) + ')' if notes else ''} |\n"


def commands_page() -> str:
    """Return a section for each command: its help text and its options."""
    parts = [
        "# Commands\n\nThe same text as `--help`. Every command takes `--format json`.\n"
    ]
    for path, command in sorted(every_command(), key=lambda item: item[0]):
        parts.append(
            f"\n## triage {' '.join(path)}\n\n{inspect.cleandoc(command.help or '')}\n\n| option | meaning |\n|---|---|\n"
        )
        parts += [
            option_row(param)
            for param in command.params
            if param.name != "help" and not getattr(param, "hidden", False)
        ]
    return "".join(parts)


def classes_page() -> str:
    """Return the failure classes by family, with their explanation and the advice for
    each.
    """
    parts = [
        "# Failure classes\n\nThe classes that come with triage, by family. A family joins the classes that one root cause "
        "shows in different releases; `triage bisect --match family` follows it. "
        "[Describe your own](../how-to/failure-classes.md) in the same format.\n"
    ]
    names = {"iree": "IREE: ", "triton": "Triton: ", "xla": "XLA: "}
    rules = sorted(packaged_rules(), key=lambda rule: (rule.family, rule.name))
    for family, members in groupby(rules, key=lambda rule: rule.family):
        parts.append(f"\n## {family}\n")
        for rule in members:
            parts.append(f"\n**`{rule.name}`**: {rule.explanation}")
            if rule.says_nothing:
                parts.append(
                    f" A version that fails this way is untestable ({rule.says_nothing})."
                )
            parts.append(
                "\n"
                + "".join(
                    f"\n- {names.get(advice.compiler or '', '')}{advice.text}"
                    for advice in rule.remedies
                )
                + "\n"
            )
    return "".join(parts)


def corpus_page() -> str:
    """Return the public threads whose failures measure `triage classify`, with what
    failed in each.
    """
    folder = Path(__file__).parents[2] / "tests" / "data" / "classify_corpus"
    paths = [
        path for path in folder.glob("*.yaml") if path.stem not in ("no_failure", "own")
    ]
    entries = [
        entry for path in paths for entry in yaml.safe_load(path.read_text("utf-8"))
    ]
    families = {rule.name: rule.family for rule in packaged_rules()}
    rows = []
    for entry in sorted(entries, key=lambda entry: str(entry["thread"])):
        thread = entry["thread"].removesuffix("/2")
        address = "https://github.com/" + thread.replace("#", "/issues/")
        name = entry["class"] if isinstance(entry["class"], str) else entry["class"][0]
        parts = ", ".join(names.split("|")[0] for names in entry["names"])
        rows.append(
            f"| [{thread}]({address}) | {families[name]} | `{name}` | {parts} |\n"
        )
    return (
        "# Classified public failures\n\nThe facts of public threads that the tests measure classes and "
        "signatures with: what failed, and what a specific signature must name. The texts of the corpus are written for it "
        "in the format of the diagnostics. [What was tried](../research.md) has the figures."
        f"\n\n| thread | family | class | signature names |\n|---|---|---|---|\n{''.join(rows)}"
    )


def lint_page() -> str:
    """Return the table of lint rules."""
    linters = (
        linter for family in Families().values() if (linter := family.lint) is not None
    )
    rows = "".join(
        f"| `{rule}` | {' '.join(summary.split())} |\n"
        for linter in linters
        for rule, summary in linter.rules.items()
    )
    return f"# Lint rules\n\n| rule | finds |\n|---|---|\n{rows}"


def exit_codes_page() -> str:
    """Return the table of exit codes."""
    rows = "".join(
        f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items()
    )
    return f"# Exit codes\n\nEvery command ends with one of these.\n\n| code | meaning |\n|---|---|\n{rows}"


def recipe_page() -> str:
    """Return the JSON Schema of a recipe."""
    schema = json.dumps(recipe_json_schema(RecipesByFamily()), indent=2)
    return (
        "# Recipe keys\n\n[Write a recipe](../how-to/recipes.md) explains the keys. This is the JSON Schema that "
        f"`triage recipe schema` prints, for editors.\n\n```json\n{schema}\n```\n"
    )


def results() -> Iterator[tuple[str, Any, str]]:
    """Yield the name of every report with the type of its result and its summary."""
    for found in pkgutil.iter_modules(triage.report.__path__, "triage.report."):
        module = importlib.import_module(found.name)
        late: dict[str, Any] = {}  # what the module imports for types alone
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.If):
                exec(compile(ast.Module(node.body, []), found.name, "exec"), late)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.endswith("_document") and function.__module__ == found.name:
                kind = next(
                    iter(
                        typing.get_type_hints(
                            function, {**late, **function.__globals__}
                        ).values()
                    )
                )
                yield (
                    name.removesuffix("_document").replace("_", " "),
                    kind,
                    inspect.getdoc(function) or "",
                )


# classes that modules import for their annotations alone
_NOT_IMPORTED = {"KnownReleases": KnownReleases, "ClassifiedLog": ClassifiedLog}


def schema_of(kind: Any, outer: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a type as `model.fields` writes its values. outer:
    the classes around it.
    """
    plain = {
        str: "string",
        int: "integer",
        float: "number",
        bool: "boolean",
        type(None): "null",
    }
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in plain:
        return {"type": plain[kind]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(one, outer) for one in inner]}
    if origin and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1], outer)}
    if origin and issubclass(origin, Collection):
        return {"type": "array", "items": schema_of(inner[0], outer)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if not dataclasses.is_dataclass(kind) or kind in outer:
        return {"title": getattr(kind, "__name__", "value")}
    hints = typing.get_type_hints(kind, localns=_NOT_IMPORTED)
    known = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    properties: dict[str, Any] = {}
    for name, key in printed_keys(kind).items():
        if name not in known:
            get = inspect.getattr_static(kind, name).get
            known[name] = typing.get_type_hints(get)["return"]
        properties[key] = schema_of(known[name], (*outer, kind))
    return {"type": "object", "title": kind.__name__, "properties": properties}


def json_page() -> str:
    """Return a table of the commands' answers, and write the JSON Schema of each next
    to it.
    """
    rows = []
    for name, kind, summary in sorted(results(), key=lambda result: result[0]):
        path = f"schemas/{name.replace(' ', '-')}.json"
        with mkdocs_gen_files.open(f"reference/{path}", "w") as schema:
            json.dump(schema_of(kind), schema, indent=1)
        sentence = " ".join(summary.partition(".")[0].split())
        rows.append(f"| [{name}]({path}) | {sentence}. |\n")
    return (
        "# JSON output\n\nEvery command takes `--format json` and prints one document on stdout. Fields may be added. "
        "[JSON of a night](nightly-json.md) explains the largest one."
        f"\n\n| JSON Schema | the answer |\n|---|---|\n{''.join(rows)}"
    )


PAGES = {
    "json": json_page,
    "commands": commands_page,
    "failure-classes": classes_page,
    "classified-failures": corpus_page,
    "lint-rules": lint_page,
    "exit-codes": exit_codes_page,
    "recipe": recipe_page,
}

for page, text in PAGES.items():
    with mkdocs_gen_files.open(f"reference/{page}.md", "w") as file:
        file.write(text())
