"""The maps, one formula after another: Nystroem, APNC, random features, normalised cut, sparse landmark spectral map.

Randomness is given: frequencies, hashes, the rows that are summed. Eigenvectors are those of dense matrices of all
rows. "APNC paper" is Elgohary, Farahat, Kamel and Karray, "Embed and conquer".
"""

from collections.abc import Sequence

import numpy as np

from .algebra import Array, Labels


def nystroem(K_B: Array, K_hat: Array, rank: int, rcond: float) -> Array:
    """Coordinates of the rows in the leading `rank` eigen-directions of the landmarks' kernel matrix.

    Parameters
    ----------
    K_B : array (n, m)
        Kernel between rows and landmarks.
    K_hat : array (m, m)
        Kernel between landmarks.
    rank : int
        The most directions to keep.
    rcond : float
        Eigenvalues not greater than `rcond` times the largest are dropped.
    """
    values, vectors = np.linalg.eigh(K_hat)
    leading = [j for j in np.argsort(-values) if values[j] > rcond * values.max()][:rank]
    Y = np.zeros((len(K_B), len(leading)))
    for column, j in enumerate(leading):
        Y[:, column] = K_B @ vectors[:, j] / np.sqrt(values[j])
    return Y


def apnc(K_B: Array, K_hat: Array, summed: Sequence[Labels], rcond: float) -> Array:
    """APNC embedding by stable distributions (APNC paper, Algorithm 1 lines 3-13), with the symmetric root.

    Parameters
    ----------
    K_B, K_hat, rcond
        As for `nystroem`.
    summed : list of arrays (t,)
        For each coordinate the t rows of the root that are added up.
    """
    l = len(K_hat)
    H = np.eye(l) - np.ones((l, l)) / l
    values, vectors = np.linalg.eigh(H @ K_hat @ H)
    keep = values > rcond * values.max()  # the null direction of centring goes, and negative ones
    V, root = vectors[:, keep], np.diag(values[keep] ** -0.5)
    # Misprint: line 6 has root @ V.T, whose rows are eigen-directions of very unequal spread.
    E = V @ root @ V.T
    R = np.array([E[rows].sum(axis=0) for rows in summed])
    return np.array([R @ H @ k for k in K_B])


def l1_lloyd(Y: Array, centres: Array, max_iter: int) -> tuple[Labels, Array]:
    """Lloyd's iteration, l1 assignment and *mean* centres (APNC paper, line 14, Eqs. 8, 9); ties to the first."""
    centres = centres.copy()
    labels = np.zeros(len(Y), dtype=np.int64)
    for _ in range(max_iter):
        for i in range(len(Y)):
            labels[i] = np.argmin([np.sum(np.abs(Y[i] - centre)) for centre in centres])
        moved = np.array([Y[labels == k].mean(axis=0) for k in range(len(centres))])
        if np.array_equal(moved, centres):
            break
        centres = moved
    return labels, centres


def random_fourier(X: Array, frequencies: Array) -> Array:
    """Cosines and sines of every row's angles with given frequencies (d, D), over sqrt(D)."""
    D = frequencies.shape[1]
    Y = np.zeros((len(X), 2 * D))
    for i, x in enumerate(X):
        for j in range(D):
            angle = np.sum(x * frequencies[:, j])
            Y[i, j] = np.cos(angle) / np.sqrt(D)
            Y[i, D + j] = np.sin(angle) / np.sqrt(D)
    return Y


def leading_left_singular(Y: Array, k: int) -> Array:
    """Left singular vectors of the k largest singular values (n, k)."""
    U, _, _ = np.linalg.svd(Y, full_matrices=False)
    return U[:, :k]


def tensor_sketch(X: Array, buckets: Labels, signs: Array, size: int, gamma: float, coef0: float) -> Array:
    """TensorSketch of ``(gamma x.y + coef0)^degree``: count sketches, one for each factor, convolved on a circle.

    Parameters
    ----------
    X : array (n, d)
    buckets, signs : arrays (degree, d + 1)
        Where each feature, and the constant at the end, goes in each count sketch, and with which sign.
    size : int
        Length of the sketch.
    """
    Y = np.zeros((len(X), size))
    for i, x in enumerate(X):
        augmented = np.append(np.sqrt(gamma) * x, np.sqrt(coef0))
        product: Array | None = None
        for bucket, sign in zip(buckets, signs):
            sketch = np.zeros(size)
            for value, place, s in zip(augmented, bucket, sign):
                sketch[place] += s * value
            if product is None:
                product = sketch
                continue
            convolved = np.zeros(size)
            for a in range(size):
                for b in range(size):
                    convolved[(a + b) % size] += product[a] * sketch[b]
            product = convolved
        Y[i] = product
    return Y


def normalised_cut(K_B: Array, K_hat: Array, c: int, rcond: float) -> Array:
    """Rows of the top c eigenvectors of the degree-normalised approximate kernel matrix of all rows, of length one.

    Parameters
    ----------
    K_B, K_hat, rcond
        As for `nystroem`; the approximation is ``K_B K_hat^+ K_B^T``.
    """
    values, vectors = np.linalg.eigh(K_hat)
    keep = values > rcond * values.max()
    inverse = vectors[:, keep] @ np.diag(1 / values[keep]) @ vectors[:, keep].T
    K = K_B @ inverse @ K_B.T
    degree = K.sum(axis=1)
    walk = K / np.sqrt(degree[:, None] * degree[None, :])
    _, eigenvectors = np.linalg.eigh((walk + walk.T) / 2)
    U = eigenvectors[:, -c:]
    return U / np.linalg.norm(U, axis=1)[:, None]


def sparse_rows(D2: Array, p: int, unit: float | None = None) -> Array:
    """Weights of each row's p nearest landmarks, zero for the others, rows summing to one: dense Z (n, m).

    Parameters
    ----------
    D2 : array (n, m)
        Squared distances of rows and landmarks.
    p : int
        Neighbours.
    unit : float, optional
        Round weights to multiples of this.
    """
    Z = np.zeros(D2.shape)
    for i, d2 in enumerate(D2):
        nearest = np.argsort(d2, kind="stable")[:p]
        gap = d2[nearest] - d2[nearest[0]]
        spread = gap.mean()
        weights = np.exp(-gap / (2 * spread)) if spread > 0 else np.ones(p)
        Z[i, nearest] = weights / weights.sum()
    return Z if unit is None else np.rint(Z / unit) * unit


def sparse_spectral(Z: Array, r: int, diffusion: float, Z_new: Array | None = None) -> tuple[Array, Array]:
    """Rows of length one from the leading singular vectors of ``Z D^-1/2``, weighted by the eigenvalues to a power.

    Parameters
    ----------
    Z : array (n, m)
        From `sparse_rows`.
    r : int
        Coordinates.
    diffusion : float
        t: the singular vectors ``U`` count as ``U w^t``, w the squared singular values.
    Z_new : array, optional
        Rows to place; those of Z by default.

    Returns
    -------
    Y : array (rows, r)
    values : array (min(n, m),)
        All squared singular values, largest first.
    """
    degree = Z.sum(axis=0)
    half = np.array([d**-0.5 if d > 0 else 0.0 for d in degree])
    _, s, Bt = np.linalg.svd(Z * half, full_matrices=False)
    # U = (Z D^-1/2) B s^-1: what places new rows places the old ones
    coordinates = ((Z if Z_new is None else Z_new) * half) @ Bt[:r].T / s[:r]
    Y = coordinates * (s[:r] ** 2) ** diffusion
    return Y / np.linalg.norm(Y, axis=1)[:, None], s**2


def mini_batch_k_means(centres: Array, counts: Labels, batches: Sequence[Array]) -> tuple[Array, Labels]:
    """Mini-batch k-means (Sculley 2010, doi:10.1145/1772690.1772862, Algorithm 1), one row after another.

    Parameters
    ----------
    centres : array (m, d)
    counts : array (m,)
        Rows that each centre has had already.
    batches : list of arrays (b, d)
    """
    centres, counts = centres.copy(), counts.copy()
    for batch in batches:
        cached = [np.argmin(np.sum((centres - x) ** 2, axis=1)) for x in batch]
        for x, k in zip(batch, cached):
            counts[k] += 1
            rate = 1 / counts[k]
            centres[k] = (1 - rate) * centres[k] + rate * x
    return centres, counts
