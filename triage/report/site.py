"""Write the static site of all stored nights: an overview, a page for each failure, for
each of the last nights and for each case that did not only pass, trends and a search.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from triage.execution.cache import ResultCache
from triage.investigate.result import text_id
from triage.model.errors import BadInput
from triage.model.outcome import Status
from triage.nightly.failure_life import FailingRun, FailureLife, failure_lives
from triage.nightly.history import CaseHistory, NightsHistory, history_of
from triage.nightly.known_case import case_state, log_of, states_of
from triage.nightly.store import NightStore
from triage.nightly.trends import (
    METRICS,
    CaseSteps,
    ChartedMetric,
    MetricStep,
    metric_steps,
)
from triage.nightly.verdict import command_line
from triage.recipes.values import time_text
from triage.report.document import (
    Block,
    Code,
    Details,
    Fact,
    Facts,
    Span,
    Table,
    TableRows,
)
from triage.report.elements import failure_text, plural
from triage.report.failure import range_spans, report_blocks
from triage.report.html import fragment, html_templates, inline_markup
from triage.report.night import night_document
from triage.report.night_text import night_table, state_sentence, times_text
from triage.report.printable import visible
from triage.report.site_overview import (
    GRID_NIGHTS,
    button_of,
    date_text,
    last_nights,
    overview,
    track_labels,
)
from triage.toolchains.home import disk_errors, write_whole

_MARK = "made-by-triage-site"  # a folder with this file may be written again
_MOST_CASES = 500  # of a failure on its page
_MOST_STEPS = 1000
_PADDING = 3  # of a line of values, in pixels
_OPEN_ROWS = 60  # of a table; a browser takes long to lay out hundreds
_HASH = re.compile(r"\b[0-9a-f]{32,}\b")


_KINDS = {
    Status.FAILED: "bad",
    Status.XFAIL: "known",
    Status.XPASS: "known",
    Status.PASSED: "good",
}


@dataclass
class Site:
    """A site that is being written."""

    store: NightStore
    out: Path
    cache: ResultCache | None = None
    """The results to take logs and older states from."""
    tracks: str = "*"
    """A shell pattern of the names of the tracks to show."""
    sizes: list[int] = field(default_factory=list)

    def write(self) -> dict[str, Any]:
        """Write all pages. Return the path of the index, and how many nights, cases,
        failures, steps, files and bytes the site has.

        Raises BadInput when no night has a result, or the folder has other files.
        """
        stored = self.store.stored()
        history = history_of(stored, self.tracks)
        if not history.cases:
            raise BadInput("no night with a result is stored; run `triage nightly`")
        lives = failure_lives(history, self.store.issues())
        steps = metric_steps(history)
        with disk_errors(f"write {self.out}"):
            _clear(self.out)
            self._write_file(_MARK, "`triage site` may write this folder again.\n")
            assets = files("triage.report").joinpath("assets")
            for name in ("site.css", "site.js"):
                self._write_file(f"assets/{name}", assets.joinpath(name).read_bytes())
            pages = _Pages(history, lives, steps)
            shown = [night for night in stored if night.number in history.numbers]
            table = _folded(night_table(shown[::-1], pages.night_urls()), "older night")
            values = overview(history, lives)
            self._write_page(pages, "index", slower=pages.slower(), **values)
            self._write_page(pages, "nights", content=fragment(table))
            self._write_page(pages, "trends", rows=pages.trends())
            self._write_page(pages, "search")
            for life in lives:
                path = f"failures/{life.page}"
                self._write_page(pages, path, "failure", **pages.failure(life))
            for case in pages.cases:
                path = f"cases/{_page_of(case)}"
                values = pages.case(case, self._states_and_log)
                self._write_page(pages, path, "case", **values)
            for number in pages.night_numbers:
                self._write_night(pages, number)
            index = json.dumps(pages.search_rows(), separators=(",", ":"))
            self._write_file("data/search.js", f"triageSearch({index});\n")
        return {
            "index": str(self.out / "index.html"),
            "nights": len(history.nights),
            "cases": len(history.cases),
            "failures": len(lives),
            "steps": sum(len(each) for of in steps.values() for each in of.values()),
            "files": len(self.sizes),
            "bytes": sum(self.sizes),
        }

    def _write_file(self, name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        write_whole(self.out / name, data)
        self.sizes.append(len(data))

    def _write_page(
        self, pages: _Pages, path: str, template: str | None = None, **values: object
    ) -> None:
        name = template or path
        page = pages.environment.get_template(f"site/{name}.html.j2")
        root = "../" * path.count("/")
        text = page.render({**pages.common(), "root": root, "here": name, **values})
        self._write_file(f"{path}.html", text)

    def _write_night(self, pages: _Pages, number: int) -> None:
        """Write the report of a night with the output of its failures."""
        night = self.store.night(number)
        if night is None:
            return
        document = night_document(night)
        logs: list[Block] = []
        for case in night.cases:
            text = self.store.log(number, case.log or "")
            if text:
                logs.append(Details(f"Output of {case.case}", [Code(text)]))
        values = {"title": document.title, "day": date_text(night)}
        content = fragment([*document.blocks, *logs])
        self._write_page(pages, f"nights/{number}", "night", content=content, **values)

    def _states_and_log(
        self, history: NightsHistory, case: CaseHistory
    ) -> tuple[list[Block], list[Block]]:
        """Return the state of a case on each toolchain, and its last output."""
        records = self.cache.newest_of(case.case) if self.cache else ()
        log = log_of(records, self.store, history, [case])
        rows = [
            [state.toolchain.name, state.status.value, failure_text(state.failure)]
            for state in states_of(records)
        ]
        states: list[Block] = []
        if rows:
            states.append(Table(("toolchain", "state", "failure"), rows))
        output: list[Block] = []
        if log:
            output.append(Facts([("toolchain", log.toolchain)]))
            output.append(Code("\n".join(log.lines)))
        return states, output


@dataclass
class _Pages:
    """The values of the templates."""

    history: NightsHistory
    lives: Sequence[FailureLife]
    steps: CaseSteps

    def __post_init__(self) -> None:
        self.environment = _environment()
        failing = {case for life in self.lives for case in life.cases}
        self.cases = [
            case
            for case in self.history.cases
            if case in failing or case in self.steps or len(case.runs) > 1
        ]
        """Those that have a page."""
        self._paged = set(self.cases)
        self._labels = track_labels(self.history.tracks)
        nights = {*range(len(self.history.nights))[-GRID_NIGHTS:]}
        nights |= {self.history.last_night(track) for track in self.history.tracks}
        self.night_numbers = [self.history.numbers[night] for night in sorted(nights)]
        """The nights that have a page, by their numbers."""

    def common(self) -> Mapping[str, object]:
        return {
            "history": self.history,
            "last": date_text(self.history.nights[-1]),
            "labels": self._labels,
            "case_url": self._case_url,
            "night_numbers": self.night_numbers,
            "changes": self.history.flaky_changes,
            "button_of": button_of,
        }

    def night_urls(self) -> dict[int, str]:
        return {number: f"nights/{number}.html" for number in self.night_numbers}

    def _case_url(self, case: CaseHistory | None) -> str | None:
        if case is None or case not in self._paged:
            return None
        return f"cases/{_page_of(case)}.html"

    def slower(self) -> list[tuple[CaseHistory | None, str, str]]:
        """Return what became slower in the last nights: the case, its times, a line."""
        cases = {case.case: case for case in self.history.cases}
        by_name = {metric.name: metric for metric in METRICS}
        rows = []
        for night in last_nights(self.history):
            for row in night.slower:
                case = cases.get(row.case)
                metric = by_name["run_seconds"]
                line = ""
                if case and metric.name in case.metrics:
                    line = self._line(case, metric, 120, 24)
                rows.append((case, times_text(row), line))
        return rows

    def failure(self, life: FailureLife) -> dict[str, object]:
        nights = self.history.tracks[life.track]
        rows: TableRows = [
            [
                Span(failing.case.case, url=f"../{self._case_url(failing.case)}"),
                life.seen_at(failing.first).day,
                life.seen_at(failing.run.last.night).day,
                _now(life, failing),
            ]
            for failing in life.runs[:_MOST_CASES]
        ]
        columns = ("case", "since", "last seen", "now")
        table = _folded(Table(columns, rows), "further case")
        return {
            "life": life,
            "button": button_of(life),
            "answer": fragment(report_blocks(life)),
            "table": fragment(table),
            "details": fragment([Facts(list(self._details(life)))]),
            "strip": [
                (kind, f"{date_text(life.nights[night])}: {text}")
                for night, state in zip(nights, life.states(nights), strict=True)
                for kind, text in [_shown_state(*state)]
            ],
        }

    def _details(self, life: FailureLife) -> Iterator[Fact]:
        failure = life.failure
        place = (failure.location or "").rpartition("/")[2]
        texts = {
            "track": life.track.name,
            "signature": failure.signature,
            "stage": failure.stage.value,
            "phase": failure.phase,
            "where": _HASH.sub("input", place),
        }
        for name, text in texts.items():
            if text:
                yield name, text

    def case(
        self,
        case: CaseHistory,
        states_and_log: Callable[
            [NightsHistory, CaseHistory], tuple[list[Block], list[Block]]
        ],
    ) -> dict[str, object]:
        states, output = states_and_log(self.history, case)
        rows = []
        for run in reversed(case.runs):
            ends = [self.history.nights[seen.night] for seen in (run.first, run.last)]
            days = " to ".join(dict.fromkeys(night.started[:10] for night in ends))
            names = " to ".join(dict.fromkeys(night.toolchain.name for night in ends))
            text = failure_text(run.last.failure)
            rows.append([days, names, run.status.value, text])
        newest = self.history.nights[case.nights[-1]].toolchain.name
        return {
            "case": case,
            "lives": [life for life in self.lives if case in life.cases],
            "said": state_sentence(case_state(self.history, case)),
            "newest": newest,
            "nights": fragment(
                [Table(("nights", "toolchain", "state", "failure"), rows)]
            ),
            "states": fragment(states),
            "output": fragment(output),
            "metrics": [
                (
                    metric,
                    self._line(case, metric, 600, 60),
                    self._step_texts(case, metric),
                )
                for metric in METRICS
                if metric.name in case.metrics
            ],
        }

    def _line(
        self, case: CaseHistory, metric: ChartedMetric, width: int, height: int
    ) -> str:
        steps = self.steps.get(case, {}).get(metric, ())
        return trend_line(case.metrics[metric.name], metric.unit, steps, width, height)

    def _step_texts(
        self, case: CaseHistory, metric: ChartedMetric
    ) -> list[tuple[str, str | None]]:
        """Return each step in words, and the command line that bisects it."""
        texts = []
        for step in self.steps.get(case, {}).get(metric, ()):
            old, new = (
                measured_text(value, metric.unit) for value in (step.old, step.new)
            )
            night, before = (self.history.nights[n] for n in (step.at, step.before))
            ends = before.toolchain.name, night.toolchain.name
            words = ["triage", "bisect", case.source, "--case", case.case]
            words += ["--metric", metric.name, "--good", ends[0], "--bad", ends[1]]
            command = None
            if case.source:
                command = command_line(words, case.source, case.case, *ends)
            texts.append((f"{old} to {new} since {night.started[:10]}", command))
        return texts

    def trends(self) -> list[dict[str, object]]:
        """Return the steps of all metrics, the latest and largest first."""
        found = [
            (step, metric, case)
            for case, of_case in self.steps.items()
            for metric, steps in of_case.items()
            for step in steps
        ]
        found.sort(key=lambda row: (-row[0].at, -max(row[0].ratio, 1 / row[0].ratio)))
        nights = self.history.nights
        return [
            {
                "case": case,
                "metric": metric,
                "step": step,
                "change": f"{100 * (step.ratio - 1):+.1f} %",
                "old": measured_text(step.old, metric.unit),
                "new": measured_text(step.new, metric.unit),
                "line": self._line(case, metric, 120, 24),
                "day": nights[step.at].started[:10],
                "commits": range_spans(
                    case.track.compiler,
                    nights[step.before].toolchain,
                    nights[step.at].toolchain,
                ),
            }
            for step, metric, case in found[:_MOST_STEPS]
        ]

    def search_rows(self) -> list[list[str]]:
        """Return what the search finds: kind, text, and address where it has a page."""
        rows = [
            ("case", f"{case.name}, {case.now.status}", self._case_url(case) or "")
            for case in self.history.cases
        ]
        for life in self.lives:
            cluster, page = life.cluster, f"failures/{life.page}.html"
            text = f"{life.failure.failure_class}: {life.failure.headline}"
            rows.append(("failure", f"{text} ({life.track.name}, {life.state})", page))
            flags = [flag for remedy in cluster.remedies for flag in remedy.flags]
            if cluster.draft:
                words = cluster.draft.command.split()
                flags += [word for word in words if word.startswith("--")]
            rows += [("flag", flag, page) for flag in flags]
            for suspect in cluster.culprit.suspects if cluster.culprit else ():
                sha, subject = suspect.commit or suspect.name, suspect.subject or ""
                rows.append(("commit", f"{sha[:12]} {subject}".strip(), page))
        urls = self.night_urls()
        numbers = self.history.numbers
        for number, night in zip(numbers, self.history.nights, strict=True):
            name = f"{(night.toolchain.commit or '')[:12]} {night.toolchain.name}"
            text = f"{name.strip()}, {night.started[:10]}"
            rows.append(("commit", text, urls.get(number, "nights.html")))
        return [[visible(text) for text in row] for row in dict.fromkeys(rows)]


def _page_of(case: CaseHistory) -> str:
    """Return the name of a case's page: a hash, since names have any characters."""
    return text_id(case.name)


def _now(life: FailureLife, failing: FailingRun) -> str:
    if failing.after:
        return f"gone since {life.seen_at(failing.after.first.night).day}"
    if failing.run.status is Status.XFAIL:
        return "fails as expected"
    return "fails"


def _shown_state(status: Status | None, otherwise: bool) -> tuple[str, str]:
    """Return the style and the text of a failure in a night. otherwise: its cases fail
    in another way.
    """
    if status is None:
        return "none", "not run"
    if otherwise:
        return "none", "fails in another way"
    return _KINDS.get(status, "none"), status.value


def measured_text(value: float, unit: str) -> str:
    """Return a measured value with its unit.

    >>> [measured_text(0.25, "s"), measured_text(1234567, "bytes")]
    ['250 ms', '1,234,567 bytes']
    """
    if unit == "s":
        return time_text(value)
    digits = 2
    if value == int(value):
        digits = 0
    return f"{value:,.{digits}f} {unit}".rstrip()


def trend_line(
    values: Mapping[int, float],
    unit: str,
    steps: Sequence[MetricStep] = (),
    width: int = 120,
    height: int = 24,
) -> Markup:
    """Return a line over the nights, which marks the first night after each step."""
    nights = list(values)
    low, high = min(values.values()), max(values.values())
    span, room = max(nights[-1] - nights[0], 1), height - 2 * _PADDING
    points = {}
    for night, value in values.items():
        x = _PADDING + (night - nights[0]) / span * (width - 2 * _PADDING)
        y = height - _PADDING - (value - low) / ((high - low) or 1) * room
        points[night] = f"{x:.1f} {y:.1f}"
    marks = [points[step.at] for step in steps if step.at in points]
    first, last = (measured_text(values[nights[at]], unit) for at in (0, -1))
    circles = [
        Markup('<circle cx="{}" cy="{}" r="2.5"/>').format(*point.split())
        for point in marks
    ]
    return Markup(
        '<svg class="trend" width="{}" height="{}" viewBox="0 0 {} {}" role="img" '
        'aria-label="{} to {}"><path d="M{}"/>{}</svg>'
    ).format(
        width,
        height,
        width,
        height,
        first,
        last,
        " L".join(points.values()),
        Markup("").join(circles),
    )


def _folded(table: Table, what: str) -> list[Block]:
    """Return a table of the first rows, and one of the others, folded."""
    first, others = table.rows[:_OPEN_ROWS], table.rows[_OPEN_ROWS:]
    blocks: list[Block] = [Table(table.columns, first)]
    if others:
        title = plural(len(others), what)
        blocks.append(Details(title, [Table(table.columns, others)]))
    return blocks


def _clear(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(
                f"{out} has files that are not of a site; name another folder with "
                "--out"
            )
        for name in ("assets", "cases", "data", "failures", "nights"):
            shutil.rmtree(out / name, ignore_errors=True)


def _environment() -> Environment:
    environment = html_templates()
    environment.filters.update(inline=inline_markup)
    environment.globals.update(plural=plural)
    return environment
