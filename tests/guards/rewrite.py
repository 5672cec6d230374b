"""Write the golden files anew: `python -m tests.guards.rewrite [-m real]`; arguments go
to pytest.
"""

import os
import sys

import pytest

from tests.guards.golden import REWRITE

if __name__ == "__main__":
    os.environ[REWRITE] = "1"
    sys.exit(pytest.main(["tests/guards", *sys.argv[1:]]))
