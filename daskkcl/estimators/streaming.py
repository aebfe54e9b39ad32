"""Learning from a stream: blocks of rows handed over one after another."""

from __future__ import annotations


class StreamMixin:
    """To be filled."""
