"""Documentation that all estimators share."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields
from typing import Any

__all__ = ["documented"]

COMMON_PARAMETERS = """\
n_clusters : int or "auto", default 8
    The number of clusters; ``"auto"`` finds it (up to 64) in the neighbour graph of a sample: its spectrum proposes,
    its cuts decide. Where that is unclear, a warning says so and names the other candidates.
kernel : str, Kernel or callable, optional
    A name from `daskkcl.kernels`, a kernel, or a function of two tables that returns their kernel matrix. ``"rbf"``
    by default; the spectral map takes plain distances, TensorSketch the polynomial kernel.
gamma : float or {"auto", "scale", "median"}, default "auto"
    Width of the kernel; ``"auto"`` is ``1 / (2 mean squared distance)`` over a sample.
kernel_params : dict, optional
    Further parameters of a named kernel, such as ``{"degree": 5}``.
map : str or a map of `daskkcl.maps`, optional
    What rows are turned into: kernel values with ``"landmarks"`` by default; ``"identity"`` for input space, which
    takes no kernel, width or landmarks; ``"nystroem"``, ``"apnc"``, ``"rff"``, ``"svrff"``, ``"randpoly"``,
    ``"nyncut"``, ``"spectral"``; or a map with parameters of its own, fitted or not.
landmarks : {"uniform", "kmeans", "leverage"} or array, optional
    How landmarks are drawn, or their rows: ``"uniform"`` by default, ``"kmeans"`` for the spectral map.
n_landmarks : int, optional
    500 by default (spectral map: up to 1,000), fewer if there are fewer rows; of maps without landmarks, the number of
    random features."""

COMMON_PARAMETERS_AFTER = """\
scale : {"standard", "minmax", "unit"}, optional
    Scale features as they are read: to mean 0 and variance 1, to [0, 1], or every row to length 1. What all rows have
    to be looked at for is found in the pass that draws the sample, and kept with the model. Sparse rows stay sparse:
    ``"standard"`` does not centre them, ``"minmax"`` is refused. `landmarks` and `init` are given in units of the data.
memory_limit : str or int, optional
    The most memory the process may occupy, such as ``"512MiB"``. On a cluster: each worker; and what a run adds to this
    process, where samples, maps and exact kernel matrices are made.
dtype : {"float32", "float64"}, optional
    Precision of blocks; float32 unless the data are float64 and small. Sums are float64 always.
random_state : int, Generator or None
    Seed; the same seed gives the same labels whatever the chunks, threads or workers.
nan : {"raise", "drop"}, default "raise"
    What to do with rows that have a NaN or infinity; dropped ones are labelled -1.
missing : {"warn", "raise", "fill"}, default "warn"
    What to do about absent chunks of a Zarr array.
scratch : path, optional
    Folder for temporary files; shared by all workers on a cluster of several machines.
progress : bool or callable, optional
    A bar in terminals and notebooks by default; a callable gets ``(stage, done, total, info)``."""

COMMON_ATTRIBUTES = """\
labels_ : array of shape (n_rows,)
    Cluster of every row, the largest cluster first, -1 for dropped rows. Lazy for lazy data.
cluster_sizes_ : ndarray of shape (n_clusters,)
n_clusters_ : int
n_iter_ : int
history_ : list of float
    What the algorithm watches, round by round.
objective_ : float
    What the algorithm minimises, over all rows: squared distances to the centres that won, or J of fuzzy c-means.
plan_ : Plan
    Blocks, threads, and the memory they take.
scaler_ : Scaler or None
    With `scale`: rows are taken as ``(x - scaler_.shift) * scaler_.factor``.
fit_seconds_ : float
peak_bytes_ : int
    The most memory that this process had occupied when the fit ended.
gamma_ : float or None
n_clusters_evidence_ : dict
    What is behind ``n_clusters="auto"``, as numbers and arrays to look at or draw (empty for a given number):
    ``eigenvalues``, ``gaps``, ``ratios`` and ``expected_ratios`` of the graph; ``candidates`` with ``separations``,
    ``valleys`` and ``scores``; ``taken``, ``clear``, ``runners_up``; ``first`` and ``parts``, if clusters came apart
    further; ``rows`` and ``n_neighbors`` of the graph."""


NEAREST_PARAMETER = """\
nearest : {"auto", "exact", "index"}, default "auto"
    How the centre of a row is found: ``"exact"`` compares it with all, ``"index"`` with those that an approximate index
    finds near it (``pip install 'daskkcl[index]'``). ``"auto"`` takes the index where it is faster, if it is installed:
    from about 1,100 clusters on with 500 landmarks, 5,500 with 64 features."""


FUZZY_PARAMETERS = """\
fuzzifier : float or "auto", default "auto"
    The exponent m > 1 of the memberships. ``"auto"`` is 1.7, or half-way from 1 to the bound above which all
    memberships become equal (1 / (1 - 2 lambda), lambda from the centred kernel matrix of the sample).
tol : float, default 1e-3
    A run ends when no membership changes, squared, by more.
max_iter : int, default 100
    The most iterations of a run."""

FUZZY_ATTRIBUTES = """\
membership_ : array of shape (n_rows, n_clusters)
    Memberships, rows summing to 1. Lazy for lazy data.
prototypes_ : ndarray of shape (n_clusters,)
    The row (of positive weight) nearest to each centre, by number.
prototype_rows_ : ndarray (or scipy array, of sparse rows) of shape (n_clusters, n_features)
    Those rows.
fuzzifier_ : float
fuzzifier_bound_ : float
    Above it memberships tend to be equal; infinite for data that never collapse."""


COMPETITIVE_PARAMETERS = """\
init : {"random-labels", "random-labels-all", "sample", "d2", "random"} or array, optional
    Random labels for the rows of a uniform sample (or for all rows), their means as centres and their counts as first
    wins; a k-means of the sample; greedy D² seeds of it; random rows. Or row numbers, a label for every row, or centre
    rows. By default ``"sample"`` for PAKCL, else ``"random-labels"``. KCL labels all rows at random anyway, and knows
    ``"random-labels"``, ``"d2"`` and ``"random"``.
max_epochs : int or "auto", default "auto"
    Passes over the rows; ``"auto"`` gives at least 400 updates by subsets, or 60,000 by single rows, in at most 100
    passes. That is one pass on large data.
rate_start, rate_end : float, optional
    Learning rate at the beginning and the end; it falls geometrically over all epochs. By default 1 and 1e-5 row by
    row, as published, and 0.2 and 0.01 subset by subset.
tol : float, default 1e-4
    Stop after an epoch over which the squared moves of all centres sum to less.
labels : {"frequency", "nearest"}, default "frequency"
    Label rows by the frequency-weighted winner, as published, or by the nearest centre.
order : array of shape (n_rows,), optional
    The order in which rows are met in every epoch, for comparisons: each row number once. A new random order for each
    epoch by default.
preset : {"paper"}, optional
    ``"paper"`` takes what is left open as it was published: 100 epochs, subsets of 1,000 rows, learning rates from 1 to
    1e-5, random labels for all rows at the start."""


SEED_PARAMETERS = """\
n_seeds : int, default 10
    Seeds to begin with: more than there are clusters.
{common}
init : {"first", "d2", "sample"} or array, default "first"
    The first rows of the random order, as published; greedy D² seeds of a sample; a k-means of it (KernelCPCL has no
    sample, and takes seeds among all rows). Or row numbers, or centre rows, or a label for every row.
eta : float, default {eta}
    Learning rate of the winner.
tol : float, default {tol}
    Stop after an epoch over which the squared moves of all seeds sum to at most this share of the total variance.
merge_tol : float, default 0.05
    Seeds at most this share of the root of the total variance apart are one cluster, and so are chains of them.
max_epochs : int, default {max_epochs}
    The most passes over the rows; each has the same random order.
order : array of shape (n_rows,), optional
    The order in which rows are met, for comparisons: each row number once.
record : bool, default False
    Keep the path of the seeds."""

BLOBS = """\
>>> import numpy as np, daskkcl
>>> rng = np.random.default_rng(0)
>>> X = np.concatenate([rng.normal(m, 1, (100, 2)) for m in ([0, 0], [0, 8], [8, 8])])"""

SEED_ATTRIBUTES = """\
win_counts_ : ndarray of shape (n_clusters,)
    How often the seeds of each cluster have won.
seed_path_ : ndarray of shape (n_iter + 1, n_seeds, q)
    With ``record=True``: where the seeds were before the first epoch and after each, in input space or in coordinates
    of the landmarks' span."""


def documented(cls: type[Any]) -> type[Any]:
    """Fill the common parameters and attributes into a class's docstring, as far as the class has them."""
    names = {field.name for field in fields(cls) if field.init}
    text = textwrap.dedent("    " + (cls.__doc__ or ""))
    if "{seeds}" in text:
        own = {field.name: f"{field.default:g}" for field in fields(cls) if field.name in ("eta", "tol", "max_epochs")}
        for name, value in own.items():
            text = text.replace("{seeds}", SEED_PARAMETERS).replace(f"{{{name}}}", value)
    text = text.replace("{seed_attributes}", "{attributes}\n" + SEED_ATTRIBUTES).replace("{blobs}", BLOBS)
    text = text.replace("{common}", _entries(COMMON_PARAMETERS, names)).replace("{attributes}", COMMON_ATTRIBUTES)
    text = text.replace("{competitive}", COMPETITIVE_PARAMETERS).replace("{nearest}", NEAREST_PARAMETER)
    text = text.replace("{fuzzy}", FUZZY_PARAMETERS).replace("{fuzzy_attributes}", FUZZY_ATTRIBUTES)
    # the rest of the common parameters stand behind the algorithm's own
    text = text.replace("\n\nAttributes\n", f"\n{COMMON_PARAMETERS_AFTER}\n\nAttributes\n", 1)
    cls.__doc__ = text.replace("{{", "{").replace("}}", "}")
    return cls


def _entries(text: str, names: set[str]) -> str:
    """Return the entries of a parameter section that are about some of the names."""
    entries = re.split(r"\n(?=\w)", text)
    return "\n".join(entry for entry in entries if names & set(re.split(r"[ ,]+", entry.split(" : ")[0])))
