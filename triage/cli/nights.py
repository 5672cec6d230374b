"""Commands that read stored nights: `triage nights`, `triage show` and `triage site`."""

from __future__ import annotations

import shlex
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli.exit_codes import Exit, command
from triage.cli.options import FormatOption, JUnitFormatOption, argument, duration_option, flag, option
from triage.cli.screen import print_stderr
from triage.execution.cache import ResultCache
from triage.model.errors import BadInput, TriageError
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.report.document import Paragraph
from triage.report.elements import plural
from triage.report.formats import write_answer, write_report
from triage.report.night import write_night
from triage.report.tables import listed, nights_document
from triage.toolchains.home import open_home, write_whole

if TYPE_CHECKING:  # numpy is slow to import
    from triage.nightly.history import NightsHistory

app = typer.Typer(no_args_is_help=True, help="List, show and prune stored nights.")
_NIGHT = "A night's number, its date as 2026-11-21, `latest` or `previous`"


def open_nights() -> NightStore:
    """Open the nights of TRIAGE_HOME. Those of older versions are named once."""
    home = open_home()
    store, named = NightStore(home, warn=print_stderr), home / "state" / "old-nights"
    old = sorted(str(path) for path in home.glob("nights*") if path != store.path)
    if old and not named.exists():
        print_stderr(f"nights of an older version of triage are not read; remove them with: rm -r {shlex.join(old)}")
        with suppress(OSError):  # a folder that is only read
            write_whole(named, "")
    return store


def store_night(night: Night, folder: Path | None) -> None:
    """Store a finished night; a shard is stored when it is merged. A night that cannot be stored is not a failed one."""
    if night.shard:
        return
    try:
        open_nights().add(night, folder)
    except (TriageError, OSError) as error:
        print_stderr(f"the night is not stored for `triage site`: {error}")


def flaky_in_nights() -> Callable[[str], bool]:
    """Return what says whether stored nights show that a case is flaky. They are read when it is first asked."""

    @cache
    def history() -> NightsHistory | None:
        try:
            return open_nights().history()
        except (TriageError, OSError) as error:
            print_stderr(f"earlier nights cannot be searched for flaky cases: {error}")
            return None

    return lambda case: (nights := history()) is not None and nights.is_unsteady(case)


@app.command("list")
@command
def list_nights(output: FormatOption = "text") -> Exit:
    """List stored nights, the oldest first."""
    store = open_nights()
    size = sum(path.stat().st_size for path in store.path.rglob("*") if path.is_file())
    write_report(output, listed(_sorted(store), size), nights_document)
    return Exit.OK


@app.command("show")
@command
def show_night(
    night: Annotated[str, argument("[NIGHT]", f"{_NIGHT}.")] = "latest",
    output: JUnitFormatOption = "text",
) -> Exit:
    """Print the report of a stored night."""
    store = open_nights()
    write_night(output, _named(_sorted(store), night, store)[1])
    return Exit.OK


@app.command("prune")
@command
def prune_nights(
    nights: Annotated[list[str] | None, argument("[NIGHT...]", f"{_NIGHT}.")] = None,
    keep: Annotated[int | None, option("Keep the newest N nights.", "--keep", least=1, metavar="N")] = None,
    older: Annotated[float | None, duration_option("Remove nights older than this, such as 90d.", "--older-than")] = None,
    output: FormatOption = "text",
) -> Exit:
    """Remove stored nights."""
    if not nights and keep is None and older is None:
        raise BadInput("name nights, or pass --keep N or --older-than DURATION")
    store = open_nights()
    stored = _sorted(store)
    doomed = {_named(stored, name, store)[0] for name in nights or ()}
    if keep is not None:
        doomed |= {number for number, _ in stored[:-keep]}
    if older is not None:
        limit = (datetime.now(UTC) - timedelta(seconds=older)).isoformat(timespec="seconds")
        doomed |= {number for number, night in stored if night.started < limit}
    removed = [
        Paragraph(f"night {number}: {night.started}, {night.toolchain.name}") for number, night in stored if number in doomed
    ]
    store.remove(doomed)
    answer = {"removed": sorted(doomed), "kept": len(stored) - len(doomed)}
    write_answer(output, answer, [*removed, Paragraph(f"{plural(len(doomed), 'night')} removed, {answer['kept']} kept")])
    return Exit.OK


@command
def show(
    case: Annotated[str, argument("CASE", "Name of a case, or a part of it.")],
    output: FormatOption = "text",
) -> Exit:
    """Show everything known of a case: its nights, its state on every toolchain, culprit, reproducer, remedies, output."""
    from triage.nightly.known_case import known_case
    from triage.report.tables import known_case_document

    store = open_nights()
    history = store.history()
    names = list(dict.fromkeys(name for _, name in history.rows))
    fitting = [case] if case in names else [name for name in names if case in name]
    if len(fitting) > 1:
        shown = ", ".join(fitting[:10])
        raise BadInput(f"{len(fitting)} cases have {case!r} in their name; choose from {shown}{', ...' * (len(fitting) > 10)}")
    with closing(ResultCache(open_home() / "evidence.db", print_stderr)) as results:
        found = known_case(fitting[0] if fitting else case, store, history, results)
    write_report(output, found, known_case_document)
    return Exit.OK


@command
def site(
    out: Annotated[Path, option("Folder to write.", metavar="DIR")] = Path("public"),
    browse: Annotated[bool, flag("Open the first page in a browser.", "--open")] = False,
    output: FormatOption = "text",
) -> Exit:
    """Write a static site of all stored nights.

    The pages need no server: open `index.html`, or publish the folder, for example with GitHub Pages.
    """
    from triage.report.site import Site, site_document  # templates and arrays are slow to import

    with closing(ResultCache(open_home() / "evidence.db", print_stderr)) as results:
        written = Site(open_nights(), out, results).write()
    write_report(output, written, site_document)
    if browse:
        webbrowser.open((out / "index.html").absolute().as_uri())
    return Exit.OK


def _sorted(store: NightStore) -> list[tuple[int, Night]]:
    """Return all nights with their numbers, the oldest first."""
    return sorted(store.nights(), key=lambda entry: (entry[1].started, entry[0]))


def _named(stored: list[tuple[int, Night]], name: str, store: NightStore) -> tuple[int, Night]:
    """Return the night that a user names. Raises BadInput when there is none."""
    if name in ("latest", "previous"):
        suites = [{case.suite for case in night.cases} for _, night in stored]
        same = [entry for entry, own in zip(stored, suites, strict=True) if own == suites[-1]]  # several suites alternate
        chosen = same[-1:] if name == "latest" else same[-2:-1]
    else:
        numbered = [entry for entry in stored if name == str(entry[0])]
        chosen = numbered or [entry for entry in stored if name in (entry[1].started[:10], entry[1].started)][-1:]
    if not chosen:
        raise BadInput(f"there is no night {name!r} in {store.path}; `triage nights list` shows those that are stored")
    return chosen[0]
