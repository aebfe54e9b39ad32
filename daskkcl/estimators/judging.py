"""Judging partitions without known classes: indices of fitted models, and how stable they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..blocks.sources import Source
from ..errors import InvalidInputError, WrongTypeError
from ..kernels.rows import SparseRows, public_rows
from ..measures import ari
from ..planning import Layout, Stage
from ..progress import Progress
from ..random import Key, as_key
from ..schedules.data import explain_bad_row, gather, usable
from ..schedules.dataset import Dataset
from ..schedules.engine import make_engine
from ..schedules.judging import Group, judge_pass, judging_stages
from ..schedules.measuring import BadRowError
from ..schedules.predict import reading_stage
from ..schedules.setup import plan_stages
from ..schedules.sharing import Shared
from ..schedules.validity import validity_passes
from ..system import return_large_arrays, single_threaded
from .base import KernelClusterer
from .inputs import open_rows
from .validation import as_limit, check_choice, check_integer, check_real

__all__ = ["INDICES", "check_indices", "judge", "stability", "validity"]

_CRISP = ("silhouette", "silhouette_simplified", "davies_bouldin", "calinski_harabasz")
_FUZZY = ("partition_coefficient", "partition_entropy", "xie_beni", "fukuyama_sugeno")
INDICES = (*_CRISP, *_FUZZY)


def validity(
    model: KernelClusterer,
    X: Any,
    *,
    indices: Sequence[str] | None = None,
    n_sample: int = 2000,
    random_state: Any = 0,
    client: Any = None,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    memory_limit: str | int | None = None,
) -> dict[str, float]:
    """Return validity indices of the partition that a model makes of some rows, in two passes over them.

    All distances are those of the model's feature space; centroids are the means of the clusters there.

    Parameters
    ----------
    model : KernelClusterer
        Fitted or loaded.
    X : as for `fit`
    indices : list of str, optional
        Which; all that the model has by default.
    n_sample : int, default 2000
        Rows of the sample for ``"silhouette"``, as many of each cluster; their distances to one another are held.
    random_state : int
        Of the sample.
    client, component, storage_options : as for `fit`
    memory_limit : str or int, optional
        The most memory the process (on a cluster, each worker) may occupy meanwhile; what cannot fit is refused before
        anything is read. Without it: what the process has, and six tenths of what is free.

    Returns
    -------
    dict
        ``silhouette``, estimated from the sample, each cluster counted by its size (exact if the sample has all rows);
        ``silhouette_simplified``, with distances to centroids in place of mean distances to rows, of all rows: both
        between -1 and 1, the more the better; ``davies_bouldin``: the less the better; ``calinski_harabasz``: the more
        the better. NaN for one cluster. Of fuzzy models also ``partition_coefficient``, ``partition_entropy``,
        ``xie_beni`` and ``fukuyama_sugeno``, in a third pass: see `fuzzy_validity`.

    Notes
    -----
    Rousseeuw 1987 (doi:10.1016/0377-0427(87)90125-7) for the silhouette, Hruschka et al. 2006
    (doi:10.1016/j.ins.2005.07.015) for the simplified one; Davies and Bouldin 1979 (doi:10.1109/TPAMI.1979.4766909);
    Caliński and Harabasz 1974 (doi:10.1080/03610927408827101).

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * k, 1, (100, 2)) for k in range(3)])
    >>> found = daskkcl.validity(daskkcl.fit(X, "akkmeans", 3, map="identity", random_state=0), X)
    >>> round(found["silhouette"], 2), round(found["davies_bouldin"], 2)
    (0.86, 0.2)
    """
    if not isinstance(model, KernelClusterer):
        raise WrongTypeError(f"A {type(model).__name__} is no model of daskkcl: validity(model, rows), in this order.")
    check_is_fitted(model)
    source = model._open_new(X, component, storage_options)
    limit = as_limit(memory_limit)
    return judge([model], source, indices, n_sample, as_key(random_state), client, memory_limit=limit)[0]


def judge(
    models: Sequence[Any],
    source: Source,
    indices: Sequence[str] | None,
    n_sample: int,
    key: Key,
    client: Any = None,
    memory_limit: int | None = None,
    shared: Shared | None = None,
) -> list[dict[str, float]]:
    """Return the indices of several models on the same rows, which are read together.

    With `shared`, the measurements that the models were fitted to are read in place of the rows.
    """
    wanted = check_indices(indices, all(model.fuzzy for model in models), models[0].algorithm)
    n_sample = check_integer("n_sample", n_sample, 2)
    read: Any = source if shared is None else shared.read
    groups = _groups(models) if shared is None else _measured_groups(models, shared)
    engine = make_engine(client, Progress(False))
    stages = judging_stages(read, groups, n_sample, "silhouette" in wanted)
    layout = plan_stages(engine, stages, source.n_rows, memory_limit).layout("judging")
    if memory_limit is not None and engine.local:
        return_large_arrays()
    data = Dataset(engine, read, layout)
    rows_of = None if shared is None else source
    with single_threaded():
        try:
            found: list[dict[str, float]] = [{} for _ in models]
            more = found
            crisp = [name for name in wanted if name in _CRISP]
            if crisp:
                found = judge_pass(data, groups, n_sample, key.child("judged"), crisp, rows_of)
            if len(crisp) < len(wanted):
                more = validity_passes(data, groups)
        except BadRowError as error:
            raise explain_bad_row(engine, read, layout, error) from None
    every = ({**scores, **others} for scores, others in zip(found, more, strict=True))
    return [{name: scores[name] for name in wanted} for scores in every]


def check_indices(indices: Iterable[str] | None, fuzzy: bool, algorithm: str) -> list[str]:
    """Return the names of the indices to find, or say which there are."""
    if indices is None:
        return [*_CRISP, *(_FUZZY if fuzzy else ())]
    if isinstance(indices, str) or not isinstance(indices, Iterable):
        raise InvalidInputError(f"indices={indices!r} is no list of names; there are {', '.join(INDICES)}.")
    wanted = [check_choice("indices", name, INDICES) for name in indices]
    for name in wanted:
        if name in _FUZZY and not fuzzy:
            raise InvalidInputError(f"{name} is an index of memberships, and {algorithm} has none.")
    return wanted


def _groups(models: Sequence[Any]) -> list[Group]:
    """Put models together that have the same map, so that it is applied once."""
    groups: list[list[int]] = []
    for number, model in enumerate(models):
        for members in groups:
            if _same(models[members[0]]._model.reader, model._model.reader):
                members.append(number)
                break
        else:
            groups.append([number])
    return [
        Group(models[members[0]]._model.reader, tuple(members), tuple(models[k]._model for k in members))
        for members in groups
    ]


def _measured_groups(models: Sequence[Any], shared: Shared) -> list[Group]:
    """Put models together that read the same measurements through the same map."""
    groups: dict[int, list[int]] = {}
    for number, model in enumerate(models):
        groups.setdefault(id(shared.maps[model.n_clusters_][0]), []).append(number)
    found = []
    for members in groups.values():
        first = models[members[0]]
        reader = shared.reader(first.n_clusters_)
        own = tuple(replace(models[k]._model, reader=reader) for k in members)
        found.append(Group(reader, tuple(members), own, first._model.reader.map_))
    return found


def _same(one: Any, other: Any) -> bool:
    a, b = one.map_, other.map_
    if a is b:
        return one.tile_rows == other.tile_rows and one.nan == other.nan
    if (a.name, a.dtype, one.tile_rows, one.nan) != (b.name, b.dtype, other.tile_rows, other.nan):
        return False
    if a.name == "identity":
        return np.array_equal(a.origin, b.origin)
    if a.name != "landmarks" or a.kernel != b.kernel:
        return False
    return not isinstance(a.landmarks, SparseRows) and np.array_equal(a.landmarks, b.landmarks)


def stability(
    model: KernelClusterer,
    X: Any,
    *,
    n_resamples: int = 10,
    n_rows: int = 5000,
    share: float = 0.5,
    random_state: Any = 0,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    feature_dim: str | None = None,
) -> dict[str, float]:
    """Return how much partitions agree that the same estimator makes of different samples of the rows.

    A pool of rows is drawn at random; the estimator is fitted to shares of it, drawn again and again, and each fit
    labels the whole pool. Labels that are no accident of the sample agree.

    Parameters
    ----------
    model : KernelClusterer
        Fitted or not: its parameters count. Its `memory_limit` holds here too: the pool is planned, then every fit.
    X : as for `fit`
    n_resamples : int, default 10
    n_rows : int, default 5000
        Rows of the pool, which is held in memory.
    share : float, default 0.5
        Share of the pool that each fit has.
    random_state : int
    component, storage_options, feature_dim : as for `fit`

    Returns
    -------
    dict
        ``stability``, the mean adjusted Rand index of all pairs of labellings: 1 if all agree, about 0 if they have
        nothing in common; ``stability_std``, the standard deviation over pairs.

    Notes
    -----
    In the line of Ben-Hur, Elisseeff and Guyon 2002 (doi:10.1142/9789812799623_0002), with labels of all rows of the
    pool in place of those that two samples have in common. A stable number of clusters may still be too small.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * k, 1, (100, 2)) for k in range(3)])
    >>> daskkcl.stability(daskkcl.ApproxKernelKMeans(3, random_state=0), X, n_resamples=3)["stability"]
    1.0
    """
    n_resamples = check_integer("n_resamples", n_resamples, 2)
    n_rows, share = check_integer("n_rows", n_rows, 2), check_real("share", share, 0, 1)
    fresh, key = clone(model), as_key(random_state).child("stability")
    source = open_rows(fresh, X, component, storage_options, True, feature_dim)
    engine = make_engine(None, Progress(False))
    layout = _pool_layout(engine, source, min(n_rows, source.n_rows), as_limit(fresh.memory_limit))
    numbers = np.sort(key.child("pool").rows(source.n_rows, 0, min(n_rows, source.n_rows)))
    with single_threaded():
        numbers = numbers[usable(engine, source, numbers, layout)]
        pool = public_rows(gather(engine, source, numbers, layout))
    size = max(1, round(share * pool.shape[0]))
    labels, seeds = [], key.child("seeds").uniform(np.arange(n_resamples))
    for k in range(n_resamples):
        chosen = np.sort(key.child("resample", k).rows(pool.shape[0], 0, size))
        one = clone(fresh).set_params(random_state=int(2**31 * seeds[k]), progress=False)
        labels.append(np.asarray(one.fit(pool[chosen]).predict(pool)))
    agreement = [ari(a, b) for a, b in combinations(labels, 2)]
    return {"stability": float(np.mean(agreement)), "stability_std": float(np.std(agreement))}


def _pool_layout(engine: Any, source: Source, n_rows: int, memory_limit: int | None) -> Layout:
    """Return how a pool of so many rows is read and held, or refuse."""
    remedy = "draw a smaller pool (n_rows)"
    pool = Stage("pool", row_bytes=0, fixed_bytes=4 * n_rows * (source.mean_bytes + 8), remedy=remedy)
    drawing = reading_stage("sampling", source, 1, 0, fixed_bytes=2 * n_rows * (source.mean_bytes + 8), remedy=remedy)
    return plan_stages(engine, [pool, drawing], source.n_rows, memory_limit).layout("sampling")
