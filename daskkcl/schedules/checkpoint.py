"""Checkpoints: the small state between rounds, written so that a run can be taken up where it stopped.

A checkpoint is a Zarr group. Every save writes a whole new state beside the old one and marks it last; a state
without its mark, or whose arrays do not match their digest, never was. The two latest states are kept.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError

__all__ = ["Checkpoint", "saved_seed"]

_FORMAT = 1


class Checkpoint:
    """State between rounds, in a Zarr group at `path`; a `path` of None remembers nothing.

    Parameters
    ----------
    path : str or None
    identity : dict
        What the run is: algorithm, parameters, data. A checkpoint of another run is refused.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/run.ckpt"
    >>> Checkpoint(path, {"algo": "akkmeans"}).save({"means": np.eye(2)})
    >>> Checkpoint(path, {"algo": "akkmeans"}).load()["means"]
    array([[1., 0.],
           [0., 1.]])
    >>> Checkpoint(path, {"algo": "pakcl"}).load()
    Traceback (most recent call last):
    ...
    daskkcl.errors.CheckpointError: ...
    """

    def __init__(
        self, path: str | None, identity: dict[str, Any], storage_options: dict[str, Any] | None = None
    ) -> None:
        self.path = path
        self.identity = json.loads(json.dumps(identity, default=str, sort_keys=True))
        self.storage_options = storage_options
        self._group: Any = None

    def load(self) -> dict[str, NDArray[Any]] | None:
        """Return the latest complete state of this very run, or None."""
        if self.path is None:
            return None
        import zarr

        group = zarr.open_group(self.path, mode="a", storage_options=self.storage_options)
        stored: Any = dict(group.attrs).get("daskkcl_checkpoint")
        if stored is None:
            if list(group.keys()):
                raise CheckpointError(f"{self.path!r} is a Zarr group and no checkpoint; choose another path.")
            group.attrs["daskkcl_checkpoint"] = {"format": _FORMAT, "identity": self.identity}
        else:
            self._compare(stored)
        self._group = group
        for name in sorted(group.group_keys(), reverse=True):
            state = _read_state(group[name])
            if state is not None:
                return state
        return None

    def save(self, state: dict[str, Any]) -> None:
        """Write a state; the one before stays until this one is complete."""
        if self.path is None:
            return
        if self._group is None:
            self.load()
        names = sorted(self._group.group_keys())
        number = 1 + (int(names[-1].split("-")[1]) if names else 0)
        target = self._group.create_group(f"state-{number:08d}")
        for name, value in state.items():
            target.create_array(name, data=np.asarray(value))
        target.attrs["complete"] = _digest(state)
        for name in names[:-1]:
            del self._group[name]

    def _compare(self, stored: dict[str, Any]) -> None:
        if stored.get("format") != _FORMAT:
            raise CheckpointError(f"{self.path!r} was written by another version of daskkcl; delete it to start anew.")
        theirs, ours = stored["identity"], self.identity
        different = [
            f"{name}: {theirs.get(name)!r} there, {ours.get(name)!r} here"
            for name in sorted({*theirs, *ours})
            if theirs.get(name) != ours.get(name)
        ]
        if different:
            raise CheckpointError(
                f"The checkpoint {self.path!r} belongs to another run ({'; '.join(different[:4])}). "
                "Use another checkpoint path, or delete it to start anew."
            )


def saved_seed(path: str | None, storage_options: dict[str, Any] | None = None) -> int | None:
    """Return the seed of the run a checkpoint belongs to, so that an unseeded run can go on with it."""
    if path is None:
        return None
    import zarr

    try:
        attrs: Any = dict(zarr.open_group(path, mode="r", storage_options=storage_options).attrs)
        return int(attrs["daskkcl_checkpoint"]["identity"]["seed"])
    except (KeyError, TypeError, ValueError, OSError):
        return None


def _digest(state: dict[str, Any]) -> str:
    digest = blake2b(digest_size=16)
    for name in sorted(state):
        array = np.ascontiguousarray(state[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read_state(group: Any) -> dict[str, NDArray[Any]] | None:
    try:
        state = {name: np.asarray(array[...]) for name, array in group.arrays()}
        return state if dict(group.attrs).get("complete") == _digest(state) else None
    except Exception:  # a torn state of a run that was killed: the one before it counts
        return None
