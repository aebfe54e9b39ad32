"""Real data with labels, from the optional data folder: ``DASKKCL_DATA``, or ``../shared/data`` beside the checkout."""

import os
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(os.environ.get("DASKKCL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def load(name):
    """Return rows (float32, scaled as the papers do) and labels, or skip the test."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"needs {name}.npz in the optional data folder (set DASKKCL_DATA)")
    with np.load(path) as stored:
        X, y = stored["X"].astype(np.float32), stored["y"]
    if name == "pendigits":
        X /= 100
    elif name == "mnist":
        X /= 255
    elif name.startswith("sipu"):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y


def load_sparse(name, labels):
    """Return a CSR matrix and labels that are stored apart, or skip the test."""
    import scipy.sparse

    for file in (name, labels):
        if not (FOLDER / f"{file}.npz").exists():
            pytest.skip(f"needs {file}.npz in the optional data folder (set DASKKCL_DATA)")
    with np.load(FOLDER / f"{labels}.npz") as stored:
        return scipy.sparse.load_npz(FOLDER / f"{name}.npz"), stored["y"]
