"""The papers' data sets, scaled as they say or as comes nearest, from a folder of ``.npz`` files or generated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DataMissing", "Sets", "mean_squared_distance"]

_KEPT = 2  # sets in memory at a time
_WORDS = 2000


class DataMissing(FileNotFoundError):
    """A file is not in the data folder."""


class Sets:
    """Loads sets by name and keeps the last ones; also what was computed from the last one.

    Parameters
    ----------
    folder : path
        Where the ``.npz`` files are.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._made: tuple[Any, Any] = (None, None)

    def load(self, name: str) -> tuple[Any, Any]:
        """Return rows and classes."""
        if name not in self._kept:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._made = (None, None)
            self._kept[name] = PREPARED[name](self)
        return self._kept[name]

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, or returned when it was last asked for with this key."""
        if self._made[0] != key:
            self._made = (None, None)  # before the next is made: both may not fit
            self._made = (key, make())
        return self._made[1]

    def read(self, file: str) -> Any:
        """Return the arrays of a file of the folder."""
        path = self.folder / f"{file}.npz"
        if not path.exists():
            raise DataMissing(f"{file}.npz is not in the data folder {self.folder}")
        return path

    def rows(self, file: str) -> tuple[Any, Any]:
        """Return rows in float32 and classes, as stored."""
        with np.load(self.read(file)) as stored:
            return stored["X"].astype(np.float32), stored["y"]


def mean_squared_distance(X: Any, n_rows: int = 2000) -> float:
    """Return the mean squared distance of two rows, from a sample."""
    rows = np.random.default_rng(0).permutation(X.shape[0])[:n_rows]
    sample = X[rows]
    sample = np.asarray(sample.todense() if hasattr(sample, "todense") else sample, dtype=np.float64)
    n = len(sample)
    return float(2 * sample.var(axis=0).sum() * n / (n - 1))


def _z_scored(file: str) -> Callable[[Sets], tuple[Any, Any]]:
    def make(sets: Sets) -> tuple[Any, Any]:
        X, y = sets.rows(file)
        spread = X.std(axis=0)
        return ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32), y

    return make


def _min_max(file: str) -> Callable[[Sets], tuple[Any, Any]]:
    def make(sets: Sets) -> tuple[Any, Any]:
        X, y = sets.rows(file)
        low, high = X.min(axis=0), X.max(axis=0)
        return (X - low) / np.where(high > low, high - low, 1), y

    return make


def _divided(file: str, by: float) -> Callable[[Sets], tuple[Any, Any]]:
    def make(sets: Sets) -> tuple[Any, Any]:
        X, y = sets.rows(file)
        X /= np.float32(by)
        return X, y

    return make


def _sample(name: str, n_rows: int) -> Callable[[Sets], tuple[Any, Any]]:
    def make(sets: Sets) -> tuple[Any, Any]:
        X, y = sets.load(name)
        chosen = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:n_rows])
        return X[chosen], y[chosen]

    return make


def _unit(name: str) -> Callable[[Sets], tuple[Any, Any]]:
    def make(sets: Sets) -> tuple[Any, Any]:
        X, y = sets.load(name)
        return X / np.linalg.norm(X, axis=1, keepdims=True), y

    return make


def _usps(sets: Sets) -> tuple[Any, Any]:
    X, y = sets.rows("usps")
    return 2 * X - 1, y  # pixels as they were published: in [-1, 1]


def _usps_4_9(sets: Sets) -> tuple[Any, Any]:
    X, y = sets.load("usps")
    chosen = np.isin(y, (4, 9))
    return X[chosen], y[chosen]


def _pendigits_test(sets: Sets) -> tuple[Any, Any]:
    X, y = sets.rows("pendigits")
    return X[-3498:], y[-3498:]


def _newsgroups(sets: Sets) -> tuple[Any, Any]:
    """Return tf-idf of the 2,000 words that say most about the group, rows of length one, empty documents left out."""
    import scipy.sparse

    counts = scipy.sparse.load_npz(sets.read("20news_counts_csr")).astype(np.float64)
    with np.load(sets.read("20news_labels")) as stored:
        y = stored["y"]
    groups = scipy.sparse.csr_matrix((np.ones(len(y)), (y, np.arange(len(y)))))
    joint = np.asarray((groups @ counts).todense())
    joint /= joint.sum()
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(joint > 0, joint * np.log(joint / expected), 0).sum(axis=0)
    words = np.sort(np.argsort(information)[::-1][:_WORDS])
    chosen = scipy.sparse.csr_matrix(counts[:, words])
    filled = np.asarray(chosen.sum(axis=1)).ravel() > 0
    chosen, y = chosen[filled], y[filled]
    documents = np.asarray((chosen > 0).sum(axis=0)).ravel()
    weighted = chosen @ scipy.sparse.diags(np.log(chosen.shape[0] / np.maximum(documents, 1)))
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    weighted = scipy.sparse.diags(1 / np.where(lengths > 0, lengths, 1)) @ weighted
    return np.asarray(weighted.todense(), dtype=np.float32), y


def _digits(sets: Sets) -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


def _blobs(sets: Sets) -> tuple[Any, Any]:
    """Return a small set for trials: three Gaussians, eight standard deviations apart."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 60)
    return (rng.normal(size=(180, 4)) + 8 * np.eye(4)[y]).astype(np.float32), y


#: name: what makes it
PREPARED: dict[str, Callable[[Sets], tuple[Any, Any]]] = {
    "seeds": _z_scored("seeds"),
    "wine": _z_scored("wine"),
    "wdbc": _z_scored("wdbc"),
    **{f"{name}, min-max": _min_max(name) for name in ("seeds", "wine", "wdbc")},
    **{f"{name}, as it is": _divided(name, 1) for name in ("seeds", "wine", "wdbc")},
    "mfeat": _divided("mfeat", 1),
    "mfeat, z-scored": _z_scored("mfeat"),
    "usps": _usps,
    "usps 4 and 9": _usps_4_9,
    "pendigits, test part": _pendigits_test,
    "pendigits": _divided("pendigits", 100),
    "a3": _z_scored("sipu_a3"),
    "birch1": _z_scored("sipu_birch1"),
    "mnist": _divided("mnist", 255),
    "mnist, unit rows": _unit("mnist"),
    "mnist, unit rows, 10,000 rows": _sample("mnist, unit rows", 10_000),
    "mnist, 5,000 rows": _sample("mnist", 5000),
    "mnist, 10,000 rows": _sample("mnist", 10_000),
    "fashion": _divided("fashion_mnist", 255),
    "fashion, 10,000 rows": _sample("fashion", 10_000),
    "covtype": _z_scored("covtype"),
    "covtype, 20,000 rows": _sample("covtype", 20_000),
    "covtype, 10,000 rows": _sample("covtype", 10_000),
    "newsgroups": _newsgroups,
    "digits": _digits,
    "blobs": _blobs,
}
