"""The front door: `fit`, `plan`, `load`, `algorithms`, `fuzzy_validity`, `write_obs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import InvalidInputError

if TYPE_CHECKING:
    from .capacity import Forecast, Rates
    from .estimators.base import KernelClusterer

__all__ = ["algorithms", "fit", "fuzzy_validity", "load", "plan", "write_obs"]


def algorithms() -> dict[str, type[KernelClusterer]]:
    """Return the algorithms by name: ``{"okfcm": OnlineKFCM, ...}``.

    Examples
    --------
    >>> import daskkcl
    >>> sorted(daskkcl.algorithms())
    ['akcl', 'akkmeans', 'apnc', 'cccl', 'core', 'cpcl', 'dsrpcl', 'fastkscl', 'fcm', 'kcl', 'kcpcl', 'kfcm', 'kkmeans',
     'lcpcl', 'okfcm', 'pakcl', 'rpccl', 'rpcl', 'rsekfcm', 'skkmeans', 'spectral', 'spkfcm']
    """
    from .estimators import ALGORITHMS

    return dict(ALGORITHMS)


class _Default(str):
    """A default that can be told from the same word given by the user: maps have their own."""

    __slots__ = ()


def fit(
    data: Any,
    algo: str = "okfcm",
    n_clusters: int | str = "auto",
    *,
    kernel: Any = _Default("rbf"),  # noqa: B008
    gamma: Any = "auto",
    map: Any = None,
    landmarks: Any = _Default("uniform"),  # noqa: B008
    n_landmarks: int | None = None,
    scale: str | None = None,
    memory_limit: str | int | None = None,
    dtype: Any = None,
    random_state: Any = None,
    init: Any = None,
    nan: str = "raise",
    missing: str = "warn",
    sample_weight: Any = None,
    out: Any = None,
    overwrite: bool = False,
    scratch: Any = None,
    checkpoint: Any = None,
    progress: Any = None,
    client: Any = None,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    feature_dim: str | None = None,
    **algorithm_parameters: Any,
) -> KernelClusterer:
    """Cluster rows that need not fit in memory.

    Parameters
    ----------
    data : path, URL, zarr.Array, zarr.Group, dask array, xarray.DataArray or Dataset, scipy sparse or array-like
        A table of rows and features: a Zarr array (format 2 or 3) by path or URL, a group with `component`, an array,
        or a DataArray of any dimensions with `feature_dim`.
    algo : str
        One of `algorithms`: ``"okfcm"`` (fuzzy, one pass), ``"spkfcm"`` (fuzzy, chunk after chunk), ``"rsekfcm"``
        (fuzzy, from a sample), ``"fcm"`` (fuzzy in input space, several passes), ``"kfcm"`` (fuzzy, the kernel matrix
        in memory), ``"pakcl"`` (balanced clusters, about one pass), ``"akkmeans"`` (kernel k-means, several passes),
        ``"spectral"`` (clusters of any shape, one pass), ``"lcpcl"`` (finds the number of clusters), and so on.
    n_clusters : int or "auto"
        ``"auto"`` finds the number in a sample, and warns where it is unclear. Algorithms that find the number from
        `n_seeds` do not take it.
    kernel, gamma
        A name from `daskkcl.kernels`, a kernel or a function; the width, from a sample by default. ``degree``,
        ``coef0`` and ``levels`` go to the kernel.
    map : str or a map of `daskkcl.maps`, optional
        What rows are turned into: kernel values with ``"landmarks"`` by default (but for ``"fcm"``), ``"identity"``
        for input space, ``"spectral"`` for clusters of any shape; the others are listed in `daskkcl.maps`.
    landmarks, n_landmarks
        ``"uniform"``, ``"kmeans"``, ``"leverage"`` or rows; how many.
    scale : {"standard", "minmax", "unit"}, optional
        Scale features as they are read: to mean 0 and variance 1, to [0, 1], or every row to length 1.
    memory_limit : str or int, optional
        The most memory the whole process (each worker, on a cluster) may occupy, such as ``"512MiB"``. A run that
        cannot keep to it is refused before any data are read.
    dtype : {"float32", "float64"}, optional
        Precision of blocks.
    random_state : int, optional
        The same seed gives the same labels whatever the chunks, threads or workers.
    init
        Where centres begin: a name, row numbers, a label for every row, or centre rows.
    nan : {"raise", "drop"}
        Rows with NaN or infinity: an error, or label -1.
    missing : {"warn", "raise", "fill"}
        Absent chunks of a Zarr array.
    sample_weight : array-like, optional
        A weight for every row, for the fuzzy algorithms.
    out : path or URL, optional
        Write labels (and memberships) there as Zarr.
    overwrite : bool
        Replace an existing `out`.
    scratch : path, optional
        Folder for temporary files.
    checkpoint : path or URL, optional
        Keep the state between rounds; the same call takes up where it stopped.
    progress : bool or callable, optional
        A bar in terminals and notebooks by default.
    client : distributed.Client, optional
        The active client by default, else threads of this process.
    component : str, optional
        The array inside a Zarr group.
    storage_options : dict, optional
        For URLs.
    feature_dim : str, optional
        The dimension of a DataArray that is that of the features, if it has more than two; the others become rows, and
        answers come back on them. Variables of a Dataset are features.
    **algorithm_parameters
        Parameters of the algorithm's class, such as ``fuzzifier`` or ``max_iter``.

    Returns
    -------
    model : KernelClusterer
        Fitted: ``labels_``, ``cluster_sizes_``, ``predict``, ``save`` and so on.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(6 * k, 1, (50, 3)) for k in range(4)])
    >>> model = daskkcl.fit(X, algo="akkmeans", random_state=0)
    >>> model.n_clusters_, model.labels_.shape
    (4, (200,))
    """
    from .estimators.making import make_estimator

    common = {
        "n_clusters": n_clusters,
        "kernel": None if isinstance(kernel, _Default) else kernel,
        "gamma": gamma,
        "map": map,
        "landmarks": None if isinstance(landmarks, _Default) else landmarks,
        "n_landmarks": n_landmarks,
        "init": init,
        "scale": scale,
        "memory_limit": memory_limit,
        "dtype": dtype,
        "random_state": random_state,
        "nan": nan,
        "missing": missing,
        "scratch": scratch,
        "progress": progress,
    }
    estimator = make_estimator(algo, common, algorithm_parameters)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    if weights and not estimator.fuzzy:
        raise InvalidInputError(f"{algo} takes no sample_weight; the fuzzy algorithms do.")
    return estimator.fit(
        data,
        **weights,
        out=out,
        overwrite=overwrite,
        checkpoint=checkpoint,
        client=client,
        component=component,
        storage_options=storage_options,
        feature_dim=feature_dim,
    )


def plan(
    data: Any = None,
    algo: str = "okfcm",
    n_clusters: int | str = "auto",
    *,
    n_rows: int | None = None,
    n_features: int | None = None,
    stored: Any = "float32",
    chunk_rows: int | None = None,
    row_entries: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    memory_limit: str | int | None = None,
    bandwidth: str | int | None = None,
    rates: Rates | dict[str, float] | None = None,
    passes: float | None = None,
    writes: bool = False,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    **parameters: Any,
) -> Forecast:
    """Say what a run would take, without running it: time, memory and traffic, stage by stage.

    Memory is that of the very plan that `fit` makes. Time comes from it and from what this machine does in a second,
    measured on the spot in less than two seconds, or given.

    Parameters
    ----------
    data : as for `fit`, optional
        Only its shape is read. Or say `n_rows` and `n_features` of a table that need not exist.
    algo, n_clusters : as for `fit`
    n_rows, n_features : int, optional
        In place of `data`.
    stored : dtype
        What the values of such a table are stored as.
    chunk_rows : int, optional
        Rows of its chunks; about eight mebibytes by default.
    row_entries : int, optional
        Stored values of a row, if the table is sparse.
    workers : int, optional
        Dask workers; none by default: this process.
    threads : int, optional
        Of the process, or of each worker; as many as there are cores here by default.
    memory_limit : str or int, optional
        Of the process, or of each worker.
    bandwidth : str or int, optional
        Bytes a second that the store delivers to all readers together, such as ``"2GB"``. By default the store is as
        fast as decoding.
    rates : Rates or dict, optional
        What one thread does in a second (`daskkcl.capacity.Rates`); measured here by default.
    passes : float, optional
        Passes over the data to reckon with, for algorithms that go on until they rest.
    writes : bool
        Whether memberships are written (``out=``).
    component, storage_options : as for `fit`
    **parameters
        All others of `fit`.

    Returns
    -------
    Forecast
        Print it, look at it in a notebook, or take ``.to_dict()``.

    Examples
    --------
    >>> import daskkcl
    >>> costs = daskkcl.plan(n_rows=4_000_000, n_features=64, algo="akkmeans", n_clusters=10, memory_limit="4GiB")
    >>> costs.peak_bytes <= 2**32, [stage.name for stage in costs.stages]
    (True, ['sampling', 'preparing', 'passes', 'labelling'])
    """
    from .capacity import forecast_run
    from .capacity.asking import as_rates, check_count, open_shape
    from .estimators.making import make_estimator
    from .system import parse_bytes

    source = open_shape(data, n_rows, n_features, stored, chunk_rows, row_entries, component, storage_options)
    common = {"n_clusters": n_clusters, "memory_limit": memory_limit}
    return forecast_run(
        make_estimator(algo, common, parameters),
        source,
        workers=check_count("workers", workers),
        threads=check_count("threads", threads),
        bandwidth=None if bandwidth is None else float(parse_bytes(bandwidth)),
        rates=as_rates(rates),
        passes=passes,
        writes=writes,
    )


def load(path: Any, *, kernel: Any = None, storage_options: dict[str, Any] | None = None) -> KernelClusterer:
    """Open a model that ``model.save(path)`` wrote.

    Nothing in a model is executed: it is a Zarr group of numbers and names, each checked before it is used.

    Parameters
    ----------
    path : path or URL
    kernel : Kernel or callable, optional
        For a model whose kernel is a function: that function, which is not saved.
    storage_options : dict, optional
        For URLs.

    Examples
    --------
    >>> import tempfile, numpy as np, daskkcl
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = daskkcl.fit(X, "akkmeans", n_clusters=3, random_state=0)
    >>> path = tempfile.mkdtemp() + "/model.zarr"
    >>> model.save(path)
    >>> bool((daskkcl.load(path).predict(X) == model.labels_).all())
    True
    """
    from .estimators.persistence import load_model

    return load_model(path, algorithms(), kernel, storage_options)


def fuzzy_validity(
    model: KernelClusterer,
    X: Any,
    sample_weight: Any = None,
    *,
    client: Any = None,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> dict[str, float]:
    """Return validity indices of the fuzzy partition that a model makes of some rows, in one pass over them.

    All distances are those of feature space.

    Parameters
    ----------
    model : FCM, KFCM, RandomSampleKFCM, SinglePassKFCM or OnlineKFCM
        Fitted or loaded.
    X : as for `fit`
    sample_weight : array-like of shape (n_rows,), optional
    client, component, storage_options : as for `fit`

    Returns
    -------
    dict
        ``partition_coefficient``, the mean of ``sum_j u_ij^2``, and ``partition_entropy``, that of
        ``-sum_j u_ij ln u_ij``, each also normalised to [0, 1] (``..._normalised``; NaN for one cluster);
        ``xie_beni``, J divided by the weight of all rows and the least squared distance of two centres: the less the
        better; ``fukuyama_sugeno``, J minus the squared distances of the centres from the mean of all rows, weighted
        by the masses of the centres: the less the better; ``objective``, J itself.

    Notes
    -----
    Xie and Beni 1991 (doi:10.1109/34.85677) with ``u^m``; Pal and Bezdek 1995 (doi:10.1109/91.413225) for the rest.

    Examples
    --------
    >>> import numpy as np, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * k, 1, (100, 2)) for k in range(3)])
    >>> scores = {c: daskkcl.fuzzy_validity(daskkcl.FCM(c, random_state=0).fit(X), X)["xie_beni"] for c in (2, 3, 4)}
    >>> min(scores, key=scores.get)
    3
    """
    if not getattr(model, "fuzzy", False):
        raise InvalidInputError(f"{type(model).__name__} has no memberships; pass a fitted model of a fuzzy algorithm.")
    return model.validity(X, sample_weight, client=client, component=component, storage_options=storage_options)


def write_obs(
    path: Any,
    labels: Any,
    key: str = "cluster",
    *,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write labels into an AnnData in Zarr, as a categorical column of its ``obs``.

    Categories are ``"0"``, ``"1"``, ...; rows that were left out (-1) have none. Labels that are lazy are computed and
    written chunk by chunk. The table names the column only when it is complete.

    Parameters
    ----------
    path : path, URL or zarr.Group
        The AnnData; one that is open for writing.
    labels : fitted model or array of shape (n_obs,)
        A model that was fitted to the rows of the AnnData, or labels: numpy or dask, whole numbers from -1.
    key : str
        The name of the column.
    overwrite : bool
        Replace a column that is there.
    storage_options : dict, optional
        For URLs.

    Examples
    --------
    >>> import numpy as np, zarr, daskkcl
    >>> table = zarr.create_group({})
    >>> obs = table.create_group(
    ...     "obs",
    ...     attributes={
    ...         "encoding-type": "dataframe",
    ...         "encoding-version": "0.2.0",
    ...         "_index": "_index",
    ...         "column-order": [],
    ...     },
    ... )
    >>> _ = obs.create_array("_index", data=np.arange(4))
    >>> daskkcl.write_obs(table, np.array([0, 1, 1, -1]))
    >>> table["obs/cluster/codes"][:], table["obs"].attrs["column-order"]
    (array([ 0,  1,  1, -1], dtype=int8), ['cluster'])
    """
    from .estimators.obs import write_labels

    write_labels(path, labels, key, overwrite, storage_options)
