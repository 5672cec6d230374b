"""Bisect a number of a case, such as its run time, as if its failure were that the
number is beyond a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from triage.bisect.plan import compilers_at
from triage.bisect.request import BisectRequest
from triage.execution.number_judge import Metric, engine_with_judge
from triage.model.errors import BadInput


@contextmanager
def measuring(
    request: BisectRequest,
    before: str | None,
    after: str | None,
    metric: str | None,
    above: float | None,
    seconds: float,
) -> Iterator[BisectRequest]:
    """Yield the request; with a metric, NAME[:FUNCTION], its engine or its case calls a
    number beyond the limit a failure. seconds: for which each time is measured.
    """
    if metric is None:
        yield request
        return
    if before is None or after is None:
        raise BadInput("--metric needs --good and --bad, which say what is good")
    number, case = Metric.parse(metric), request.case
    if above is None:
        refs = request.kind.in_order(*compilers_at(request, before, after))
        engine = engine_with_judge(request.engine, case, refs, number, seconds)
        with engine as judging:
            yield replace(request, engine=judging)
        return
    if not number.exact:
        raise BadInput("--above needs a number that is the same each time")
    limits = (*case.thresholds, (number.name, above))
    yield replace(request, case=replace(case, thresholds=limits))
