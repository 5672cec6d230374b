"""Divide the cases of a nightly among machines, and join what they found."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from triage.investigate.result import CaseResult, FailureCluster
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.nightly.compare import EarlierNights, clusters_of, with_earlier_nights
from triage.nightly.result import Night
from triage.toolchains.home import disk_errors

_FOLDERS = ("attribution", "issues", "logs", "reproducers")
_SHARD = re.compile("([0-9]{1,4})/([0-9]{1,4})")


def shard(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """Return the cases of shard `I/N`, I from 1: every N-th case. Raises BadInput for
    another text.
    """
    if text is None:
        return tuple(cases)
    number, count = _number_and_count(text)
    if not 1 <= number <= count:
        raise BadInput(
            f"--shard {text!r}: write I/N with I from 1 to N, for example 1/4"
        )
    return tuple(cases[number - 1 :: count])


def _number_and_count(text: str | None) -> tuple[int, int]:
    """Return the I and the N of `I/N`; zeros for another text."""
    match = _SHARD.fullmatch(text or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)


def merge(shards: Iterable[Night], earlier: EarlierNights) -> Night:
    """Return one night of all shards, in the order of the recipes; a partial one if a
    shard is missing.

    earlier: reads the stored nights. Raises BadInput for shards of different nightlies,
    and for a case that is in two of them.
    """
    nights = sorted(shards, key=lambda night: _number_and_count(night.shard))
    # a shard of more shards than cases knows no compiler
    tested = [night for night in nights if night.cases] or nights
    if len({(night.compiler, night.toolchain, night.baseline) for night in tested}) > 1:
        raise BadInput(
            "these shards do not belong together; run all with the same two revisions, "
            "such as nightly:2025-06-04"
        )
    stopped = [f"{night.shard}: {night.stopped}" for night in nights if night.stopped]
    count = max(_number_and_count(night.shard)[1] for night in nights)
    if len(nights) < count:
        stopped.append(f"{len(nights)} of {count} shards are there")
    planned = _order(nights)
    order = {name: index for index, name in enumerate(planned)}
    cases = [
        with_earlier_nights(case, night.kind, earlier)
        for night in nights
        for case in night.cases
    ]
    cases.sort(key=lambda case: order.get(case.case, len(order)))
    times = [row for night in nights for row in night.times]
    investigations = filter(None, (night.investigation for night in nights))
    return replace(
        tested[0],
        started=min(night.started for night in nights),
        seconds=max(night.seconds for night in nights),
        compiles=sum(night.compiles for night in nights),
        cached=sum(night.cached for night in nights),
        shard=None,
        planned=planned,
        cases=cases,
        clusters=_joined_clusters(nights, cases),
        investigation=next(investigations, None),
        times=sorted(times, key=lambda row: order.get(row.case, 0)),
        stopped="; ".join(stopped) or None,
        strict=any(night.strict for night in nights),
        sealed=all(night.sealed for night in nights),
        reports={},
    )


def _order(nights: Sequence[Night]) -> list[str]:
    """Return all cases in the order of the recipes: every N-th is a shard's. BadInput
    for a case that is in two shards.
    """
    rounds = zip_longest(*(night.planned for night in nights))
    names = [name for names in rounds for name in names if name is not None]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice:
        raise BadInput(
            f"case {twice} is in two shards; pass each shard of one nightly once, and "
            "the same recipes to all"
        )
    return names


def _joined_clusters(
    nights: Sequence[Night], cases: Sequence[CaseResult]
) -> list[FailureCluster]:
    """Return the new failures of all shards. Those with one signature and one culprit
    are one; what was found out comes from the first shard that found it out.
    """
    clusters = [cluster for night in nights for cluster in night.clusters]
    clusters.sort(key=lambda cluster: not cluster.is_explained)
    joined = []
    for whole in clusters_of(cases):
        parts: dict[str, list[FailureCluster]] = {}
        for cluster in clusters:
            after = cluster.culprit.after if cluster.culprit else None
            if cluster.key == whole.key:
                culprit = after.name if after else next(iter(parts), "")
                parts.setdefault(culprit, []).append(cluster)
        for number, alike in enumerate(parts.values(), 1):
            names = {name for cluster in alike for name in cluster.cases}
            members = [name for name in whole.cases if name in names]
            identity = whole.id if number == 1 else f"{whole.id}.{number}"
            if members:
                joined.append(replace(alike[0], id=identity, cases=members))
    return joined


def copy_files(folders: Sequence[Path], out: Path) -> None:
    """Copy reproducers, logs and pages next to the joined reports. Raises BadInput for
    a link or a pipe in a shard.
    """
    for folder in folders:
        if out.resolve() == folder.resolve():
            raise BadInput(f"--out {out} is the folder of a shard; pass another one")
        for path in folder.rglob("*"):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise BadInput(f"{path} is a link or a pipe; no nightly writes one")
    with disk_errors(f"write the reports to {out}"):
        # of files with one name the first shard's stays, as its cluster does
        for folder in reversed(folders):
            for name in _FOLDERS:
                if (folder / name).is_dir():
                    shutil.copytree(folder / name, out / name, dirs_exist_ok=True)
