"""The accessor of xarray objects: ``array.daskkcl.fit(...)``.

Importing this module registers it; ``import daskkcl`` does so as soon as xarray is imported, by whoever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    from .estimators.base import KernelClusterer

__all__ = ["DaskkclAccessor"]


@xr.register_dataset_accessor("daskkcl")
@xr.register_dataarray_accessor("daskkcl")
class DaskkclAccessor:
    """Clustering of a DataArray, or of a Dataset whose variables are the features.

    Examples
    --------
    >>> import numpy as np, xarray as xr, daskkcl
    >>> rng = np.random.default_rng(0)
    >>> image = xr.DataArray(rng.normal(size=(3, 20, 30)), dims=("band", "y", "x"), coords={"x": np.arange(30)})
    >>> image[:, :10] += 9
    >>> image[:, 0, 0] = np.nan  # masked
    >>> model = image.daskkcl.fit("akkmeans", n_clusters=2, feature_dim="band", random_state=0)
    >>> labels = model.labels_
    >>> labels.dims, int(labels[0, 0]), np.unique(labels[:10, 1:])
    (('y', 'x'), -1, array([1], dtype=int32))
    >>> bool((image.daskkcl.predict(model) == labels).all())
    True
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def fit(
        self,
        algo: str = "okfcm",
        n_clusters: int | str = "auto",
        *,
        feature_dim: str | None = None,
        nan: str = "drop",
        **parameters: Any,
    ) -> KernelClusterer:
        """Cluster the rows: all combinations of the dimensions other than that of the features.

        Parameters
        ----------
        algo, n_clusters : as for `daskkcl.fit`
        feature_dim : str, optional
            The dimension of the features; needed of a DataArray with more than two.
        nan : {"drop", "raise"}, default "drop"
            Rows with a NaN are labelled -1: unlike elsewhere this is the default, since masked pixels are NaN.
        **parameters : as for `daskkcl.fit`

        Returns
        -------
        model : KernelClusterer
            Fitted; its ``labels_`` and ``membership_`` are DataArrays on the dimensions of the rows.
        """
        from .api import fit

        return fit(self._data, algo, n_clusters, feature_dim=feature_dim, nan=nan, **parameters)

    def predict(self, model: Any) -> Any:
        """Return the cluster of every row, on the dimensions of the rows.

        Parameters
        ----------
        model : KernelClusterer
            Fitted or loaded.
        """
        return model.predict(self._data)

    def predict_proba(self, model: Any) -> Any:
        """Return the memberships of every row, on the dimensions of the rows and one more, ``cluster``.

        Parameters
        ----------
        model : KernelClusterer
            Fitted or loaded, of a fuzzy algorithm.
        """
        from .errors import InvalidInputError

        if not hasattr(model, "predict_proba"):
            raise InvalidInputError(f"{type(model).__name__} has no memberships; the fuzzy algorithms do.")
        return model.predict_proba(self._data)
