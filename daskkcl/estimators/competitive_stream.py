"""`partial_fit` of AKCL and PAKCL: blocks of rows handed over one after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..blocks.sources import ArraySource
from ..blocks.sparse import in_memory
from ..errors import InvalidInputError
from ..maps.base import Centres
from ..progress import Progress
from ..rules.competitive import PUBLISHED_RATES, Rates, Winners
from ..rules.counting import count_clusters
from ..rules.crisp import FrequencySensitive, Nearest
from ..schedules.competitive_stream import Stream, label_rows, means_of, meet_block
from ..schedules.engine import make_engine
from ..schedules.scaling import block_scaler
from ..schedules.setup import prepare
from ..schedules.start import place_centres
from ..schedules.tasks import Model
from ..system import single_threaded
from .base import warn_if_unclear
from .inputs import open_block
from .problems import make_problem
from .validation import check_choice, check_integer, check_scale

__all__ = ["CompetitiveStream"]

_TILE_ROWS = 1024  # of sums over the first block
_ROWS_PER_CLUSTER, _MOST_ROWS = 2, 100  # of a subset: a stream is short at first, and updates are what counts


class CompetitiveStream:
    """`partial_fit` of the frequency-sensitive estimators."""

    _model: Any
    _source: Any
    _frame: Any
    _labels: Any
    _stream: Stream
    history_: Any
    n_iter_: Any
    scaler_: Any

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one block of a stream; the rows are met once, in random order, and not kept.

        The first block (or an earlier `fit`, or a loaded model) gives scaling, landmarks, the kernel's width and first
        centres, so it should be a fair sample, unless `landmarks`, `gamma` and `init` are given. The learning rate is
        ``rate_start / (1 + u / 10)``, not below `rate_end` (1 and 1e-5 by default here), after u updates: subsets met,
        or, row by row, rows met for each cluster. ``subset_size="auto"`` is two rows for each cluster here.
        `max_epochs` and `tol` are for `fit`.
        Clusters keep their numbers from block to block; ``labels_`` and ``cluster_sizes_`` are those of the last block.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            In memory.
        y : None

        Returns
        -------
        self
        """
        first = not hasattr(self, "_model")
        source = open_block(self, X, reset=first)
        if self.order is not None:  # type: ignore[attr-defined]
            raise InvalidInputError("order= is for fit: the rows of a stream have no fixed order.")
        if getattr(self, "nearest", "exact") == "index":
            raise InvalidInputError(
                "nearest='index' is for fit: subsets of a stream are too small to make an index for each. Leave it out."
            )
        with single_threaded():
            source = self._scaled_block(source, first)
            stream = self._begin(source) if first else self._go_on()
            before = means_of(stream.winners.centres, stream.reader.map_)
            stream = meet_block(stream, source.array)
            self._settle(stream, source.array, before)
        return self

    def _scaled_block(self, source: ArraySource, first: bool) -> ArraySource:
        """Scale a block as the first one, a fit or a loaded model says."""
        if first:
            scale = check_scale(self.scale, source)  # type: ignore[attr-defined]
            nan = check_choice("nan", self.nan, ("raise", "drop"))  # type: ignore[attr-defined]
            self.scaler_ = None if scale is None else block_scaler(scale, source.array, _TILE_ROWS, nan)
        scaler = self.__dict__.get("scaler_")
        return source if scaler is None else in_memory(scaler.apply(source.array))

    def _stream_settings(self, n_clusters: int) -> tuple[Rates, int]:
        rates = self._rates(PUBLISHED_RATES)  # type: ignore[attr-defined]
        subset = getattr(self, "subset_size", 1)
        if subset == "auto":
            return rates, max(2, min(_MOST_ROWS, _ROWS_PER_CLUSTER * n_clusters))
        return rates, check_integer("subset_size", subset, 1)

    def _begin(self, source: ArraySource) -> Stream:
        """Take map and first centres from the first block."""
        key = self._key()  # type: ignore[attr-defined]
        engine = make_engine(None, Progress(False))
        problem = replace(make_problem(self, source, key, scaled=True), keep_codes=False)  # later blocks are rows
        settings = self._settings(problem)  # type: ignore[attr-defined]
        self.plan_ = self._plan(problem, engine, settings)  # type: ignore[attr-defined]
        setup = prepare(problem, engine, self.plan_, count_clusters)
        warn_if_unclear(setup.evidence)
        try:
            start = place_centres(setup, settings.init, None, n_init=3)
        finally:
            setup.scratch.close()
        self.n_clusters_evidence_ = setup.evidence
        self.gamma_ = getattr(setup.row_map.kernel, "gamma", None)
        self.history_, self.n_iter_ = [], 0
        rates, subset = self._stream_settings(setup.n_clusters)
        return Stream(setup.reader, Winners(start.centres, start.counts), 0, subset, rates, key)

    def _go_on(self) -> Stream:
        """Take up where the last block, a fit or a loaded model stands."""
        check_is_fitted(self)
        rates, subset = self._stream_settings(self._model.centres.n_clusters)
        if "_stream" in self.__dict__:
            return replace(self._stream, rates=rates, subset_rows=subset)
        model: Model = self._model
        order = np.arange(model.centres.n_clusters) if model.order is None else model.order
        counts = np.asarray(self.win_counts_, dtype=np.float64)[np.argsort(order)]
        key = self._key()  # type: ignore[attr-defined]
        self.history_ = list(self.history_)
        centres = Centres.from_means(means_of(model.centres, model.reader.map_), model.reader.map_)
        met = getattr(self, "n_rows_met_", int(counts.sum()))
        return Stream(model.reader, Winners(centres, counts), met, subset, rates, key)

    def _settle(self, stream: Stream, rows: Any, before: Any) -> None:
        """Set the fitted attributes after a block."""
        labels = check_choice("labels", self.labels, ("frequency", "nearest"))  # type: ignore[attr-defined]
        winners, map_ = stream.winners, stream.reader.map_
        rule = FrequencySensitive(tuple(winners.counts.tolist())) if labels == "frequency" else Nearest()
        c = winners.centres.n_clusters
        kept = self.__dict__.get("_model")
        order = np.arange(c) if kept is None or kept.order is None else kept.order
        self._model = Model(stream.reader, winners.centres, rule, order)
        step = means_of(winners.centres, map_) - before
        self.history_.append(float(np.einsum("cm,cm->", map_.dual(step), step)))
        self.n_iter_ += 1
        self.n_rows_met_ = stream.n_rows
        self._stream = stream
        self._labels, self.objective_ = label_rows(rows, self._model)
        self._source, self._frame = ArraySource(np.empty((0, rows.shape[1]))), None
        self.cluster_sizes_ = np.bincount(self._labels[self._labels >= 0], minlength=c).astype(np.int64)
        self.win_counts_ = winners.counts[order]
        self.n_clusters_ = self._n_features_out = c
