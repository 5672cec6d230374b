"""Divide the cases of a nightly among machines."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from statistics import median

from triage.model.case import Case
from triage.model.errors import BadInput


def shard(cases: Sequence[Case], text: str | None, costs: Mapping[str, float] = {}) -> tuple[Case, ...]:
    """Return the cases of shard `I/N`, I from 1, in their order; every case is in exactly one shard.

    costs: seconds that cases took. The most expensive case goes first, each to the shard with the least work so far; a case
    that is not listed counts as the median of the others. Without costs of any case a shard has every N-th case. Machines
    with the same cases and costs cut the same shards.

    Raises:
        BadInput: the text is another one.
    """
    if text is None:
        return tuple(cases)
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise BadInput(f"--shard {text!r}: write I/N with I from 1 to N, for example 1/4")
    known = [costs[case.name] for case in cases if case.name in costs]
    if not known:
        return tuple(cases[int(number) - 1 :: int(count)])
    usual = median(known)
    loads = [(0.0, index) for index in range(1, int(count) + 1)]
    names = set()
    for seconds, name in sorted((-costs.get(case.name, usual), case.name) for case in cases):
        load, index = loads[0]
        heapq.heapreplace(loads, (load - seconds, index))
        if index == int(number):
            names.add(name)
    return tuple(case for case in cases if case.name in names)
