"""Take the pictures of the site in docs/assets/, from simulated nights, in Debian's
Chromium.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from triage.attribute.result import Attribution, ComparisonResult, DivergingPass
from triage.bisect.result import Answer, Bisection, BisectKind, Suspect
from triage.investigate.result import StepResult
from triage.model.pass_name import PassName
from triage.model.revision import Revision

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # tests are not an installed package

from benchmarks.simulated_nights import simulated_nights  # noqa: E402
from triage.nightly.result import Night  # noqa: E402
from triage.nightly.store import NightStore  # noqa: E402
from triage.reduce.result import IssueDraft  # noqa: E402
from triage.report.site import Site  # noqa: E402
from triage.toolchains.home import Home  # noqa: E402

PROGRAM = """\
func.func @attention(%q: tensor<4x?x64xf16>, %k: tensor<4x?x64xf16>) -> tensor<4x?x?xf16> {
  %0 = linalg.batch_matmul_transpose_b ins(%q, %k : tensor<4x?x64xf16>, tensor<4x?x64xf16>) -> tensor<4x?x?xf16>
  return %0 : tensor<4x?x?xf16>
}
"""
COMMAND = "pip install iree-base-compiler==3.3.0\niree-compile --iree-hal-target-backends=rocm input.mlir -o /dev/null"


def investigated(night: Night, before: Revision) -> Night:
    """Return a night whose first cluster was investigated. before: the toolchain of the
    night before it.
    """
    first, *others = night.clusters
    name = PassName("CollapseDimensionsPass")
    found = Attribution(
        first.cases[0],
        night.baseline,
        night.toolchain,
        ComparisonResult.DIVERGES,
        persistent=DivergingPass(None, name, None),
    )
    draft = IssueDraft(
        {"input.mlir": PROGRAM}, COMMAND, "input.mlir:2:8: error: the memory is used up"
    )
    suspects = (
        Suspect("6f1c2a9b", subject="[Codegen] Fuse attention", probability=0.71),
        Suspect("0b77d3e1", subject="Integrate LLVM", probability=0.18),
    )
    kind = BisectKind.REGRESSION, Answer.SUSPECTS
    steps = ("bisect", "attribute", "reduce")
    first = replace(
        first,
        owner="@codegen",
        culprit=Bisection(
            first.cases[0], *kind, before, night.toolchain, suspects, confirmed=True
        ),
        steps=[
            *(StepResult(step, "done") for step in steps),
            StepResult("remedy", "failed", reason="none of 53 candidates works"),
        ],
        representative=first.cases[0],
        attribution=found,
        size="3 operations",
        draft=draft,
    )
    return replace(night, clusters=[first, *others])


with TemporaryDirectory() as scratch, sync_playwright() as playwright:
    store, out = NightStore(Home(Path(scratch))), Path(scratch) / "public"
    before, seen = None, set()
    for night in simulated_nights(300, 60, seed=6):
        new = [each for each in night.clusters if each.id not in seen]
        seen |= {each.id for each in new}
        night = replace(
            night, clusters=[*new, *(c for c in night.clusters if c not in new)]
        )
        store.add(investigated(night, before) if new and before else night)
        before = night.toolchain
    Site(store, out).write()
    browser = playwright.chromium.launch(
        executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
    )
    page = browser.new_page(viewport={"width": 1000, "height": 660})
    failure = next(
        file
        for file in sorted((out / "failures").iterdir())
        if ">open<" in (text := file.read_text())
        and PROGRAM[:20] in text
        and "the same compiler" not in text
    )
    for name, ready, picture in (
        ("index.html", "#open", "site-overview.png"),
        ("grid.html", "#grid li", "site-grid.png"),
        (f"failures/{failure.name}", "button.copy", "site-failure.png"),
    ):
        page.goto((out / name).as_uri())
        page.locator(ready).first.wait_for()
        page.screenshot(path=str(ROOT / "docs" / "assets" / picture))
    browser.close()
