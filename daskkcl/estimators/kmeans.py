"""Approximate kernel k-means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..errors import ConvergenceWarning, InvalidInputError
from ..maps.recipes import Fixed
from ..planning import Stage
from ..rules.crisp import Nearest, NearestL1
from ..schedules.checkpoint import Checkpoint
from ..schedules.lloyd import kernel_k_means, open_dataset
from ..schedules.problem import Problem
from ..schedules.setup import Setup
from ..schedules.start import check_init, place_centres
from ..schedules.tasks import Model
from .base import Fitted, KernelClusterer
from .common import documented
from .validation import check_integer, check_real

__all__ = ["APNCKMeans", "ApproxKernelKMeans", "SpectralKMeans"]


@dataclass(frozen=True, eq=False)
class _Settings:
    init: Any
    n_init: int
    max_iter: int
    tol: float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class ApproxKernelKMeans(KernelClusterer):
    """Kernel k-means with centres in the span of landmarks, in full passes over any amount of data.

    Every row goes to its nearest centre in feature space, every centre to the mean of its rows; a pass needs the
    kernel between rows and landmarks only, one block of rows at a time.

    Parameters
    ----------
    {common}
    init : {{"sample", "d2", "random"}} or array, default "sample"
        ``"sample"`` clusters a uniform sample of the rows first, from `n_init` greedy D² seedings (k-means++ in
        feature space), and starts from the best; ``"d2"`` starts from the seeds themselves; ``"random"`` from random
        rows. Or `n_clusters` row numbers, a label for every row, or an (n_clusters, n_features) array of centre rows.
    n_init : int, default 10
        Seedings tried on the sample (``init="sample"`` and fewer than 512 clusters only).
    max_iter : int, default 100
        The most passes over the data.
    tol : float, default 1e-4
        Stop when the squared moves of all centres sum to at most this share of the mean squared distance of a row to
        its centre. 0 goes on until the centres stand still.
    {nearest}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    The method is that of Chitta, Jin, Havens and Jain, "Approximate kernel k-means: solution to large scale kernel
    clustering" (KDD 2011, doi:10.1145/2020408.2020558), with the landmarks' kernel matrix eigen-truncated. In place
    of its n x m^2 product the centres are kept as mean measurements. A cluster that loses all rows starts again at
    the row farthest from its centre, at most once a cluster.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(0, 2 * np.pi, 400)
    >>> X = np.c_[np.cos(t), np.sin(t)] * np.repeat([1, 4], 200)[:, None]  # a ring in a ring
    >>> model = daskkcl.ApproxKernelKMeans(2, gamma=1.0, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([200, 200])
    """

    algorithm: ClassVar[str] = "akkmeans"
    settles_late: ClassVar[bool] = True
    keeps_on_workers: ClassVar[bool] = True
    rule: ClassVar[Any] = Nearest()

    n_init: int = 10
    max_iter: int = 100
    tol: float = 1e-4
    nearest: str = "auto"

    def _settings(self, problem: Problem) -> _Settings:
        source = problem.source
        named = ("sample", "d2", "random")
        return _Settings(
            init=check_init(self.init, source.n_rows, source.n_features, problem.n_clusters, named),
            n_init=check_integer("n_init", self.n_init, 1),
            max_iter=check_integer("max_iter", self.max_iter, 1),
            tol=check_real("tol", self.tol, 0, closed=True),
        )

    def _stages(self, problem: Problem, settings: _Settings) -> tuple[list[Stage], dict[str, int], int, int]:
        keep = {
            "measurements": problem.n_rows * problem.measured_bytes,
            "rows": problem.rows_bytes,
        }
        return [problem.stage("passes")], keep, min(settings.max_iter, 10), 0

    def _run(self, setup: Setup, settings: _Settings, checkpoint: Checkpoint) -> Fitted:
        data = open_dataset(setup, "passes")
        start = place_centres(setup, settings.init, data, settings.n_init, self.rule)
        result = kernel_k_means(setup, data, start.centres, self.rule, settings.max_iter, settings.tol, checkpoint)
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={settings.max_iter} passes with centres still moving.",
                ConvergenceWarning,
                stacklevel=4,
            )
        model = Model.of(setup.reader, result.centres, self.rule, setup.problem.indexed)
        return Fitted(model, result.history, result.n_iter, result.converged, data)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class APNCKMeans(ApproxKernelKMeans):
    """Kernel k-means in APNC coordinates: rows go to the centre of least l1 distance, centres to the mean.

    Parameters
    ----------
    {common}
    init : {{"sample", "d2", "random"}} or array, default "sample"
        As for `ApproxKernelKMeans`; runs on the sample are compared by their l1 cost.
    n_init : int, default 10
        Seedings tried on the sample (``init="sample"`` and fewer than 512 clusters only).
    max_iter : int, default 100
        The most passes over the data.
    tol : float, default 1e-4
        Stop when the l1 moves of all centres sum to at most this share of the mean l1 distance of a row to its centre.

    Attributes
    ----------
    {attributes}

    Notes
    -----
    Elgohary, Farahat, Kamel and Karray, "Embed and conquer: scalable embeddings for kernel k-means on MapReduce"
    (doi:10.1137/1.9781611973440.49), with the symmetric root in place of the printed one; see `daskkcl.maps.APNC`,
    which also takes the number of coordinates. Any map with explicit coordinates will do in its place; kernel values
    with landmarks are none.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (100, 2)) for k in range(3)])
    >>> daskkcl.APNCKMeans(3, random_state=0).fit(X).cluster_sizes_
    array([100, 100, 100])
    """

    algorithm: ClassVar[str] = "apnc"
    default_map: ClassVar[str] = "apnc"
    rule: ClassVar[Any] = NearestL1()

    nearest: str = field(init=False, default="exact")  # the index goes by squared distances, apnc by l1

    def _settings(self, problem: Problem) -> _Settings:
        from ..kernels.loops import manhattan

        if not problem.recipe.explicit:
            raise InvalidInputError(
                "apnc compares l1 distances of coordinates, and map='landmarks' gives kernel values, which are none; "
                "use map='apnc', or map='nystroem' for coordinates of the same space."
            )
        manhattan(*np.zeros((3, 1, 1), dtype=problem.dtype))  # loaded (or compiled) before the plan is made
        return super()._settings(problem)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SpectralKMeans(ApproxKernelKMeans):
    """Landmark spectral clustering: k-means on the sparse landmark spectral map, for clusters of any shape.

    Every row is described by its few nearest landmarks, and the eigenvectors of the graph that this makes pull
    clusters apart. One pass over the data; all later ones read a few bytes a row.

    Parameters
    ----------
    {common}
    init : {{"sample", "d2", "random"}} or array, default "sample"
        As for `ApproxKernelKMeans`.
    n_init : int, default 10
        Seedings tried on the sample (``init="sample"`` and fewer than 512 clusters only).
    max_iter : int, default 100
        The most passes over the rows' codes.
    tol : float, default 1e-4
        Stop when the squared moves of all centres sum to at most this share of the mean squared distance of a row to
        its centre.
    {nearest}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    See `daskkcl.maps.SparseSpectral` for the map, which also takes the number of neighbours and of coordinates:
    ``SpectralKMeans(10, map=daskkcl.maps.SparseSpectral(n_landmarks=4000))``. Distances are plain ones unless a kernel
    other than the default is given, landmarks are centres of a k-means unless told otherwise, 1,000 of them. In the
    line of Huang et al., "Ultra-scalable spectral clustering and ensemble clustering" (doi:10.1109/TKDE.2019.2903410).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> t = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    >>> rings = np.c_[np.cos(t), np.sin(t)] * np.repeat([1, 3], 300)[:, None]
    >>> daskkcl.SpectralKMeans(2, n_landmarks=100, random_state=0).fit(rings).cluster_sizes_
    array([300, 300])
    """

    algorithm: ClassVar[str] = "spectral"
    default_map: ClassVar[str] = "spectral"

    def _settings(self, problem: Problem) -> _Settings:
        name = problem.recipe.map_.name if isinstance(problem.recipe, Fixed) else problem.recipe.name
        if name != "spectral":
            raise InvalidInputError(
                f"spectral is k-means on the spectral map, and map={name!r} is another: use algo='akkmeans' with it, "
                "or a daskkcl.maps.SparseSpectral here."
            )
        return super()._settings(problem)
