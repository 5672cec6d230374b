"""How IREE's IR is asked for, and that its renamings between releases mean nothing."""

from __future__ import annotations
