"""`triage nights`: list, show and prune stored nights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.options import format_option, time_before
from triage.cli.screen import print_stderr
from triage.model.case import Case
from triage.model.errors import BadInput, TriageError
from triage.nights.record import StoredNight
from triage.nights.store import NightStore
from triage.report.answer import Answer
from triage.report.document import Paragraph
from triage.report.elements import plural
from triage.report.night import NightReport
from triage.report.night_record import NightRecord
from triage.report.nights import PrunedNightsShape, StoredNightsReport
from triage.report.registry import write_report
from triage.report.stored_nights import record_in, stored_night
from triage.toolchains.home import open_home

if TYPE_CHECKING:  # numpy is slow to import
    from triage.nights.history import NightsHistory

app = typer.Typer(no_args_is_help=True, help="List, show and prune stored nights.")
_NIGHT = "A night's number, its date as 2026-11-21, `latest` or `previous`"


def open_nights() -> NightStore:
    """Open the nights of TRIAGE_HOME."""
    return NightStore(open_home(), warn=print_stderr)


def store_night(night: NightRecord, folder: Path | None, cases: Sequence[Case] = ()) -> None:
    """Store the night that has just been run. A night that cannot be stored is not a failed one. Shards are stored when they
    are merged. cases: of the night, for the programs before their reduction.
    """
    if night.shard and "/" in night.shard:
        return
    try:
        open_nights().add(stored_night(night, folder, _now(), {case.name: case.input.path for case in cases}))
    except (TriageError, OSError) as error:
        print_stderr(f"the night is not stored for `triage site`: {error}")


def flaky_in_nights() -> Callable[[str], bool]:
    """Return what says whether stored nights show that a case is flaky. They are read when it is first asked."""

    @cache
    def history() -> NightsHistory | None:
        from triage.nights.history import load_history

        try:
            return load_history(open_nights())
        except (TriageError, OSError) as error:
            print_stderr(f"earlier nights cannot be searched for flaky cases: {error}")
            return None

    return lambda case: (nights := history()) is not None and nights.is_unsteady(case)


@app.command("list")
@command
def list_nights(output: Annotated[str, format_option(StoredNightsReport)] = "text") -> Exit:
    """List stored nights, the oldest first."""
    store = open_nights()
    nights = store.heads()
    write_report(StoredNightsReport(nights, store.path.stat().st_size), output)
    return Exit.OK


@app.command("show")
@command
def show_night(
    night: Annotated[str, typer.Argument(metavar="[NIGHT]", help=f"{_NIGHT}.")] = "latest",
    output: Annotated[str, format_option(NightReport)] = "text",
) -> Exit:
    """Print the report of a stored night."""
    store = open_nights()
    write_report(NightReport(record_in(whole_night(store, night))), output)
    return Exit.OK


@app.command("prune")
@command
def prune_nights(
    nights: Annotated[list[str] | None, typer.Argument(metavar="[NIGHT...]", help=f"{_NIGHT}.")] = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, metavar="N", help="Keep the newest N nights.")] = None,
    older: Annotated[str | None, typer.Option("--older-than", metavar="DURATION", help="Remove older nights: 90d.")] = None,
    output: Annotated[str, format_option(Answer)] = "text",
) -> Exit:
    """Remove stored nights."""
    if not nights and keep is None and older is None:
        raise BadInput("name nights, or pass --keep N or --older-than DURATION")
    store = open_nights()
    heads = store.heads()
    doomed = {_named(heads, name, store).number for name in nights or ()}
    if keep is not None:
        doomed |= {night.number for night in heads[:-keep]}
    if older is not None:
        limit = time_before("--older-than", older).isoformat(timespec="seconds")
        doomed |= {night.number for night in heads if night.at < limit}
    removed = [
        Paragraph(f"night {night.number}: {night.at}, {night.toolchain.name}") for night in heads if night.number in doomed
    ]
    store.remove(doomed)
    shape = PrunedNightsShape(sorted(doomed), len(heads) - len(doomed))
    write_report(Answer(shape, [*removed, Paragraph(f"{plural(len(doomed), 'night')} removed, {shape.kept} kept")]), output)
    return Exit.OK


def whole_night(store: NightStore, name: str) -> StoredNight:
    """Return the night that a user names. Raises BadInput when there is none."""
    head = _named(store.heads(), name, store)
    night = store.night(head.number)
    if night is None:
        raise BadInput(f"night {head.number} is damaged; remove it with `triage nights prune {head.number}`")
    return night


def _named(heads: tuple[StoredNight, ...], name: str, store: NightStore) -> StoredNight:
    if name in ("latest", "previous"):
        same = [night for night in heads if night.suite == heads[-1].suite]  # nights of several suites alternate
        chosen = same[-1:] if name == "latest" else same[-2:-1]
    else:
        numbered = [night for night in heads if name == str(night.number)]
        chosen = numbered or [night for night in heads if name in (night.at[:10], night.at)][-1:]
    if not chosen:
        raise BadInput(f"there is no night {name!r} in {store.path}; `triage nights list` shows those that are stored")
    return chosen[0]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
