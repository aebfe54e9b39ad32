"""Rows that are scaled as they are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..rules.scaling import Scaler, scaled_dtype
from .sources import ArraySource, Source

__all__ = ["ScaledSource", "scale_rows", "stored_rows"]


@dataclass(frozen=True, eq=False)
class ScaledSource:
    """A source whose blocks are scaled. Until the scaler is known it can be planned with, and gives rows as they are.

    Parameters
    ----------
    inner : Source
        The rows as they are stored.
    name : {"standard", "minmax", "unit"}
    scaler : Scaler or None

    Examples
    --------
    >>> source = ScaledSource(ArraySource(np.array([[3.0, 4.0], [0.0, 2.0]])), "unit", Scaler("unit"))
    >>> source.blocks([0, 1, 2]).compute()
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    inner: Any
    name: str
    scaler: Scaler | None = None

    def with_scaler(self, scaler: Scaler) -> ScaledSource:
        """Return the source with its scaler."""
        return replace(self, scaler=scaler)

    @property
    def n_rows(self) -> int:
        return self.inner.n_rows

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        return scaled_dtype(self.inner.dtype)

    @property
    def sparse(self) -> bool:
        return self.inner.sparse

    @property
    def row_entries(self) -> int:
        return self.inner.row_entries

    @property
    def stored(self) -> int:
        return self.inner.stored

    @property
    def row_bytes(self) -> int:
        # Plans count a row twice, as it was read and as it was cut; here it stands beside the row as it was stored.
        own = self.inner.row_bytes if self.sparse else self.n_features * self.dtype.itemsize
        return own if isinstance(self.inner, ArraySource) else own + self.inner.row_bytes // 2

    @property
    def mean_bytes(self) -> int:
        return self.inner.mean_bytes if self.sparse else self.n_features * self.dtype.itemsize

    @property
    def lazy(self) -> bool:
        return self.inner.lazy

    @property
    def frame(self) -> Any:
        return self.inner.frame

    @property
    def unit_rows(self) -> int:
        return self.inner.unit_rows

    @property
    def unit_bytes(self) -> int:
        return self.inner.unit_bytes

    @property
    def row_chunks(self) -> tuple[int, ...]:
        return self.inner.row_chunks

    def blocks(self, edges: list[int]) -> Any:
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        x = self.inner.blocks(edges)
        if self.scaler is None:
            return x
        name = f"scaled-{os.urandom(8).hex()}"
        shared = f"scaler-{name}"  # once in the graph, not once a block
        layer: dict[Any, Any] = {shared: self.scaler}
        for i in range(len(edges) - 1):
            layer[(name, i, 0)] = (scale_rows, (x.name, i, 0), shared)
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[x])
        return da.Array(graph, name, x.chunks, dtype=self.dtype)

    def check_missing(self, policy: str) -> None:
        self.inner.check_missing(policy)


def scale_rows(rows: Any, scaler: Scaler) -> Any:
    """Scale a block."""
    return scaler.apply(rows)


def stored_rows(source: Source) -> Source:
    """Return the rows as they are stored, whatever becomes of them when they are read."""
    return source.inner if isinstance(source, ScaledSource) else source
