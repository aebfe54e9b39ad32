"""Sparse kernel k-means: a growing buffer of informative rows, their sparse kernel, its leading eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..blocks.sources import ArraySource, Source
from ..blocks.sparse import in_memory
from ..errors import InvalidInputError
from ..kernels import as_kernel
from ..kernels.rows import join_blocks, public_rows
from ..maps.recipes import SparseKernel
from ..maps.sparse_kernel import SparseKernelMap
from ..planning import Stage
from ..progress import Progress
from ..random import Key
from ..rules.counting import count_clusters
from ..rules.crisp import Nearest
from ..rules.sparse_kernel import Buffer, Growth, buffer_centres, finish_buffer, nearest_labels
from ..schedules.checkpoint import Checkpoint
from ..schedules.competitive_stream import label_rows
from ..schedules.engine import make_engine
from ..schedules.measuring import Reader
from ..schedules.problem import Problem
from ..schedules.setup import Setup, prepare
from ..schedules.sparse_kernel import Stream, first_buffer, grow_buffer, meet_stream
from ..schedules.tasks import Model
from ..system import single_threaded
from .base import Fitted, KernelClusterer, warn_if_unclear
from .common import documented
from .competitive import shuffle_stages
from .inputs import open_block
from .problems import make_problem
from .validation import check_choice, check_flag, check_integer, check_kernel_params, stream_scaler, uses_index

__all__ = ["SparseKernelKMeans"]


@dataclass(frozen=True, eq=False)
class _Settings:
    max_rows: int
    batch_rows: int
    every: int | None
    n_init: int
    max_iter: int


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SparseKernelKMeans(KernelClusterer):
    """Sparse kernel k-means: a buffer of informative rows stands for all, and each row sees only its nearest of them.

    A buffer begins with random rows. The kernel between rows of it that are among each other's p nearest is a sparse
    matrix; its leading eigenvectors place the rows, and k-means finds the clusters. All other rows come by in batches:
    one enters the buffer with a probability that is its leverage score, what it would add to the eigenvectors, divided
    by the number of clusters. In the end every row goes to the centre nearest to its projection.

    Parameters
    ----------
    {common}
    buffer_size : int, default 1000
        Rows that the buffer begins with, all rows if there are fewer.
    n_neighbors : int, optional
        p: how many rows of the buffer a row sees, itself included if it is one of them. By default three
        quarters of ``buffer_size / n_clusters``, and at least 12. Larger than `max_buffer` is all, and the kernel
        matrix is dense.
    neighbors : {{"mutual", "either"}}, default "mutual"
        Which of the first rows see one another: those that are each among the other's p nearest, as published, or
        those of which one is. Rows that enter see, and are seen by, their p nearest in both cases.
    normalize : bool, default False
        Divide the coordinates of every row by their length, so that clusters are directions and rows that see little
        of the buffer count as much as others. For rows of words; digits lose by it.
    max_buffer : int, optional
        The most rows of the buffer, twice `buffer_size` by default; beyond, those of least leverage leave.
    batch_size : int, default 1000
        Rows that meet the buffer as it is; those that are to enter do so behind them.
    recluster_every : int, optional
        Eigenvectors and clusters are made again when so many rows are to enter; until then they wait. In the end all
        enter. By default 10, and with more than a hundred clusters a tenth of them.
    n_init : int, default 10
        Seedings of k-means on the buffer, at the beginning and in the end; one for 512 clusters and more. In between it
        goes on from where it was.
    max_iter : int, default 100
        The most steps of a run of k-means on the buffer.
    nearest : {{"auto", "exact", "index"}}, default "auto"
        How the nearest centre of a row is found: among all of them (which is ``"auto"`` too), or with an index of
        them, which needs faiss, saves some of the time with thousands of clusters, and here misses one row in twenty.

    Attributes
    ----------
    {attributes}
    buffer_ : ndarray (or scipy array, of sparse rows) of shape (s, n_features)
        The rows of the buffer.
    buffer_row_numbers_ : ndarray of shape (s,)
        Their numbers in the data.
    leverage_ : ndarray of shape (s,)
        Their leverage scores, which sum to the number of eigenvectors.
    n_entered_ : int
        Rows that have entered beside the first, some of which may have left again.

    Notes
    -----
    Chitta, Jain and Jin, "Sparse kernel clustering of massive high-dimensional data sets with large number of clusters"
    (doi:10.1145/2809890.2809896). Centres are means (Algorithm 2 prints sums), and the matrix is bordered by a row that
    enters (Eq. 5), which Eq. 11 does not give: the old eigenvectors are extended by zeros and improved until they are
    those of the new matrix. Labels come from a pass with the final centres. ``history_`` holds the mean squared
    distance of the buffer's rows to their centres, clustering by clustering.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (200, 2)) for k in range(3)])
    >>> model = daskkcl.SparseKernelKMeans(3, buffer_size=150, random_state=0).fit(X)
    >>> model.cluster_sizes_, len(model.buffer_) - model.n_entered_, round(model.leverage_.sum(), 6)
    (array([200, 200, 200]), 150, np.float64(3.0))
    """

    algorithm: ClassVar[str] = "skkmeans"
    watches: ClassVar[str] = "mean squared distance in the buffer"
    default_map: ClassVar[str] = "sparse"
    # Coordinates are nearly indicators of the clusters: in the few directions of an index, 5 % of rows lose theirs.
    index_by_itself: ClassVar[bool] = False

    map: Any = field(init=False, default=None)
    landmarks: Any = field(init=False, default=None)
    n_landmarks: int | None = field(init=False, default=None)
    init: Any = field(init=False, default=None)
    buffer_size: int = 1000
    n_neighbors: int | None = None
    neighbors: str = "mutual"
    normalize: bool = False
    max_buffer: int | None = None
    batch_size: int = 1000
    recluster_every: int | None = None
    n_init: int = 10
    max_iter: int = 100
    nearest: str = "auto"

    def _sizes(self) -> tuple[int, int, int | None]:
        """Return how many rows the buffer begins with, the most there may be, and how many of them a row sees."""
        n_clusters = int(self.n_clusters) if isinstance(self.n_clusters, (int, np.integer)) else 0
        size = check_integer("buffer_size", self.buffer_size, 1)
        if n_clusters > size:
            raise InvalidInputError(
                f"buffer_size={size} is less than n_clusters={n_clusters}: every cluster needs rows in the buffer. "
                "Pass a larger buffer_size."
            )
        most = 2 * size if self.max_buffer is None else check_integer("max_buffer", self.max_buffer, 1)
        if most < size:
            raise InvalidInputError(f"max_buffer={most} is less than buffer_size={size}, which the buffer begins with.")
        p = None if self.n_neighbors is None else check_integer("n_neighbors", self.n_neighbors, 1)
        return size, most, p

    def _sparse_map(self, source: Source) -> dict[str, Any]:
        """Return recipe, kernel, and how many rows the buffer begins with."""
        size, most, p = self._sizes()
        name = "rbf" if self.kernel is None else self.kernel
        kernel = as_kernel(name, self.gamma, **check_kernel_params(self.kernel_params))
        n = source.n_rows
        how = check_choice("neighbors", self.neighbors, ("mutual", "either"))
        unit = check_flag("normalize", self.normalize)
        recipe = SparseKernel(p, min(most, n), isinstance(self.n_clusters, str), how, unit)
        return {"recipe": recipe, "kernel": kernel, "landmarks": "uniform", "n_landmarks": min(size, n)}

    def _by_measurements(self) -> bool:
        """Say that rows count by the kernel with a buffer that grows."""
        return False

    def _settings(self, problem: Problem | None) -> _Settings:
        return _Settings(
            max_rows=self._sizes()[1],
            batch_rows=check_integer("batch_size", self.batch_size, 1),
            every=None if self.recluster_every is None else check_integer("recluster_every", self.recluster_every, 1),
            n_init=check_integer("n_init", self.n_init, 1),
            max_iter=check_integer("max_iter", self.max_iter, 1),
        )

    def _growth(self, settings: _Settings, n_clusters: int, key: Key) -> Growth:
        every = settings.every or max(10, n_clusters // 10)  # eigenvectors cost as much as there are clusters
        return Growth(n_clusters, settings.max_rows, every, settings.n_init, settings.max_iter, key)

    def _stages(self, problem: Problem, settings: _Settings) -> tuple[list[Stage], dict[str, int], int, int]:
        batch = min(settings.batch_rows, problem.n_rows)
        one_batch = batch * (2 * problem.cells * 8 + problem.measured_bytes + 8 * problem.c + 64)
        waiting = (self._growth(settings, problem.c, problem.key).every + batch) * problem.row_bytes
        stages, scratch = shuffle_stages(
            problem,
            batch,
            row_bytes=2 * problem.row_bytes + 8,  # read and cut; chances
            task_bytes=problem.tile_bytes + one_batch,
            fixed_bytes=problem.map_bytes + waiting,
        )
        keep = {"rows": problem.rows_bytes}
        return stages, keep, 1, scratch

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        growth = self._growth(settings, setup.n_clusters, setup.problem.key)
        buffer = grow_buffer(setup, growth, settings.batch_rows, checkpoint)
        model = self._model_of(buffer, growth.n_clusters, setup.reader, setup.problem.indexed)
        stream = Stream(buffer, setup.problem.n_rows, buffer.waiting)
        own = {**self._describe_buffer(buffer), "_stream": stream, "_stream_key": growth.key}
        return Fitted(model, buffer.history, buffer.version, True, attributes=own)

    @staticmethod
    def _model_of(buffer: Buffer, n_clusters: int, reader: Reader, indexed: bool) -> Model:
        own = Reader(buffer.map_, reader.tile_rows, reader.nan)
        return Model.of(own, buffer_centres(buffer, n_clusters), Nearest(), indexed)

    @staticmethod
    def _describe_buffer(buffer: Buffer) -> dict[str, Any]:
        return {"buffer_row_numbers_": buffer.numbers, "n_entered_": buffer.n_entered}

    @property
    def buffer_(self) -> Any:
        """The rows of the buffer."""
        check_is_fitted(self)
        return public_rows(self._sparse.rows)

    @property
    def leverage_(self) -> NDArray[np.float64]:
        """The leverage scores of the rows of the buffer."""
        check_is_fitted(self)
        return self._sparse.leverage

    @property
    def _sparse(self) -> SparseKernelMap:
        return cast(SparseKernelMap, self._model.reader.map_)

    # --- streams ---------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the next rows of a stream of any length; only the buffer and a batch of rows are kept.

        The first `buffer_size` rows make the buffer and the kernel's width; until they are there, what is there makes
        provisional ones. Rows meet the buffer in the order in which they come, so the stream should be mixed. The
        answer does not depend on the portions. Clusters keep their numbers once the buffer is there; ``labels_`` and
        ``cluster_sizes_`` are those of the rows of this call. Goes on from a `fit` or a loaded model, too.

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
        if first:
            self.scaler_ = stream_scaler(self.scale, source)
        scaler = self.__dict__.get("scaler_")
        source = source if scaler is None else in_memory(scaler.apply(source.array))
        stream = Stream(None, 0) if first else self._stream_so_far()
        rows = source.array if stream.tail is None else join_blocks([stream.tail, source.array])
        key = self._key() if first else self._stream_key
        settings = self._settings(None)
        with single_threaded():
            if stream.buffer is None:
                begun, reader, c = self._begin(rows, settings, key)
            else:
                begun, reader = Stream(stream.buffer, stream.n_rows, rows), self._model.reader
                c = self._model.centres.n_clusters
            indexed = uses_index(self.nearest, c, c, self.index_by_itself)
            growth = self._growth(settings, c, key)
            met, buffer = meet_stream(begun, growth, settings.batch_rows, reader.nan)
            buffer = finish_buffer(buffer, growth, reseed=False)
            kept = None if stream.buffer is None else self._model.order
            self._model = self._model_of(buffer, c, reader, indexed).numbered(np.arange(c) if kept is None else kept)
            provisional = stream.buffer is None and len(rows) < self.buffer_size
            self._settle(Stream(None, 0, rows) if provisional else met, buffer, source.array, key)
        return self

    def _begin(self, rows: NDArray[Any], settings: _Settings, key: Key) -> tuple[Stream, Reader, int]:
        """Make the buffer of the first rows."""
        own = ArraySource(rows[: self.buffer_size].copy())
        engine = make_engine(None, Progress(False))
        problem = make_problem(self, own, key, scaled=True)
        self.plan_ = self._plan(problem, engine, settings)
        setup = prepare(problem, engine, self.plan_, count_clusters)
        warn_if_unclear(setup.evidence)
        try:
            buffer = first_buffer(setup, self._growth(settings, setup.n_clusters, key))
        finally:
            setup.scratch.close()
        self.n_clusters_evidence_ = setup.evidence
        self.gamma_ = getattr(setup.row_map.kernel, "gamma", None)
        stream = Stream(buffer, own.n_rows, rows[self.buffer_size :])
        return stream, setup.reader, setup.n_clusters

    def _stream_so_far(self) -> Stream:
        """Take up where the last rows, a fit or a loaded model stand."""
        if "_stream" in self.__dict__:
            return self._stream
        map_ = self._sparse
        map_.settle()
        numbers = self.buffer_row_numbers_
        self._stream_key = self._key()
        waiting = map_.rows[:0]
        labels = nearest_labels(map_, self._model.centres)
        history = tuple(self.history_)
        buffer = Buffer(map_, numbers, labels, waiting, numbers[:0], int(self.n_entered_), history)
        return Stream(buffer, max(int(numbers.max()) + 1, int(self.cluster_sizes_.sum())), waiting)

    def _settle(self, stream: Stream, buffer: Buffer, rows: NDArray[Any], key: Key) -> None:
        self._stream, self._stream_key = stream, key
        for name, value in self._describe_buffer(buffer).items():
            setattr(self, name, value)
        self.history_, self.n_iter_ = list(buffer.history), buffer.version
        self._labels, self.objective_ = label_rows(rows, self._model)
        self._source, self._frame = ArraySource(np.empty((0, rows.shape[1]))), None
        c = self.n_clusters_ = self._n_features_out = self._model.centres.n_clusters
        self.cluster_sizes_ = np.bincount(self._labels[self._labels >= 0], minlength=c).astype(np.int64)
