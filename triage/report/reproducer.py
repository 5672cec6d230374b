"""The folder of a reproducer: the program, a recipe, a record for programs, a script, a README for an issue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.bisect.history import plain_status
from triage.compilers.registry import family_of
from triage.compilers.standalone import RULES_FILE, StandaloneCompile
from triage.execution.judge import rules_of
from triage.model.case import Case, Flag, Target
from triage.model.errors import BadInput
from triage.model.execution import Ending
from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.reduce.reproducer import RECIPE, RECORD, Reproducer, Span, expectations, slug, span_around
from triage.reduce.state import Reduced
from triage.report.folder import write_folder
from triage.report.markdown import plain_templates
from triage.report.shapes import Json, failure_json, revision_json
from triage.report.words import headline_text, numbers_text, revision_text
from triage.toolchains.home import disk_errors

_SCRIPT = "repro.sh"
METRIC = "metric"  # the class of a number that grew
_LANGUAGES = {".mlir": "mlir", ".py": "python", ".pyx": "cython", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".cu": "cuda"}
_SAID_LINES = 40
_SAID_LINE = 300
_WORD = re.compile(r"[a-z]+_?[0-9]\w*")  # that YAML takes for nothing but a text
_PASTED = 40_000  # letters; GitHub takes issues of 65536


def place_for(out: Path, case: Case) -> Path:
    """Where a case's reproducer goes. BadInput when something else is there, which is never overwritten."""
    folder = out / slug(case)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; reproducers are written into a folder")
    if (folder.exists() or folder.is_symlink()) and not (folder / RECORD).is_file():
        raise BadInput(f"{folder} is there and is no reproducer (it has no {RECORD}); name another folder with --out")
    return folder


def write_reproducer(one: Reproducer, out: Path) -> Path:
    """Write the folder below `out` in one step, in the place of an older one of the same case; its path."""
    folder = place_for(out, one.reduced.case)
    with disk_errors(f"write the reproducer to {folder}"):
        write_folder(folder, reproducer_files(one), runnable=[_SCRIPT])
    return folder


def reproducer_files(one: Reproducer) -> Mapping[str, str | bytes]:
    """The files of the folder by name. No text of them names a path of this machine or a time of day."""
    templates = plain_templates()
    templates.filters["scalar"] = lambda text: json.dumps(str(text), ensure_ascii=False)
    templates.trim_blocks = templates.lstrip_blocks = True
    reduced, at = one.reduced, one.bad.revision
    span = span_around(one.probes, one.bad, one.failure.signature)
    shared: dict[str, Any] = {
        "one": one,
        "case": reduced.case,
        "at": at,
        "measured": one.failure.failure_class == METRIC,
        "headline": headline_text(one.failure, 400),
    }
    family, task = family_of(reduced.case), standalone_compile(one)
    call, scripts = family.standalone_call(task), family.standalone_files(task)
    files: dict[str, str | bytes] = {one.source: one.text, one.file: one.content, **scripts}
    if one.rules is not None:
        files[RULES_FILE] = one.rules
    pages: dict[str, dict[str, Any]] = {
        RECIPE: {
            "keys": family.recipe_keys(reduced.case),
            "target": _target(reduced.case.target),
            "flags": [_flag(flag) for flag in reduced.case.flags],
            "memory": _size(reduced.case.limits.memory),
            # A number that grew is no class, and nothing that a recipe can expect.
            "expect": [known for known in expectations(one.probes) if known.failure != METRIC],
        },
        _SCRIPT: {
            "call": call,
            "seconds": _ended_by(one, Ending.TIMED_OUT) and round(reduced.case.limits.timeout),
            "kilobytes": _ended_by(one, Ending.OVER_MEMORY) and reduced.case.limits.memory >> 10,
        },
        "README.md": {
            "call": call,
            "scripts": scripts,
            "noun": family.noun,
            "numbers": numbers_text(one.failure),
            "good": one.good,
            "span": span_text(span),
            "text": one.text if len(one.text) <= _PASTED else None,
            "language": _LANGUAGES.get(Path(one.source).suffix, ""),
            "said": _trimmed(one.said),
            "result": _result,
            "revision": revision_text,
            "fence": _fence(one.text + one.said),
        },
    }
    for name, words in pages.items():
        files[name] = templates.get_template(f"reproducer/{name}.j2").render(**shared, **words)
    files[RECORD] = json.dumps(_record(one, span), indent=2, ensure_ascii=False) + "\n"
    return files


def standalone_compile(one: Reproducer) -> StandaloneCompile:
    """The failing compile, as its family needs it to write a command for it."""
    return StandaloneCompile(
        case=one.reduced.case,
        source=one.source,
        program=one.program,
        options=one.options,
        release=one.bad.revision.name,
        version=one.bad.version,
        requirement=one.package,
        failure_class=one.failure.failure_class,
        function=one.function,
    )


def span_text(span: Span) -> str:
    """Since when it fails and until when, as far as versions were tried."""
    first, last = span.first_bad.revision.name, span.last_bad.revision.name
    parts = []
    if span.before:
        name = span.before.revision.name
        parts.append(f"last good {name}" if span.last_good else f"{name} fails otherwise")
    parts.append(f"first bad {first}")
    if span.untested:
        parts[-1] += f" ({', '.join(one.revision.name for one in span.untested)} could not be tested)"
    if last != first:
        parts.append(f"last bad {last}" if span.after else f"still failing in {last}")
    if span.after:
        name = span.after.revision.name
        parts.append(f"fixed in {name}" if span.first_good else f"{name} fails otherwise")
    return ", ".join(parts)


def sizes_json(reduced: Reduced) -> Json:
    """Operations, lines and bytes, before and after."""
    before, after = reduced.before, reduced.after
    return {name: {"before": getattr(before, name), "after": getattr(after, name)} for name in ("operations", "lines", "bytes")}


def evidence_json(probe: Probe) -> Json:
    """What one version makes of the program."""
    failure = None if isinstance(probe.outcome, Compiled) else probe.outcome.failure
    return {
        "version": probe.revision.name,
        "commit": probe.revision.commit,
        "status": plain_status(probe.outcome),
        "signature": failure.signature if failure else None,
        "headline": failure.headline if failure else None,
        "reason": probe.outcome.reason if isinstance(probe.outcome, Untestable) else None,
    }


def _record(one: Reproducer, span: Span) -> Json:
    reduced = one.reduced
    effort = reduced.effort
    return {
        "recipe": reduced.case.recipe,
        "case": reduced.case.name,
        "compiler": reduced.case.compiler,
        "signature": one.failure.signature,
        "failure": failure_json(one.failure),
        "bad": revision_json(one.bad.revision),
        "good": revision_json(one.good),
        "versions": {
            name: probe.revision.name if probe else None
            for name, probe in (
                ("last_good", span.last_good),
                ("first_bad", span.first_bad),
                ("last_bad", span.last_bad),
                ("first_good", span.first_good),
            )
        },
        "command": list(family_of(reduced.case).standalone_call(standalone_compile(one)).words),
        "evidence": [evidence_json(probe) for probe in one.probes],
        **sizes_json(reduced),
        "oracle_calls": effort.calls,
        "cached": effort.cached,
        "invalid": effort.invalid,
        "seconds": round(effort.seconds, 1),
        "compile_seconds": round(effort.compile_seconds, 1),
        "others": [{"signature": other.signature, "headline": other.headline} for other in reduced.others],
        "notes": list(reduced.notes),
    }


def _result(probe: Probe) -> str:
    match probe.outcome:
        case Compiled():
            return "compiles"
        case Failed(failure=failure, flaky=flaky):
            return f"{failure.failure_class}{' (not every time)' if flaky else ''}: {headline_text(failure)}"
        case Untestable(reason=reason):
            return f"not testable: {reason}"


def _ended_by(one: Reproducer, ending: Ending) -> bool:
    """Whether the failure's class describes processes that ended so."""
    rule = rules_of(one.reduced.case).by_name.get(one.failure.failure_class)
    return rule is not None and ending in rule.endings


def _target(target: Target) -> str:
    parts = [f"backend: {target.backend}"]
    if target.chip is not None:
        parts.append(f"chip: {target.chip if _WORD.fullmatch(target.chip) else json.dumps(target.chip)}")
    if target.devices is not None:
        parts.append(f"devices: {target.devices}")
    return ", ".join(parts)


def _flag(flag: Flag) -> str:
    if flag.since is None and flag.until is None:
        return json.dumps(flag.text, ensure_ascii=False)
    bounds = [(name, value) for name, value in (("since", flag.since), ("until", flag.until)) if value]
    words = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in (("flag", flag.text), *bounds)]
    return "{" + ", ".join(words) + "}"


def _size(size: int) -> str:
    return next((f"{size >> bits}{unit}" for bits, unit in ((30, "GiB"), (20, "MiB")) if size % (1 << bits) == 0), f"{size}B")


def _trimmed(said: str) -> str:
    """The beginning of what a compiler printed, its lines cut where they are longer than anyone reads."""
    lines = [line if len(line) <= _SAID_LINE else f"{line[:_SAID_LINE]}…" for line in said.rstrip().splitlines()]
    more = len(lines) - _SAID_LINES
    return "\n".join([*lines[:_SAID_LINES], *([f"... {more} more lines"] if more > 0 else [])])


def _fence(text: str) -> str:
    """A fence that nothing in the text closes."""
    return "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
