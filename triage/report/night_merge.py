"""Join the nights of several shards into one."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from math import inf
from pathlib import Path
from typing import TypeVar

from triage.model.errors import BadInput
from triage.report.elements import revision_text
from triage.report.night import FILES
from triage.report.night_record import ClusterRecord, InvestigationRecord, NightRecord, night_of
from triage.toolchains.home import disk_errors

T = TypeVar("T")
_SAME = "the same recipes to all shards"


@dataclass(frozen=True, slots=True)
class ShardResult:
    """A night that was read from a folder."""

    folder: Path
    night: NightRecord

    @property
    def number(self) -> tuple[int, int] | None:
        """I and N of shard `I/N`; None for a night of all cases."""
        first, _, count = (self.night.shard or "").partition("/")
        return (int(first), int(count)) if first.isdigit() and count.isdigit() else None


def read_night(path: Path) -> ShardResult:
    """Read `nightly.json`, or the one in a folder. Raises BadInput when there is none that can be read."""
    file = path / FILES["json"] if path.is_dir() else path
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}; pass the folder that `triage nightly --out` wrote") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file}: this is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadInput(f"{file}: this is no report of `triage nightly`")
    return ShardResult(file.parent, night_of(document, str(file)))


def merge(shards: Sequence[ShardResult], *, allow_missing: bool = False) -> NightRecord:
    """Return one night of all shards, in the order of the recipes.

    allow_missing: a missing shard makes the night partial. Raises BadInput for shards of different toolchains, for cases that
    are in two of them, and for a missing shard.
    """
    for shard in shards[1:]:
        _check_same(shards[0], shard)
    if any(shard.night.unlisted for shard in shards):
        raise BadInput("an older version of triage wrote one of the reports, without a list of all cases; run its shard again")
    shards = sorted(shards, key=lambda shard: shard.number or (0, 0))
    missing = _missing(shards)
    if missing and not allow_missing:
        raise BadInput(f"{missing}; pass its folder, or --allow-missing for a partial report")
    _check_apart(shards)
    if not missing:
        _check_complete(shards)
    nights = [shard.night for shard in shards]
    stopped = [f"{night.shard or shard.folder}: {night.stopped}" for shard in shards if (night := shard.night).stopped]
    return replace(
        nights[0],
        started=min((night.started for night in nights if night.started), default=None),
        seconds=max(night.seconds for night in nights),
        compiles=sum(night.compiles for night in nights),
        cached=sum(night.cached for night in nights),
        shard=None,
        positions={},
        total=0,
        cases=_in_order(nights, lambda night: night.cases),
        clusters=_clusters(nights),
        investigation=_investigation(nights),
        slower=_in_order(nights, lambda night: night.slower),
        maybe_slower=_in_order(nights, lambda night: night.maybe_slower),
        run_times=_in_order(nights, lambda night: night.run_times),
        stopped="; ".join([*stopped, *([missing] if missing else [])]) or None,
        not_compared=_in_order(nights, lambda night: night.not_compared),
        strict=any(night.strict for night in nights),
        fail_on_slower=any(night.fail_on_slower for night in nights),
        reports={},
    )


def move_files(shards: Sequence[ShardResult], night: NightRecord, out: Path) -> NightRecord:
    """Copy reproducers, logs and drafts beside the joined reports, and return the night with their new paths."""
    for shard in shards:
        if link := next((path for path in shard.folder.rglob("*") if path.is_symlink()), None):
            raise BadInput(f"{link} is a link; a shard holds only files that `triage nightly` wrote")
    with disk_errors(f"write the reports to {out}"):
        for shard in reversed(shards):  # of files with one name the first shard's stays, as its cluster does
            if out.resolve() == shard.folder.resolve():
                raise BadInput(f"--out {out} is the folder of a shard; pass another one")
            shutil.copytree(shard.folder, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*FILES.values()))
    folders = [Path(shard.night.reports["json"]).parent for shard in shards if "json" in shard.night.reports]

    def moved(text: str | None) -> str | None:
        folder = next((folder for folder in folders if text and Path(text).is_relative_to(folder)), None)
        return text if text is None or folder is None else str(out / Path(text).relative_to(folder))

    def with_new_paths(cluster: ClusterRecord) -> ClusterRecord:
        page = cluster.attribution and replace(cluster.attribution, page=moved(cluster.attribution.page))
        return replace(cluster, reproducer=moved(cluster.reproducer), issue=moved(cluster.issue), attribution=page)

    return replace(night, clusters=list(map(with_new_paths, night.clusters)))


def _check_same(first: ShardResult, other: ShardResult) -> None:
    sides = [[(side.name, side.commit) for side in (night.toolchain, night.baseline)] for night in (first.night, other.night)]
    if sides[0] == sides[1] and first.night.compiler == other.night.compiler:
        return
    texts = [
        f"{shard.folder} compares {revision_text(shard.night.toolchain)} with {revision_text(shard.night.baseline)}"
        for shard in (first, other)
    ]
    raise BadInput(f"{texts[0]}, but {texts[1]}; run all shards with the same two revisions, such as nightly:2025-06-04")


def _missing(shards: Iterable[ShardResult]) -> str:
    """Return which shards are missing; empty when none is. Raises BadInput for numbers that do not belong together."""
    numbers = [shard.number for shard in shards if shard.number]
    counts = {count for _, count in numbers}
    if len(counts) > 1:
        raise BadInput(f"these are shards of {' and '.join(map(str, sorted(counts)))}; merge shards of one nightly")
    twice = [f"{number}/{count}" for (number, count), times in Counter(numbers).items() if times > 1]
    if twice:
        raise BadInput(f"shard {', '.join(twice)} is there twice; pass each folder once")
    missing = [f"{number}/{count}" for count in counts for number in range(1, count + 1) if (number, count) not in numbers]
    return f"shard{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing" if missing else ""


def _check_apart(shards: Iterable[ShardResult]) -> None:
    owner: dict[str, Path] = {}
    for shard in shards:
        for name in (*(case.case for case in shard.night.cases), *shard.night.not_compared):
            if name in owner:
                raise BadInput(f"case {name} is in {owner[name]} and in {shard.folder}; merge each case once, and pass {_SAME}")
            owner[name] = shard.folder


def _check_complete(shards: Iterable[ShardResult]) -> None:
    """Raises BadInput when a case is in no shard, because the machines divided the cases in different ways."""
    totals = [shard.night.total for shard in shards]
    lost = max(totals, default=0) - sum(len(shard.night.positions) for shard in shards)
    if lost > 0:
        cases = "1 case is" if lost == 1 else f"{lost} cases are"
        raise BadInput(f"{cases} in no shard; pass {_SAME}")


def _in_order(nights: Sequence[NightRecord], of: Callable[[NightRecord], list[T]]) -> list[T]:
    """Return the lists of all nights in the order of the recipes. Of nights without positions every N-th entry is a shard's."""
    missing = object()
    rows = zip_longest(*map(of, nights), fillvalue=missing)
    positions = {name: position for night in nights for name, position in night.positions.items()}
    entries: list[T] = [entry for entry in chain.from_iterable(rows) if entry is not missing]  # type: ignore[misc]
    return sorted(entries, key=lambda entry: positions.get(_case_of(entry), inf))


def _case_of(entry: object) -> str:
    return entry.cases[0] if isinstance(entry, ClusterRecord) else str(getattr(entry, "case", entry))


def _clusters(nights: Sequence[NightRecord]) -> list[ClusterRecord]:
    """Join clusters with one signature. What was found out comes from the first shard that investigated it."""
    joined: dict[str, ClusterRecord] = {}
    for cluster in _in_order(nights, lambda night: night.clusters):
        known = joined.get(cluster.signature)
        if known is None:
            joined[cluster.signature] = cluster
        else:
            better = known if known.steps or not cluster.steps else cluster
            joined[cluster.signature] = replace(better, cases=[*known.cases, *cluster.cases])
    return sorted(joined.values(), key=lambda cluster: (-len(cluster.cases), cluster.signature))


def _investigation(nights: Iterable[NightRecord]) -> InvestigationRecord | None:
    records = [night.investigation for night in nights if night.investigation]
    if not records:
        return None
    return InvestigationRecord(
        budget_seconds=max((record.budget_seconds for record in records if record.budget_seconds), default=None),
        seconds=max(record.seconds for record in records),
        left=[row for record in records for row in record.left],
    )
