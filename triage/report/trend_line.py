"""A series of measured values as a small line in SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from triage.nightly.trends import MetricStep
from triage.recipes.values import time_text

_PADDING = 3  # pixels


def value_text(value: float, unit: str) -> str:
    """Return a measured value with its unit.

    >>> [value_text(0.25, "s"), value_text(1234567, "bytes"), value_text(12, "")]
    ['250 ms', '1,234,567 bytes', '12']
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
    first, last = (value_text(values[nights[at]], unit) for at in (0, -1))
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
