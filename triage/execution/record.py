"""The facts of one task, and their form in JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from triage.model.execution import Execution, is_number, utf8
from triage.model.pass_name import PassName

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_LARGEST_RECORD = 256 << 20  # bytes of JSON
_LARGEST_NUMBER = 1 << 53  # of a record; floats and ints up to it are exact
_AMOUNTS = (
    "exit_code",
    "signal",
    "seconds",
    "cpu_seconds",
    "peak_rss_mb",
    "output_bytes",
    "disk_free",
    "waited",
)


@dataclass(frozen=True, slots=True)
class Record:
    """The facts of one task. They are judged on every reading, so that better rules
    apply to old facts.
    """

    key: str
    case_name: str
    toolchain: str
    execution: Execution
    failing_pass: PassName | None = None
    """The pass that a second run named."""
    disagreements: int = 0
    """How many executions ended differently."""
    at: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )

    @property
    def metrics(self) -> Mapping[str, float]:
        size = self.execution.output_bytes
        return {
            **self.execution.metrics,
            **({} if size is None else {"artifact_bytes": size}),
        }


def record_of_row(digest: object, facts: object) -> Record:
    """Return the record of a row. Raises ValueError when it is damaged."""
    try:
        data = zlib.decompressobj().decompress(facts, _LARGEST_RECORD)  # type: ignore[arg-type]
    except (TypeError, zlib.error) as error:
        raise ValueError(f"the row is damaged: {error}") from error
    if sha256(data).hexdigest() != digest:
        raise ValueError("the row does not fit its checksum")
    return parse_record(data)


def record_json(record: Record) -> str:
    """Return the record as JSON. Lone surrogates, which UTF-8 cannot hold, become `?`.
    ValueError for NaN and infinity.
    """
    return utf8(
        json.dumps(
            asdict(record), separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    )


def parse_record(text: str | bytes) -> Record:
    """Read a record from JSON. Missing fields have their defaults, unknown ones are
    ignored.

    Raises:
        ValueError: the text is not JSON, or a field is missing, has another type, or is
            a number that cannot be stored.
    """
    from pydantic import ValidationError  # slow to import

    try:
        record = _reader().validate_json(text, strict=True)
    except ValidationError as error:
        # the input may be hostile
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None
    execution = record.execution
    amounts = [getattr(execution, name) for name in _AMOUNTS]
    amounts += [
        record.disagreements,
        execution.stdout.dropped,
        execution.stderr.dropped,
    ]
    are_amounts = all(
        amount is None or 0 <= amount < _LARGEST_NUMBER for amount in amounts
    )
    if not (are_amounts and all(map(is_number, execution.metrics.values()))):
        raise ValueError("a number of it cannot be stored")
    return record


@cache
def _reader() -> TypeAdapter[Record]:
    from pydantic import TypeAdapter

    return TypeAdapter(Record)
