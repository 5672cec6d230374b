"""The answer of a bisect over two repositories: terminal, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from triage.bisect.history import plain_status
from triage.bisect.moved import Combination, TwoRepositories
from triage.bisect.result import Answer
from triage.model.outcome import Compiled, Failed, Untestable
from triage.report.bisection import bisection_block
from triage.report.certificate import certificate
from triage.report.shapes import Json, bisection_json, failure_json, revision_json
from triage.report.words import revision_text


def moved_blocks(found: TwoRepositories) -> Iterable[RenderableType]:
    """Which repository moved, the corners that show it, and each bisect's own answer."""
    if found.moved:
        yield Text(found.moved.story, style="bold")
    for corner in found.corners:
        yield Text(f"  {_corner_text(corner)}", style="dim")
    for part in found.parts:
        yield bisection_block(part)


def moved_certificate(found: TwoRepositories) -> str:
    """The same as Markdown."""
    lines = [f"**{found.moved.story.capitalize()}.**", ""] if found.moved else []
    lines += [f"- {_corner_text(corner)}" for corner in found.corners]
    return "\n".join([*lines, "", *(certificate(part) for part in found.parts)])


def moved_json(found: TwoRepositories) -> Json:
    """The shape of a bisect with `moved`, `corners`, and each repository's bisect under its name. The outer one is the
    compiler's where there are two; a culprit only when both have one.
    """
    first = found.parts[0]
    answers = {part.answer for part in found.parts}
    weakest = next(one for one in (Answer.INCONCLUSIVE, Answer.SUSPECTS, Answer.CULPRIT) if one in answers)
    return {
        **bisection_json(first),
        "status": weakest.value,
        "confirmed": all(part.confirmed for part in found.parts),
        "moved": found.moved.value if found.moved else None,
        "corners": [_corner_json(corner) for corner in found.corners],
        "compiler": bisection_json(found.compiler) if found.compiler else None,
        "model": bisection_json(found.model) if found.model else None,
    }


def _corner_json(corner: Combination) -> Json:
    outcome = corner.outcome
    return {
        "compiler": revision_json(corner.compiler),
        "model": revision_json(corner.model),
        "status": plain_status(outcome),
        "failure": None if isinstance(outcome, Compiled) else failure_json(outcome.failure),
        "reason": outcome.reason if isinstance(outcome, Untestable) else None,
    }


def _corner_text(corner: Combination) -> str:
    match corner.outcome:
        case Compiled():
            said = "compiles"
        case Failed(failure=failure):
            said = f"fails: {failure.failure_class}: {failure.headline}"
        case Untestable(reason=reason):
            said = f"untestable: {reason}"
    return f"{revision_text(corner.compiler)}, model {corner.model.name}: {said}"
