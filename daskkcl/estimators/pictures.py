"""`model.plot`: what there is to see of a fitted model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.scaled import stored_rows
from ..blocks.sources import Source
from ..drawing import charts
from ..drawing.canvas import literal, need_matplotlib
from ..errors import InvalidInputError
from ..kernels.rows import join_blocks, public_rows
from ..random import as_key
from ..schedules.predict import compute_here

if TYPE_CHECKING:
    from .base import KernelClusterer

__all__ = ["Pictures", "in_memory", "rows_to_keep", "some_rows"]

_KEPT_ROWS, _KEPT_BYTES = 2000, 4 * 2**20
_RUNS = 25  # stretches of rows that are read of lazy data: few chunks, spread over all of them


def rows_to_keep(sample: Any, row_bytes: int, scaler: Any = None) -> Any:
    """Return the part of a run's random sample that a model keeps to be drawn with, in units of the data."""
    rows = sample[: min(_KEPT_ROWS, max(1, _KEPT_BYTES // max(1, row_bytes)))]
    return public_rows(rows if scaler is None else scaler.undo(rows))


def some_rows(source: Source, n_rows: int) -> Any:
    """Return some rows of a source in memory, as they are stored."""
    source, n = stored_rows(source), source.n_rows
    if not source.lazy:
        rows = public_rows(compute_here(source.blocks([0, n])))
        return rows if n <= n_rows else rows[np.sort(as_key(0).child("drawn").rows(n, 0, n_rows))]
    runs = min(_RUNS, max(1, n // max(1, n_rows // _RUNS)))
    length = min(n // runs, -(-n_rows // runs))
    pieces = [compute_here(source.blocks([a, a + length])) for a in (k * (n // runs) for k in range(runs))]
    return public_rows(join_blocks(pieces))


def in_memory(labels: Any) -> NDArray[Any]:
    """Return labels, numpy, dask or xarray, as a plain array."""
    values = getattr(labels, "data", labels) if hasattr(labels, "dims") else labels
    return np.asarray(compute_here(values) if hasattr(values, "dask") else values).ravel()


class Pictures:
    """Pictures of a fitted model; each returns the matplotlib axes it drew on.

    Rows are drawn from a random sample that the model keeps of its data (up to 2,000 rows), or from rows `X` that are
    given. A model that was loaded, or that learned from a stream, has no sample: give it `X`.

    Examples
    --------
    >>> import daskkcl, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = daskkcl.PAKCL(3, random_state=0).fit(X)
    >>> axes = model.plot.sizes()
    >>> axes = model.plot.scatter()
    """

    def __init__(self, model: KernelClusterer) -> None:
        need_matplotlib()
        self._model = model

    def __repr__(self) -> str:
        names = [name for name in dir(type(self)) if not name.startswith("_")]
        return f"<pictures of {type(self._model).__name__}: {', '.join(names)}>"

    def convergence(self, ax: Any = None) -> Any:
        """Draw the objective after each round."""
        history = self._model.history_
        if not len(history):
            raise InvalidInputError(f"{type(self._model).__name__} keeps no history of its rounds: nothing to draw.")
        return charts.convergence(history, self._model.watches, ax)

    def sizes(self, ax: Any = None) -> Any:
        """Draw the size of each cluster against that of equal ones."""
        if not hasattr(self._model, "cluster_sizes_"):
            raise InvalidInputError("The sizes of clusters are not known of a stream: nothing to draw.")
        return charts.sizes(self._model.cluster_sizes_, ax)

    def scatter(self, X: Any = None, *, ax: Any = None, n_rows: int = 2000) -> Any:
        """Draw rows in a plane, with the borders between clusters.

        Rows of two features are drawn as they are; others in the plane in which the centres lie farthest apart, by
        their distances to the centres.

        Parameters
        ----------
        X : as for `fit`, optional
            The rows; those that the model keeps by default.
        ax : matplotlib axes, optional
        n_rows : int
            The most rows to draw.
        """
        model, rows = self._model, self._rows(X, n_rows)
        labels = self._ask("predict", rows)
        if rows.shape[1] == 2 and not hasattr(rows, "tocsr"):
            regions = lambda points: self._ask("predict", points)  # noqa: E731
            return charts.scatter(np.asarray(rows, dtype=float), labels, model.n_clusters_, self._names(), regions, ax)
        points = charts.plane_of_centres(self._ask("transform", rows).astype(float) ** 2)
        axes = {
            1: ("distance to the centre", ""),
            2: ("← nearer to 1     nearer to 0 →", "distance to the nearer centre"),
        }
        names = axes.get(model.n_clusters_, ("first direction between centres", "second"))
        return charts.scatter(points, labels, model.n_clusters_, names, None, ax)

    def memberships(self, X: Any = None, *, ax: Any = None, n_rows: int = 1000) -> Any:
        """Draw the memberships of rows, sorted by cluster and certainty; of fuzzy models.

        Parameters
        ----------
        X, ax, n_rows : as for `scatter`
        """
        if not self._model.fuzzy:
            raise InvalidInputError(
                f"{type(self._model).__name__} gives each row one cluster: only the fuzzy algorithms have memberships."
            )
        return charts.membership_bars(self._ask("predict_proba", self._rows(X, n_rows)), ax)

    def silhouette(self, X: Any = None, *, ax: Any = None, n_rows: int = 2000) -> Any:
        """Draw the simplified silhouette of rows: how much nearer their own centre is than the next.

        Parameters
        ----------
        X, ax, n_rows : as for `scatter`
        """
        rows = self._rows(X, n_rows)
        if self._model.n_clusters_ < 2:
            raise InvalidInputError("A silhouette compares clusters, and there is one.")
        return charts.silhouette_bars(self._ask("transform", rows), self._ask("predict", rows), ax)

    def confusion(self, y: Any, labels: Any = None, *, ax: Any = None) -> Any:
        """Draw how known classes fall into clusters.

        Parameters
        ----------
        y : array of shape (n,)
            The known class of every row, numbers or names.
        labels : array of shape (n,), optional
            The clusters of the rows, if not those of the rows the model was fitted to.
        ax : matplotlib axes, optional
        """
        labels = in_memory(self._model.labels_ if labels is None else labels)
        classes, which = np.unique(np.ravel(y), return_inverse=True)
        if which.shape != labels.shape:
            raise InvalidInputError(
                f"There are {which.size:,} known classes and {labels.size:,} labels: one for each row."
            )
        n = max(self._model.n_clusters_, int(labels.max(initial=-1)) + 1)
        kept = labels >= 0
        counts = np.bincount(which[kept] * n + labels[kept], minlength=len(classes) * n).reshape(len(classes), n)
        return charts.confusion(counts, list(classes), ax)

    def n_clusters(self, ax: Any = None) -> Any:
        """Draw what speaks for the number of clusters that ``n_clusters="auto"`` took."""
        found = getattr(self._model, "n_clusters_evidence_", None)
        if not found or "ratios" not in found:
            raise InvalidInputError("The number of clusters was given, not found: fit with n_clusters='auto'.")
        if not len(found["ratios"]):
            raise InvalidInputError("The sample had too few different rows for a neighbour graph: nothing to draw.")
        return charts.evidence(found, ax)

    def seeds(self, X: Any = None, *, ax: Any = None, n_rows: int = 2000) -> Any:
        """Draw the paths of the seeds, of algorithms with `n_seeds` that were fitted with ``record=True``.

        Parameters
        ----------
        X, ax, n_rows : as for `scatter`
        """
        path: NDArray[Any] | None = getattr(self._model, "seed_path_", None)
        if path is None:
            raise InvalidInputError("There is no path of seeds: fit cpcl, kcpcl or lcpcl with record=True.")
        points = None
        if self._model._model.reader.map_.name == "identity":
            points, scaler = np.asarray(self._rows(X, n_rows), dtype=float), getattr(self._model, "scaler_", None)
            points = points if scaler is None else scaler.apply(points)  # as the seeds are
        if path.shape[2] == 2:
            return charts.seed_paths(path, points, self._names(), ax)
        flat = path.reshape(-1, path.shape[2])
        middle = flat.mean(axis=0)
        axes = np.linalg.svd(flat - middle, full_matrices=False)[2][:2].T
        shown = None if points is None else (points - middle) @ axes
        return charts.seed_paths((path - middle) @ axes, shown, ("first direction of the seeds", "second"), ax)

    def _ask(self, method: str, rows: Any) -> NDArray[Any]:
        """Return what a method of the model says of rows in memory, which have no names of columns."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return np.asarray(getattr(self._model, method)(rows))

    def _names(self) -> tuple[str, str]:
        names = [literal(name) for name in getattr(self._model, "feature_names_in_", ("feature 0", "feature 1"))]
        return names[0], names[1]

    def _rows(self, X: Any, n_rows: int) -> Any:
        """Return rows in memory to draw: kept ones, or some of X."""
        kept = getattr(self._model, "_shown", None)
        if X is None:
            if kept is None:
                raise InvalidInputError("This model keeps no rows to draw; pass some: model.plot.scatter(X).")
            return kept[:n_rows]
        return some_rows(self._model._open_new(X, None, None), n_rows)
