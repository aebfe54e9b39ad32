"""Checkpoints: the small state between rounds, written so that a run can be taken up where it stopped.

A checkpoint is a Zarr group. Every save writes a whole new state beside the old one and marks it last; a state
without its mark never was, and one whose arrays do not match their digest is damaged. The two latest states are kept.
What is found once and needed to the end (sums that make a map, first centres, counts of labels) are parts, written
in the same way.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..blocks.locks import Lock
from ..blocks.sources import local_path
from ..errors import CheckpointError, DaskkclError, DaskkclWarning, InvalidInputError, StorageError, reason
from ..kernels import Kernel
from ..kernels.rows import SparseRows, is_sparse
from ..maps.stored import store_map

__all__ = ["Checkpoint", "describe", "digest", "saved_seed"]

_FORMAT = 2
_SOON = 1.0  # seconds between the saves of steps that take no time
_NOT_THE_RUN = {"progress", "scratch", "memory_limit", "missing"}
_MARK = "daskkcl_checkpoint"


class Checkpoint:
    """State between rounds, in a Zarr group at `path`; a `path` of None remembers nothing.

    Parameters
    ----------
    path : path or URL, or None
    identity : dict
        What the run is: algorithm, parameters, data. A checkpoint of another run is refused.
    storage_options : dict, optional
        For URLs.

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
        self, path: Any, identity: dict[str, Any] | None = None, storage_options: dict[str, Any] | None = None
    ) -> None:
        self.path, self.storage_options = _place(path, storage_options)
        self._group: Any = None
        self._unsaved: dict[str, Any] | None = None
        self._saved_at = 0.0
        stored = None if self.path is None else _stored(self.path, self.storage_options)
        known = (stored or {}).get("run")
        self.seed: int | None = _seed_of(stored)
        self.run: str = known if isinstance(known, str) and known.isalnum() else os.urandom(8).hex()
        if identity is not None:
            self.identify(identity)

    def identify(self, identity: dict[str, Any]) -> None:
        """Say what the run is."""
        self.identity = json.loads(json.dumps(identity, default=str, sort_keys=True))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs away from it."""
        lock = Lock(self.path, "a checkpoint", self.storage_options)
        try:
            if self.path is not None and "://" not in self.path:
                os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
            lock.take()
        except DaskkclError:
            raise
        except Exception as error:
            raise CheckpointError(f"The checkpoint {self.path!r} cannot be written: {reason(error)}.") from error
        try:
            yield
        finally:
            lock.release()

    def open(self) -> None:
        """Make the group, or see that the one that is there belongs to this very run."""
        if self.path is None or self._group is not None:
            return
        import zarr

        stored = _stored(self.path, self.storage_options)
        if stored is not None:
            self._compare(stored)
        try:
            self._group = zarr.open_group(self.path, mode="a", zarr_format=3, storage_options=self.storage_options)
            if stored is None:
                self._group.attrs[_MARK] = {"format": _FORMAT, "identity": self.identity, "run": self.run}
        except Exception as error:
            raise CheckpointError(f"The checkpoint {self.path!r} cannot be written: {reason(error)}.") from error

    def load(self) -> dict[str, NDArray[Any]] | None:
        """Return the latest complete state of this very run, or None."""
        if self.path is None:
            return None
        self.open()
        damaged = ""
        for name in reversed(self._states()):
            state, whole = _read_state(self._group, name)
            if not whole:
                damaged = damaged or name
            if state is not None:
                self._warn(damaged, f"the one before it, {name}, is used")
                return state
        self._warn(damaged, "there is no whole one before it, and the run begins anew")
        return None

    def _warn(self, damaged: str, instead: str) -> None:
        if damaged:
            warnings.warn(
                f"The state {damaged!r} of the checkpoint {self.path!r} is damaged; {instead}.",
                DaskkclWarning,
                stacklevel=2,
            )

    def save(self, state: dict[str, Any], soon: bool = False) -> None:
        """Write a state; the one before stays until this one is complete.

        With `soon` the state of a step that took no time may wait for one of the next: it is written when a second has
        passed since the last, or when the run is stopped.
        """
        if self.path is None:
            return
        self._unsaved = {name: _native(value) for name, value in state.items()}
        if not soon or time.monotonic() - self._saved_at > _SOON:
            self.flush()

    def flush(self) -> None:
        """Write the state that waits, if there is one."""
        if self.path is None or self._unsaved is None:
            return
        self.open()
        state, names = self._unsaved, self._states()
        number = 1 + (int(names[-1].split("-")[1]) if names else 0)
        self._write(f"state-{number:08d}", state, names[:-1])
        self._unsaved, self._saved_at = None, time.monotonic()

    def once(
        self, name: str, make: Callable[[], dict[str, Any]], still: Callable[[], bool] = lambda: True
    ) -> dict[str, Any]:
        """Return the arrays that `make` returns, or those that it returned when the run came here before.

        `still` says whether what `make` left elsewhere, in scratch, is still there.
        """
        if self.path is None:
            return make()
        known = self.part(name)
        if known is not None and still():
            return known
        if known is not None:  # first: what stands in scratch while it is made again is not whole
            del self._group[f"part-{name}"]
        known = {key: _native(value) for key, value in make().items()}
        self._write(f"part-{name}", known, [])
        return known

    def part(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays of a part, if it is there."""
        if self.path is None:
            return None
        self.open()
        state, whole = _read_state(self._group, f"part-{name}")
        if not whole:
            self._warn(f"part-{name}", "it is made again")
        return state

    def _write(self, target_name: str, arrays: dict[str, Any], obsolete: list[str]) -> None:
        try:
            target = self._group.create_group(target_name, overwrite=True)
            for name, value in arrays.items():
                target.create_array(name, data=value, config={"write_empty_chunks": True})
            target.attrs["complete"] = digest(arrays)
            for name in obsolete:
                del self._group[name]
        except OSError as error:
            raise StorageError(f"The checkpoint {self.path!r} cannot be written: {reason(error)}.") from error

    def _states(self) -> list[str]:
        names = [name for name in _members(self._group) if name.startswith("state-") and name[6:].isdecimal()]
        return sorted(names, key=lambda name: int(name[6:]))

    def _compare(self, stored: dict[str, Any]) -> None:
        if stored.get("format") != _FORMAT or not isinstance(stored.get("identity"), dict):
            raise CheckpointError(f"{self.path!r} was written by another version of daskkcl; delete it to start anew.")
        theirs, ours = stored["identity"], self.identity
        different = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
        if {"seed", "shape", "stored dtype"} & set(different):  # from those it follows that the digest differs
            different = [name for name in different if name != "data"]
        if different:
            details = [
                "data: other rows" if name == "data" else f"{name}: {theirs.get(name)!r} there, {ours.get(name)!r} here"
                for name in different[:4]
            ]
            raise CheckpointError(
                f"The checkpoint {self.path!r} belongs to another run ({'; '.join(details)}). "
                "Use another checkpoint path, or delete it to start anew."
            )


def saved_seed(path: Any, storage_options: dict[str, Any] | None = None) -> int | None:
    """Return the seed of the run a checkpoint belongs to, so that an unseeded run can go on with it.

    What is no checkpoint is refused: this is asked before any data are read.
    """
    return Checkpoint(path, None, storage_options).seed


def _seed_of(stored: dict[str, Any] | None) -> int | None:
    seed = ((stored or {}).get("identity") or {}).get("seed")
    return seed if isinstance(seed, int) else None


def describe(value: Any) -> Any:
    """Return a parameter as JSON values that are the same in every process and differ when it differs.

    Examples
    --------
    >>> describe(np.int64(3)), describe(len)
    (3, 'builtins.len')
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, Kernel):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(name): describe(item) for name, item in value.items()}
    if type(value).__module__.startswith("scipy.sparse"):
        rows = SparseRows.of(value)
        return f"sparse {rows.dtype} {rows.shape} {digest({'': rows})}"
    if isinstance(value, (list, tuple, np.ndarray)) or hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"{array.dtype} {array.shape} {digest({'': array})}"
    if hasattr(value, "get_params"):  # a map
        state = value._reader.map_ if value.__sklearn_is_fitted__() else None
        learnt = None if state is None else digest(store_map(state)[1])
        own = {name: describe(item) for name, item in value.get_params(deep=False).items() if name not in _NOT_THE_RUN}
        return {"map": value.name, **own, "fitted": learnt}
    if callable(value):
        owner = value if hasattr(value, "__qualname__") else type(value)
        return f"{owner.__module__}.{owner.__qualname__}"
    return repr(value)


def digest(state: dict[str, Any]) -> str:
    """Return a digest of named arrays."""
    total = blake2b(digest_size=16)
    for name in sorted(state):
        if is_sparse(state[name]):
            rows = state[name]
            parts = {
                "data": rows.data,
                "indices": rows.indices.astype(np.int64),
                "indptr": rows.indptr.astype(np.int64),
            }
            total.update(f"{name} {rows.shape} {digest(parts)}".encode())
            continue
        array = np.ascontiguousarray(state[name])
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)  # not tobytes(): labels of all rows need no copy
    return total.hexdigest()


def _native(value: Any) -> NDArray[Any]:
    """Return an array in the machine's byte order, in which zarr gives it back."""
    array = np.asarray(value)
    return array.astype(array.dtype.newbyteorder("="))


def _place(path: Any, storage_options: dict[str, Any] | None) -> tuple[str | None, dict[str, Any] | None]:
    if path is None:
        return None, None
    try:
        text = local_path(str(os.fspath(path)))
    except TypeError:
        raise InvalidInputError(f"checkpoint={path!r} is not a path or URL.") from None
    return text, storage_options if "://" in text else None


def _stored(path: str, storage_options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a checkpoint says it is, None when nothing is there; something else is refused."""
    import zarr

    local = "://" not in path
    if local and not os.path.lexists(path):
        return None
    other = CheckpointError(f"There is something at {path!r} that is no checkpoint; choose another path.")
    try:
        group = zarr.open_group(path, mode="r", storage_options=storage_options)
        stored: Any = dict(group.attrs).get(_MARK)
        vacant = not any(name != "zarr.json" for name in _members(group))
    except Exception as error:
        if local and not (os.path.isdir(path) and not os.listdir(path)):
            raise other from error
        return None
    if isinstance(stored, dict):
        return stored
    if stored is not None or not vacant:
        raise other
    return None


def _members(group: Any) -> list[str]:
    """Return the names of what is in a group, whole or not: one of a run that was killed may lack its metadata."""
    from zarr.core.sync import sync

    async def names() -> list[str]:
        prefix = group.store_path.path
        return [name.rstrip("/") async for name in group.store.list_dir(prefix)]

    return sync(names())


def _read_state(parent: Any, name: str) -> tuple[dict[str, NDArray[Any]] | None, bool]:
    """Return the arrays of a state, or None; and whether that is in order: one that never was complete is."""
    import zarr

    try:
        group = zarr.open_group(parent.store, path=f"{parent.path}/{name}".lstrip("/"), mode="r", zarr_format=3)
        mark = dict(group.attrs).get("complete")
    except FileNotFoundError:  # not there, or not begun
        return None, True
    except Exception:
        return None, False
    if mark is None:  # of a run that was killed while it saved
        return None, True
    try:
        state = {key: np.asarray(array[...]) for key, array in group.arrays()}
    except Exception:
        return None, False
    return (state, True) if mark == digest(state) else (None, False)
