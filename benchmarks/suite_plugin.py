"""A pytest plugin that writes how each test of a suite ended. `benchmarks.suite` loads it into the suite's own harness."""

import json
import os
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Append the status of a test to the file BENCH_RESULTS."""
    report = yield
    if report.when == "call":
        error = str(call.excinfo.value) if call.excinfo else ""
        where = ""
        if "Run with:" in error:
            where = " (wrong result)" if "[FAILED] result" in error else " (run)"
        elif call.excinfo:
            where = " (compile)"
        if report.outcome == "passed":
            status = "passed"
        elif report.outcome == "skipped":
            status = f"xfail{where}"
        else:
            status = "xpass" if not call.excinfo else f"failed{where}"
        test = dict(item.user_properties)["relative_test_directory_name"]
        with Path(os.environ["BENCH_RESULTS"]).open("a") as file:
            file.write(json.dumps({"test": test, "status": status}) + "\n")
    return report
