"""Zarr groups that appear at their path only when complete, and replace only what is ours."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from typing import Any, Literal

from ..errors import DaskkclError, InvalidInputError, OutputError, PlaceError, reason
from .locks import Lock
from .sources import local_path

__all__ = ["RESULT", "TABLE", "Target", "refuse_place_of", "same_place"]

RESULT, TABLE = "daskkcl", "daskkcl_table"  # marks: attributes of what was written here
_KINDS = {RESULT: "a result", TABLE: "a table", "daskkcl_model": "a model", "daskkcl_checkpoint": "a checkpoint"}
_PARTIAL, _OLD = ".partial-", "-old"


def _place(data: Any) -> str | None:
    """Return where rows are stored, if that can be told: a whole path or a URL."""
    if type(data).__module__.partition(".")[0] == "xarray":
        data = data.encoding.get("source")  # of what xarray opened
    if hasattr(data, "store_path"):  # a Zarr array or group
        root = getattr(data.store_path.store, "root", None)
        data = str(data.store_path) if root is None else os.path.join(root, data.store_path.path)
    if not isinstance(data, (str, os.PathLike)):
        return None
    text = local_path(str(os.fspath(data)))
    return text.rstrip("/") if "://" in text else os.path.realpath(text)


def same_place(one: Any, other: Any) -> bool:
    """Say whether two paths or URLs name one place."""
    return one is not None and other is not None and _place(one) == _place(other)


def refuse_place_of(data: Any, out: Any) -> None:
    """Refuse to write where the rows are, or around them: they would be gone."""
    rows, place = _place(data), _place(out)
    if rows is not None and place is not None and f"{rows}/".startswith(f"{place}/"):
        raise PlaceError(f"{str(out)!r} holds the rows that are read. Choose another path.")


class Target:
    """A Zarr group to be written: it appears at its path only when complete, and replaces only what is ours.

    A local path is written under another name beside it and renamed; what stood there stays until then. A URL is
    written in place. One process at a time may do so; what killed ones left is put in order by the next.

    Parameters
    ----------
    path : path or URL
    overwrite : bool
        Replace what is there, if it carries our mark.
    mark : str
        The attribute that marks such groups.
    storage_options : dict, optional
        For URLs.
    run : str, optional
        Number of a run that can be taken up again: what it has written stays when it is stopped, and is gone on with.
    """

    def __init__(
        self,
        path: Any,
        overwrite: bool,
        mark: str,
        storage_options: dict[str, Any] | None = None,
        run: str | None = None,
    ) -> None:
        try:
            text = local_path(str(os.fspath(path)))
        except TypeError:
            raise InvalidInputError(f"{path!r} is not a path or URL to write to.") from None
        self.remote = "://" in text
        self.path = text if self.remote else os.path.realpath(text)
        self.overwrite = overwrite
        self.mark = mark
        self.run = run
        self.done = False  # whether the run wrote everything before, and was stopped behind that
        self.storage_options = storage_options if self.remote else None
        own = run or f"{os.getpid()}-{os.urandom(3).hex()}"
        self._partial = self.path if self.remote else f"{self.path}{_PARTIAL}{own}"
        self._lock = self._take()
        try:
            if not self.remote:
                self._tidy()
            self._check_vacant()
            self._try_writing()
        except BaseException:
            self._lock.release()
            raise

    def _take(self) -> Lock:
        folder = "" if self.remote else os.path.dirname(self.path)
        if folder and not os.path.isdir(folder):
            raise PlaceError(f"{self.path!r} cannot be written: there is no folder {folder!r}. Make it first.")
        lock = Lock(self.path, "its results", self.storage_options)
        try:
            lock.take()
        except DaskkclError:
            raise
        except Exception as error:
            raise PlaceError(f"{self.path!r} cannot be written: {reason(error)}.") from error
        return lock

    def _tidy(self) -> None:
        """Put in order what processes left that were killed while they wrote here; we have the lock, so none lives."""
        folder, name = os.path.split(self.path)
        left = sorted(entry for entry in os.listdir(folder) if entry.startswith(f"{name}{_PARTIAL}"))
        for entry in left:
            whole = os.path.join(folder, entry)
            if entry.endswith(_OLD) and not os.path.lexists(self.path):  # killed between its two renames
                os.rename(whole, self.path)
            elif whole != self._partial:
                shutil.rmtree(whole, ignore_errors=True)

    def _check_vacant(self) -> None:
        import zarr

        if not self.remote and not os.path.lexists(self.path):
            return
        attributes: Any = {}
        try:
            attributes = dict(zarr.open(self.path, mode="r", storage_options=self.storage_options).attrs)
        except Exception:  # nothing there, or nothing that zarr can open
            if self.remote:
                return
        ours = attributes.get(self.mark)
        if self.run is not None and isinstance(ours, dict) and ours.get("run") == self.run:  # what this run wrote
            self.done, self.overwrite = ours.get("complete") is True, True
            return
        if not self.overwrite:
            raise PlaceError(f"{self.path!r} exists; pass overwrite=True to replace it, or another path.")
        empty = not self.remote and os.path.isdir(self.path) and not os.listdir(self.path)
        if self.mark not in attributes and not empty:
            kind = next((f"is {kind}" for mark, kind in _KINDS.items() if mark in attributes), None)
            raise PlaceError(
                f"{self.path!r} {kind or 'was not written by daskkcl'}; overwrite=True only replaces "
                f"{_KINDS[self.mark]} of daskkcl. Choose another path, or remove it first."
            )

    def _try_writing(self) -> None:
        import zarr

        try:
            if self.remote:
                probe = zarr.open_group(f"{self.path}.probe", mode="w", storage_options=self.storage_options)
                _delete(probe)
                return
            os.makedirs(self._partial, exist_ok=self.run is not None)
        except DaskkclError:
            raise
        except Exception as error:
            raise PlaceError(f"{self.path!r} cannot be written: {reason(error)}.") from error

    def write(self, fill: Callable[[Any], None]) -> None:
        """Let `fill` write into the group, then put it in place; of a group that fails nothing is left.

        But for that of a run that can be taken up again: `fill` then finds what was written before.
        """
        import zarr

        group = None
        try:
            group = zarr.open_group(
                self._partial, mode=self._mode(), zarr_format=3, storage_options=self.storage_options
            )
            fill(group)
            if not self.remote:
                self._put_in_place()
        except BaseException as error:
            if self.remote and group is not None and self.run is None:
                with contextlib.suppress(Exception):
                    _delete(group)
            if isinstance(error, OSError) and not isinstance(error, DaskkclError):
                raise OutputError(f"{self.path!r} cannot be written: {reason(error)}.") from error
            raise
        else:
            self.run = None  # nothing is left to go on with
        finally:
            self.discard()

    def _mode(self) -> Literal["a", "w"]:
        """Return how to open the group: anew, unless it is this run's own."""
        import zarr

        if self.run is None:
            return "w"
        try:
            group = zarr.open_group(self._partial, mode="r", storage_options=self.storage_options)
            ours: Any = dict(group.attrs).get(self.mark)
        except Exception:
            return "w"
        if not isinstance(ours, dict) or ours.get("run") != self.run:
            return "w"
        if not self.remote:
            _remove_torn(self._partial)
        return "a"

    def _put_in_place(self) -> None:
        if not os.path.lexists(self.path):
            os.rename(self._partial, self.path)
            return
        if not self.overwrite:
            raise OutputError(f"{self.path!r} was made by somebody else in the meantime; it is left as it is.")
        old = f"{self._partial}{_OLD}"
        os.rename(self.path, old)
        try:
            os.rename(self._partial, self.path)
        except OSError:
            os.rename(old, self.path)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Remove what was written and not put in place, unless the run can go on with it; let others write here."""
        if not self.remote:
            if self.run is None:
                shutil.rmtree(self._partial, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.rmdir(self._partial)  # if nothing was written
        self._lock.release()


def _remove_torn(folder: str) -> None:
    """Remove the files that zarr had begun and not named yet when its process was killed."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".partial"):
                os.remove(os.path.join(place, name))


def _delete(group: Any) -> None:
    from zarr.core.sync import sync

    sync(group.store_path.delete_dir())
