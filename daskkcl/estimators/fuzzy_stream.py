"""`partial_fit` of the fuzzy estimators: a stream of rows of unknown length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..blocks.frames import plain_values
from ..blocks.scaled import ScaledSource
from ..blocks.sources import ArraySource, Source
from ..blocks.sparse import in_memory
from ..errors import InvalidInputError, NotOfferedError
from ..kernels.rows import public_rows
from ..planning import block_edges
from ..progress import Progress
from ..random import Key, as_key
from ..rules.counting import count_clusters
from ..rules.fuzzy import Fuzzy
from ..schedules.data import run_blocks
from ..schedules.engine import make_engine
from ..schedules.measuring import bad_rows, zeroed
from ..schedules.setup import prepare
from ..schedules.start import place_centres
from ..schedules.stream import Begun, Chunk, OnlineState, SinglePassState
from ..schedules.tasks import Model
from ..system import single_threaded
from .base import warn_if_unclear, weights_refused
from .fuzzy_base import Resolved
from .inputs import open_rows
from .problems import make_problem
from .validation import check_integer, check_weights, stream_scaler, weight_unit

__all__ = ["FuzzyStream"]

_READ_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class _Stream:
    """Where a stream stands: chunks that were met, and the rows that wait for more."""

    key: Key
    state: Any
    waiting: Chunk
    begun: Begun | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # attributes that the first chunk settles


class FuzzyStream:
    """`partial_fit` of the algorithms that meet every row once."""

    _stream: _Stream

    @property
    def partial_fit(self) -> Callable[..., Self]:
        """Go on with the next rows of a stream: ``partial_fit(X, y=None, sample_weight=None)``, landmark form."""
        if self.form == "literal":  # type: ignore[attr-defined]
            raise NotOfferedError(
                "partial_fit goes with form='landmark'; the literal form is for data that can be read again."
            )
        return self._partial_fit

    def _partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on with the next rows of a stream.

        The first chunk settles the kernel's width and the landmarks, unless they are given; the memory taken does not
        grow with the stream. Rows wait until they fill a chunk, so it does not matter in what portions they come.
        After every call the model knows all rows so far; their labels are not kept. A stream is met in this process;
        a `fit` ends it.

        Parameters
        ----------
        X : as for `fit`
            The next rows.
        y : None
        sample_weight : array-like of shape (n_rows,), optional
            Their weights.

        Returns
        -------
        self
        """
        estimator: Any = self
        stream = self.__dict__.get("_stream")
        if stream is None and estimator.__sklearn_is_fitted__() and estimator._source is None:
            raise InvalidInputError(
                "This model was loaded, and the summaries that a stream goes on from are not saved with it. Begin a "
                "new stream: sklearn.base.clone(model)."
            )
        source = open_rows(estimator, X, None, None, reset=stream is None)
        source.check_missing(estimator.missing)
        estimator.scaler_ = stream_scaler(estimator.scale, source)
        if estimator.scaler_ is not None:
            source = ScaledSource(source, "unit", estimator.scaler_)
        weights = np.ones(source.n_rows)
        if sample_weight is not None:
            weights = check_weights(plain_values(sample_weight, source.frame), source.n_rows, some=False)
        if weight_unit(weights) != 1:
            raise InvalidInputError(
                "sample_weight is too large or too small for blocks in float32: divide it by its mean."
            )
        if stream is None:
            stream = _new_stream(estimator, source)
        with single_threaded():
            for start, rows in _portions(source):
                stream = _met(estimator, stream, rows, weights[start : start + len(rows)], start)
            _set_model(estimator, stream)
        self._stream = stream
        return self

    @property
    def _not_kept(self) -> str:
        return "kept for a stream" if "_stream" in self.__dict__ else "saved with a model"


def _new_stream(estimator: Any, source: Source) -> _Stream:
    if isinstance(estimator.chunk_size, float):
        raise InvalidInputError("A stream has no known length: give chunk_size as a number of rows, or leave it out.")
    if estimator.chunk_size != "auto":
        rows = check_integer("chunk_size", estimator.chunk_size, 1)
        if isinstance(estimator.n_clusters, (int, np.integer)) and rows < estimator.n_clusters:
            raise InvalidInputError(
                f"chunk_size={rows} is less than n_clusters={estimator.n_clusters}: the first chunk of a stream must "
                "have a row for every cluster. Pass a larger chunk_size."
            )
    if estimator.max_passes != 1:
        raise InvalidInputError("A stream is read once: leave out max_passes, or call fit on data that can be reread.")
    if estimator.extend != "centres":
        raise InvalidInputError("Rows of a stream are gone when prototypes are known: leave out extend=, or call fit.")
    state = OnlineState() if estimator.algorithm == "okfcm" else SinglePassState()
    none = np.empty((0, source.n_features), dtype=source.dtype)
    return _Stream(as_key(estimator.random_state), state, Chunk(none, np.empty(0)))


def _portions(source: Source) -> Any:
    """Yield first row and rows of pieces of a source."""
    engine = make_engine(None, Progress(False))
    for a, b in pairwise(block_edges(source.n_rows, _READ_ROWS)):
        if isinstance(source, ArraySource):
            yield a, source.array[a:b]
        else:
            yield a, run_blocks(engine, source, [a, b], lambda graph: lambda start, rows: rows)[0]


def _met(estimator: Any, stream: _Stream, rows: NDArray[Any], weights: NDArray[Any], start: int) -> _Stream:
    """Return the stream after some more rows."""
    bad = bad_rows(rows)
    if bad is not None:
        if estimator.nan == "raise":
            row = start + int(np.flatnonzero(bad)[0])
            raise InvalidInputError(
                f"Input X contains NaN or infinity, in row {row:,} of this block. nan='drop' leaves such rows out."
            )
        rows, weights = zeroed(rows, bad), weights * ~bad
    stream = replace(stream, waiting=stream.waiting.join(rows, weights))
    begun = stream.begun
    while len(stream.waiting.rows) >= (chunk_rows := _chunk_rows(estimator, stream)):
        chunk, rest = stream.waiting.split(chunk_rows)
        if begun is None:
            begun, facts = _begin(estimator, chunk, stream.key, chunk_rows)
            stream = replace(stream, begun=begun, facts=facts)
        stream = replace(stream, state=stream.state.meet(chunk, begun), waiting=rest)
    return stream


def _chunk_rows(estimator: Any, stream: _Stream) -> int:
    if stream.begun is not None:
        return stream.begun.settings.chunk_rows
    n_clusters = estimator.n_clusters if isinstance(estimator.n_clusters, (int, np.integer)) else 64
    if isinstance(estimator.chunk_size, str):
        return max(2048, 20 * int(n_clusters))
    return int(estimator.chunk_size)


def _begin(estimator: Any, chunk: Chunk, key: Key, chunk_rows: int) -> tuple[Begun, dict[str, Any]]:
    """Settle everything from the rows of the first chunk; return it, and the attributes that follow."""
    if not (chunk.weights > 0).any():
        raise InvalidInputError("No row of the first chunk has a weight: begin the stream with rows that count.")
    engine = make_engine(None, Progress(False)).here()
    counting = chunk.weights > 0  # dropped rows are zeros of weight 0: nothing is to be made of them
    made = make_problem(estimator, in_memory(chunk.rows[counting]), key, scaled=True)
    if made.recipe.n_streams and (chunk.weights[counting] != 1).any():
        raise weights_refused(made)
    problem = replace(made, weights=chunk.weights[counting], keep_codes=False)  # later chunks are rows, not codes
    settings: Resolved = replace(estimator._settings(problem), order="arrival")
    setup = prepare(problem, engine, estimator._plan(problem, engine, settings), count_clusters)
    warn_if_unclear(setup.evidence)
    setup.scratch.close()
    estimator.fuzzifier_bound_ = estimator._bound(setup)
    estimator.fuzzifier_ = estimator._resolve_fuzzifier(settings)
    run = replace(estimator._run_settings(setup.n_clusters, settings), chunk_rows=chunk_rows)
    start = None
    if not settings.named or settings.init == "sample":
        start = place_centres(setup, settings.init, None, settings.n_init).centres
    facts = {
        "n_clusters_": setup.n_clusters,
        "_n_features_out": setup.n_clusters,
        "plan_": setup.plan,
        "n_clusters_evidence_": setup.evidence,
        "gamma_": getattr(setup.row_map.kernel, "gamma", None),
        "fuzzifier_": estimator.fuzzifier_,
        "fuzzifier_bound_": estimator.fuzzifier_bound_,
    }
    return Begun(setup.reader, start, run, key.child(estimator.algorithm)), facts


def _set_model(estimator: Any, stream: _Stream) -> None:
    """Set the fitted attributes: those of the chunks so far, and of the rows that wait as one more chunk."""
    begun, facts, state, waiting = stream.begun, stream.facts, stream.state, stream.waiting
    if begun is None:
        begun, facts = _begin(estimator, waiting, stream.key, _chunk_rows(estimator, stream))
    if len(waiting.rows):
        state = state.meet(waiting, begun)
    end = state.end(begun)
    order = np.argsort(-end.run.masses, kind="stable")
    model = Model(begun.reader, end.run.centres, Fuzzy(begun.settings.fuzzifier)).numbered(order)
    estimator._model, estimator._source, estimator._labels = model, None, None
    found = {
        "n_iter_": end.run.n_iter,
        "history_": list(end.run.objective),
        "objective_": end.run.objective[-1],
        "prototypes_": end.prototypes.numbers[order],
        "prototype_rows_": public_rows(end.prototypes.rows[order]),
        "n_rows_seen_": waiting.start + len(waiting.rows),
    }
    for name, value in {**facts, **found}.items():
        setattr(estimator, name, value)
    estimator.__dict__.pop("cluster_sizes_", None)  # rows are not counted again when centres move
