"""Divide the cases of a nightly among machines, and join what they found."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from triage.investigate.result import ClusterKey, FailureCluster
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.nightly.result import Night
from triage.toolchains.home import disk_errors

_NAMED = 10  # missing shards in a message
_FOLDERS = ("attribution", "issues", "logs", "reproducers")


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
    match = re.fullmatch("([0-9]{1,15})/([0-9]{1,15})", text or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)


def merge(
    shards: Sequence[tuple[Path, Night]], *, allow_missing: bool = False
) -> Night:
    """Return one night of all shards by their folders, in the order of the recipes.

    allow_missing: a missing shard makes the night partial. Raises BadInput for shards
    of different toolchains, for cases that are in two of them, and for a missing shard.
    """
    shards = sorted(shards, key=lambda shard: _number_and_count(shard[1].shard))
    _check_same_nightly(shards)
    missing = _missing(shards)
    if missing and not allow_missing:
        raise BadInput(
            f"{missing}; pass its folder, or --allow-missing for a partial report"
        )
    _check_cases(shards, complete=not missing)
    nights = [night for _, night in shards]
    stopped = [f"{night.shard}: {night.stopped}" for night in nights if night.stopped]
    if missing:
        stopped.append(missing)
    investigations = [night.investigation for night in nights if night.investigation]
    places = _places(nights)
    cases = [case for night in nights for case in night.cases]
    times = [row for night in nights for row in night.times]
    not_compared = [name for night in nights for name in night.not_compared]
    return replace(
        nights[0],
        started=min(night.started for night in nights),
        seconds=max(night.seconds for night in nights),
        compiles=sum(night.compiles for night in nights),
        cached=sum(night.cached for night in nights),
        shard=None,
        total=max(night.total for night in nights) if missing else 0,
        planned=[],
        cases=sorted(cases, key=lambda case: places[case.case]),
        clusters=_joined_clusters(nights, places),
        investigation=investigations[0] if investigations else None,
        times=sorted(times, key=lambda row: places.get(row.case, (0, 0))),
        stopped="; ".join(stopped) or None,
        not_compared=sorted(not_compared, key=places.__getitem__),
        strict=any(night.strict for night in nights),
        sealed=all(night.sealed for night in nights),
        reports={},
    )


def _places(nights: Sequence[Night]) -> dict[str, tuple[int, int]]:
    """Return the keys that sort the cases of shards in the order of the recipes: every
    N-th case is a shard's. Nights without a shard follow each other.
    """
    places = {}
    for position, night in enumerate(nights):
        names = [case.case for case in night.cases] + night.not_compared
        for number, name in enumerate(dict.fromkeys([*night.planned, *names])):
            places[name] = (position, number)
            if night.shard:
                places[name] = (number, position)
    return places


def copy_files(folders: Sequence[Path], out: Path) -> None:
    """Copy reproducers, logs and pages next to the joined reports. Raises BadInput for
    a link or a pipe in a shard.
    """
    for folder in folders:
        if out.resolve() == folder.resolve():
            raise BadInput(f"--out {out} is the folder of a shard; pass another one")
        for path in folder.rglob("*"):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise BadInput(
                    f"{path} is a link or a pipe; a shard holds only files that "
                    "`triage nightly` wrote"
                )
    with disk_errors(f"write the reports to {out}"):
        # of files with one name the first shard's stays, as its cluster does
        for folder in reversed(folders):
            for name in _FOLDERS:
                if (folder / name).is_dir():
                    shutil.copytree(folder / name, out / name, dirs_exist_ok=True)


def _check_same_nightly(shards: Sequence[tuple[Path, Night]]) -> None:
    """Raises BadInput for shards that do not belong together."""
    compared = {folder: _compared(night) for folder, night in shards}
    if len(set(compared.values())) > 1:
        texts = [f"{folder} compares {text}" for folder, text in compared.items()]
        raise BadInput(
            f"{'; '.join(texts)}; run all shards with the same two revisions, such as "
            "nightly:2025-06-04"
        )
    known = Counter(_number_and_count(night.shard) for _, night in shards)
    del known[0, 0]
    counts = {count for _, count in known}
    if len(counts) > 1:
        raise BadInput(
            f"these are shards of {' and '.join(map(str, sorted(counts)))}; merge "
            "shards of one nightly"
        )
    twice = [
        f"{number}/{count}" for (number, count), times in known.items() if times > 1
    ]
    if twice:
        raise BadInput(
            f"shard {', '.join(sorted(twice))} is there twice; pass each folder once"
        )


def _missing(shards: Sequence[tuple[Path, Night]]) -> str:
    """Return which shards are missing; empty when none is."""
    known = {_number_and_count(night.shard) for _, night in shards}
    count = max((count for _, count in known), default=0)
    found = {number for number, _ in known if 1 <= number <= count}
    missing = count - len(found)
    if not missing:
        return ""
    absent = (number for number in range(1, count + 1) if number not in found)
    names = ", ".join(f"{number}/{count}" for number in islice(absent, _NAMED))
    more = f" and {missing - _NAMED} more" if missing > _NAMED else ""
    return f"shard{'s' if missing > 1 else ''} {names}{more} missing"


def _compared(night: Night) -> str:
    new, old = (
        f"{end.name} ({end.commit[:10]})" if end.commit else end.name
        for end in (night.toolchain, night.baseline)
    )
    return f"{night.compiler or 'a compiler'} {new} with {old}"


def _check_cases(shards: Sequence[tuple[Path, Night]], *, complete: bool) -> None:
    """Raises BadInput when a case is in two shards, or in none because the machines had
    other recipes.
    """
    owner: dict[str, Path] = {}
    for folder, night in shards:
        names = [case.case for case in night.cases]
        for name in (*names, *night.not_compared):
            if name in owner:
                raise BadInput(
                    f"case {name} is in {owner[name]} and in {folder}; pass the same "
                    "recipes to all shards"
                )
            owner[name] = folder
    lost = max((night.total for _, night in shards), default=0) - len(owner)
    if complete and lost > 0:
        raise BadInput(
            f"{lost} case{'s are' if lost > 1 else ' is'} in no shard; pass the same "
            "recipes to all shards"
        )


def _joined_clusters(
    nights: Sequence[Night], places: Mapping[str, tuple[int, int]]
) -> list[FailureCluster]:
    """Join clusters of one failure that came with the same revisions, as far as that is
    known.

    What was found out comes from the first shard that found it out.
    """
    joined: dict[ClusterKey, list[FailureCluster]] = {}
    clusters = [cluster for night in nights for cluster in night.clusters]
    for cluster in sorted(clusters, key=lambda cluster: cluster.culprit is None):
        own, alike = _range(cluster), joined.setdefault(cluster.key, [])
        for index, known in enumerate(alike):
            if own is None or own == _range(known):
                cases = {*known.cases, *cluster.cases}
                names = sorted(cases, key=lambda name: places.get(name, (0, 0)))
                alike[index] = replace(known, cases=names)
                break
        else:
            number = f".{len(alike) + 1}" if alike else ""
            alike.append(replace(cluster, id=cluster.key.id + number))
    return sorted(
        chain.from_iterable(joined.values()),
        key=lambda cluster: (-len(cluster.cases), cluster.key),
    )


def _range(cluster: FailureCluster) -> object:
    """Return the revisions around the culprit, if they are known."""
    return cluster.culprit and (cluster.culprit.before, cluster.culprit.after)
