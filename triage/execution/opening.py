"""Open the home and an engine on it."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING

from triage.compilers.registry import Families
from triage.execution.cache import ResultCache
from triage.execution.engine import Engine
from triage.model.case import Case
from triage.model.progress import Progress
from triage.toolchains.home import Home, lock_file, open_home, remove_tree
from triage.toolchains.registry import ToolchainRegistry

if TYPE_CHECKING:
    from triage.execution.dask_executor import DaskCluster


def _lock_use(home: Home, stop: threading.Event) -> IO[bytes]:
    """Say that the home is in use. If no other process uses it, remove the folders in
    which killed ones compiled: other containers that share it see locks, and no
    processes.
    """
    try:
        with lock_file(home.use_lock, fcntl.LOCK_EX | fcntl.LOCK_NB, stop):
            remove_tree(home.scratch)
    except BlockingIOError:
        pass
    return lock_file(home.use_lock, fcntl.LOCK_SH, stop)


@contextmanager
def open_engine(
    cases: Sequence[Case],
    *,
    jobs: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] = lambda _: None,
    cluster: Callable[[ToolchainRegistry], DaskCluster] | None = None,
    is_dry: bool = False,
) -> Iterator[Engine]:
    """Open TRIAGE_HOME and yield an engine. On exit, compilers are stopped and the
    result cache is closed.

    `cases` are those to compile: their recipes may describe further compiler families.
    `fresh` ignores the result cache, `cluster` opens machines that make tasks as well,
    and `is_dry` installs, downloads and compiles nothing.
    """
    stop, home, families = threading.Event(), open_home(), Families(cases)
    with ExitStack() as opened:
        # a file system without locks, or a home that cannot be written
        with suppress(OSError):
            opened.enter_context(_lock_use(home, stop))
        cache = ResultCache(home.results_database, warn, fresh=fresh)
        opened.callback(cache.close)
        registry = ToolchainRegistry(home, families, progress, stop, is_dry=is_dry)
        machines = opened.enter_context(cluster(registry)) if cluster else None
        engine = Engine(
            registry, families, cache, stop, jobs=jobs, fresh=fresh, cluster=machines
        )
        try:
            yield engine
        except BaseException:
            stop.set()
            raise
