"""A small program for each failure that regressed in a night."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause
from triage.nightly.compare import Change, Example, Night, Pair
from triage.probe.judge import same_signature
from triage.probe.workbench import Workbench
from triage.reduce.reproducer import Reproducer, reproducer_of
from triage.reduce.result import NotReproducible
from triage.reduce.workflow import Order, reduce_case
from triage.toolchains.shed import Place


def with_examples(
    bench: Workbench, night: Night, toolchain: Place, baseline: Place, write: Callable[[Reproducer], Path]
) -> Iterator[Night]:
    """The night with one more example each time, until every signature that regressed has one: its first case is reduced,
    with the baseline as the toolchain that has to go on compiling it. Stopped in between, what was written stays.
    """
    done: dict[str, Example] = {}
    for pair in night.of(Change.REGRESSED):
        signature = pair.failure.signature if pair.failure else ""
        if signature not in done:
            done[signature] = _example(bench, pair, signature, (toolchain, baseline), write)
            yield replace(night, examples=tuple(done.values()))


def _example(
    bench: Workbench, pair: Pair, signature: str, places: tuple[Place, Place], write: Callable[[Reproducer], Path]
) -> Example:
    bad, good = places
    try:
        found = reduce_case(bench, Order(pair.probe.case, bad, good, same_signature))
        folder = None if isinstance(found, NotReproducible) else write(reproducer_of(bench, found, bad))
    except EnvironmentFailure as error:  # the night's result stands all the same
        return Example(signature, NotReproducible(pair.probe.case, str(error), cause=Cause.ENVIRONMENT))
    return Example(signature, found, folder)
