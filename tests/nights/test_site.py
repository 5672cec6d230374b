"""The files of the site: what they contain, and that text from outside stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.nights.documents import case_result, failure, night, nightly_name, nights
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.investigate.result import ClusterKey, StepResult
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.reduce.result import IssueDraft
from triage.report.site import build_site
from triage.toolchains.home import Home

LEGALIZE, SEGFAULT = (
    ClusterKey("iree", "llvm-cpu", signature).id
    for signature in ("legalize:x", "segfault:x")
)
DONE = StepResult("reduce", "done")
FIX = Bisection(
    "breaks",
    BisectKind.FIX,
    Answer.CULPRIT,
    Revision("3.10.0"),
    Revision("3.11.0"),
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u2028"


class Tags(HTMLParser):
    """Collects the names of elements and attributes, the addresses of scripts and
    links.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: list[str | None] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.names.add(tag)
        self.attributes |= set(values)
        self.scripts += [values.get("src")] if tag == "script" else []
        self.links += [values["href"] or ""] if "href" in values else []


def search_rows(out: Path) -> Any:
    text = (out / "data" / "search.js").read_text()
    match = re.fullmatch(r"triageSearch\((.*)\);\n", text, re.DOTALL)
    assert match
    return json.loads(match[1])


def write_site(folder: Path, *records: Night) -> Path:
    store = NightStore(Home(folder / "home"))
    for record in records:
        store.add(record)
    build_site(store, folder / "public")
    return folder / "public"


def investigated(record: Night, **known: Any) -> Night:
    """Return a night that knows this of each failure."""
    clusters = [replace(cluster, **known) for cluster in record.clusters]
    return replace(record, clusters=clusters)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A site with a hostile case, a failure with everything that an investigation
    finds, and one that is gone.
    """
    draft = IssueDraft({"input.mlir": f"module {{}} // {HOSTILE}"}, HOSTILE, HOSTILE)
    hostile = case_result(
        HOSTILE, "F", failure=failure(HOSTILE, HOSTILE), summary=HOSTILE
    )
    records = [
        investigated(
            replace(record, cases=[*record.cases, hostile]), draft=draft, steps=[DONE]
        )
        for record in nights({"breaks": "PPF", "fixed": "GGP"})
    ]
    return write_site(tmp_path, *records)


def test_no_text_from_outside_becomes_an_element(out: Path) -> None:
    pages = list(out.rglob("*.html"))
    assert len(pages) == 13
    for page in pages:
        tags = Tags(page.read_text())
        assert tags.scripts == [f"{'../' if page.parent != out else ''}assets/site.js"]
        assert "onerror" not in tags.attributes
        assert "img" not in tags.names
        assert "\x1b" not in page.read_text()
    assert (out / "data" / "search.js").read_text().isascii()
    assert all((out / url).is_file() for _, url in search_rows(out))


def test_every_link_leads_to_a_file_and_nothing_is_loaded_from_elsewhere(
    out: Path,
) -> None:
    for page in out.rglob("*.html"):
        for link in Tags(page.read_text()).links:
            if link.startswith("https://github.com/iree-org/iree/compare/"):
                continue
            name = re.split("[?#]", link)[0]
            assert (
                link.startswith("data:") or not name or (page.parent / name).is_file()
            ), link
            assert not re.match("(https?:)?//", link)


@pytest.mark.parametrize(
    ("issue", "address"),
    [
        ("o/r#7", "https://github.com/o/r/issues/7"),
        (
            "https://ghe.example.com/o/r/issues/7",
            "https://ghe.example.com/o/r/issues/7",
        ),
        ("javascript:alert(1)", None),
        ("javascript://%0aalert(1)", None),
    ],
)
def test_an_issue_is_linked_on_its_server(
    tmp_path: Path, issue: str, address: str | None
) -> None:
    cases = [case_result("a", "F", issue=issue)]
    out = write_site(tmp_path, night(1, {}, cases=cases))
    page = Tags((out / "failures" / f"{LEGALIZE}.html").read_text())
    links = {link for link in page.links if "/o/r/" in link or "javascript" in link}
    assert links == ({address} if address else set())


def test_the_first_page_begins_with_what_broke_and_what_to_do(tmp_path: Path) -> None:
    records = nights({"breaks": "PPF", "crashes": "PPG", "fine": "PPP"})
    records[-1].clusters[0] = replace(records[-1].clusters[0], steps=[DONE])
    page = (write_site(tmp_path, *records) / "index.html").read_text()
    assert "<h1><em>2 new failures</em> in IREE 3.10.0rc20260103</h1>" in page
    [verdict] = re.findall(r'<p class="track bad">(.*?)</p>', page)
    assert "2 of 3 cases newly fail on" in verdict
    assert "(2 failures)" in verdict
    failures = page.partition('<ul class="failures">')[2].partition("</ul>")[0]
    assert failures.count('<span class="chip new">new</span>') == 2
    buttons = re.findall('class="button first".*?>(.*?)</button>', failures)
    assert buttons == ["Copy issue"]


@pytest.mark.parametrize(
    ("known", "button"),
    [
        ({"steps": [DONE]}, "Copy issue"),
        ({"culprit": FIX}, "Upgrade to 3.11.0"),
        ({}, "Copy command"),
    ],
)
def test_the_page_of_a_failing_case_begins_with_its_to_do(
    tmp_path: Path, known: dict[str, Any], button: str
) -> None:
    """A case that only passed has no page, and all names lead to the pages."""
    records = []
    for record in nights({"breaks": "PPF", "fine": "PPP"}):
        cases = [replace(case, source="recipes/a.yaml") for case in record.cases]
        records.append(investigated(replace(record, cases=cases), **known))
    out = write_site(tmp_path, *records)
    [page] = (out / "cases").glob("*.html")
    text = page.read_text().partition("<h1")[2]
    head, _, rest = text.partition("<h2>Nights</h2>")
    assert f">{button}</button>" in head
    assert f"failures/{LEGALIZE}.html" in head
    assert f"recipes/a.yaml --case breaks -t {nightly_name(3)}" in head
    assert f"{nightly_name(1)} to {nightly_name(2)}" in rest
    for name in ("index", f"failures/{LEGALIZE}"):
        assert f"cases/{page.name}" in (out / f"{name}.html").read_text()
    _, _, by_hand = (out / f"failures/{LEGALIZE}.html").read_text().partition("by hand")
    again = [line for line in by_hand.splitlines() if "triage " in line]
    assert f"triage run recipes/a.yaml --case breaks -t {nightly_name(3)}" in again[0]
    ends = f"--good {nightly_name(2)} --bad {nightly_name(3)} --repo DIR"
    assert f"triage bisect recipes/a.yaml --case breaks {ends}" in again[-1]
    urls = [url for text, url in search_rows(out) if "breaks" in text]
    assert urls == [f"cases/{page.name}"]
