"""The files of the site: what they contain, and that text from outside stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.nights.conftest import Site
from tests.nights.documents import case_result, failure, night, nightly_name, nights
from triage.bisect.result import Bisection, BisectKind, Transition
from triage.investigate.result import ClusterKey, StepResult
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.reduce.result import IssueDraft

LEGALIZE = f"failures/{ClusterKey('iree', 'llvm-cpu', 'legalize:x').id}"
DONE = StepResult("reduce", "done")
ENDS = (Revision("3.10.0"), Revision("3.11.0"))
FIXED = Transition(*ENDS, failure("legalize"), confirmed=False, suspects=())
FIX = Bisection("breaks", BisectKind.FIX, FIXED)
# a budget ended before the release with the fix was known exactly
GONE = Bisection("breaks", broke=FIXED, fixed=FIXED)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u2028"


class Page(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    @property
    def links(self) -> list[str]:
        return [values.get("href") or "" for _, values in self.elements]


def search_rows(public: Path) -> Any:
    """Return text and address of each entry of the search."""
    text = (public / "data" / "search.js").read_text()
    assert text.isascii()
    return json.loads(text.removeprefix("triageSearch(").removesuffix(");\n"))


def investigated(record: Night, **known: Any) -> Night:
    """Return a night that knows this of each failure."""
    clusters = [replace(cluster, **known) for cluster in record.clusters]
    return replace(record, clusters=clusters)


def test_text_from_outside_is_no_element_and_every_link_leads_to_a_file(
    site: Site,
) -> None:
    """A site with a hostile case, a failure with everything that an investigation
    finds, and one that is gone.
    """
    draft = IssueDraft({"input.mlir": f"module {{}} // {HOSTILE}"}, HOSTILE, HOSTILE)
    evil = failure(HOSTILE, HOSTILE)
    hostile = case_result(HOSTILE, "F", failure=evil)
    public = site(
        *(
            investigated(
                replace(record, cases=[*record.cases, hostile]),
                draft=draft,
                steps=[DONE],
            )
            for record in nights({"breaks": "PPF", "fixed": "GGP"})
        )
    )
    pages = list(public.rglob("*.html"))
    assert len(pages) == 13
    for page in pages:
        root = "../" if page.parent != public else ""
        elements = Page(page).elements
        scripts = [values.get("src") for tag, values in elements if tag == "script"]
        assert scripts == [f"{root}assets/site.js"]
        assert not [tag for tag, values in elements if "onerror" in values]
        assert "img" not in dict(elements)
        assert "\x1b" not in page.read_text()
        for link in Page(page).links:
            if link.startswith(("https://github.com/iree-org/iree/compare/", "data:")):
                continue
            # nothing is loaded from elsewhere
            assert not re.match("(https?:)?//", link)
            name = re.split("[?#]", link)[0]
            assert not name or (page.parent / name).is_file(), link
    assert all((public / url).is_file() for _, url in search_rows(public))


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
    site: Site, issue: str, address: str | None
) -> None:
    public = site(night(1, {}, cases=[case_result("a", "F", issue=issue)]))
    page = Page(public / f"{LEGALIZE}.html")
    links = [link for link in page.links if "/o/r/" in link or "javascript" in link]
    assert set(links) == ({address} if address else set())


@pytest.mark.parametrize(
    ("known", "button"),
    [
        ({"steps": [DONE]}, "Copy issue"),
        ({"steps": [DONE], "culprit": FIX}, "Upgrade to 3.11.0"),
        ({"steps": [DONE], "culprit": GONE}, "Upgrade to 3.11.0"),
        ({"steps": [StepResult("bisect", "left")]}, "Copy command"),
    ],
)
def test_the_page_of_a_failing_case_begins_with_its_to_do(
    site: Site, known: dict[str, Any], button: str
) -> None:
    """A case that only passed has no page, and all names lead to the pages."""
    records = []
    for record in nights({"breaks": "PPF", "fine": "PPP"}):
        cases = [replace(case, source="recipes/a.yaml") for case in record.cases]
        records.append(investigated(replace(record, cases=cases), **known))
    public = site(*records)
    [page] = (public / "cases").glob("*.html")
    text = page.read_text().partition("<h1")[2]
    head, _, rest = text.partition("<h2>Nights</h2>")
    first, good, bad = map(nightly_name, (1, 2, 3))
    assert f">{button}</button>" in head
    assert f"{LEGALIZE}.html" in head
    assert f"recipes/a.yaml --case breaks -t {bad}" in head
    assert f"{first} to {good}" in rest
    failure_page = (public / f"{LEGALIZE}.html").read_text()
    for linking in ((public / "index.html").read_text(), failure_page):
        assert f"cases/{page.name}" in linking
    by_hand = failure_page.partition("by hand")[2]
    again = [line for line in by_hand.splitlines() if "triage " in line]
    assert f"triage run recipes/a.yaml --case breaks -t {bad}" in again[0]
    command = "triage bisect recipes/a.yaml --case breaks"
    assert f"{command} --good {good} --bad {bad} --repo DIR" in again[-1]


def test_a_failure_that_was_always_there_is_explained_by_why(site: Site) -> None:
    public = site(night(1, {}, cases=[case_result("a", "F", "F", source="a.yaml")]))
    command = f"triage why a.yaml --case a -t {nightly_name(1)}</pre>"
    assert command in (public / f"{LEGALIZE}.html").read_text()
