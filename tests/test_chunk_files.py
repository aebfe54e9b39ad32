"""Chunks that are plain files are read without zarr, to the same numbers; what is not plain is left to it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs import Blosc, Zstd
from numpy.testing import assert_array_equal
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec

from daskkcl.blocks.ahead import ReadAhead
from daskkcl.blocks.files import ChunkFiles
from daskkcl.blocks.sources import ZarrSource, read_array
from daskkcl.blocks.whole import read_whole, refuse_absent
from daskkcl.errors import MissingChunkError, StorageError
from daskkcl.progress import Progress
from daskkcl.schedules.data import RowReader, run_blocks
from daskkcl.schedules.engine import Engine, own_threads
from daskkcl.schedules.graph import Graph

PLAIN = {
    3: [None, ZstdCodec(), ZstdCodec(level=3, checksum=True), BloscCodec(cname="lz4"), BloscCodec(clevel=0)],
    2: [None, Zstd(level=1), Blosc(), Blosc(cname="zstd", shuffle=Blosc.BITSHUFFLE)],
}


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_rows_of_plain_chunks(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    draw = data.draw
    kind = draw(st.sampled_from([2, 3]))
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from(["f4", "f8", "f2", "u1", "i8", "?"] + [">f4"] * (kind == 2)))
    # no zeros: a chunk of nothing else is not written, and absent ones are zarr's (tests below)
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(1, 255, shape).astype(dtype)
    array = zarr.create_array(
        tmp_path_factory.mktemp("rows") / "x.zarr",
        data=values,
        chunks=tuple(draw(st.integers(-(-n // 4), n + 3)) for n in shape),
        compressors=draw(st.sampled_from(PLAIN[kind])),
        zarr_format=kind,  # type: ignore[arg-type]
    )
    start = draw(st.integers(0, shape[0]))
    stop = draw(st.integers(start, shape[0]))
    files = ChunkFiles.of(read_whole(array))
    assert files is not None
    found = files.read(start, stop, _never)
    assert found.flags.writeable
    assert found.dtype == array.dtype
    assert_array_equal(found, values[start:stop])
    assert_array_equal(read_array(array, start, stop, np.float64), values[start:stop].astype(np.float64))


def _never(first: int, last: int) -> Any:
    raise AssertionError(f"zarr was asked for {first} to {last}")


def test_what_is_not_plain_is_left_to_zarr(tmp_path: Path) -> None:
    values = np.arange(48, dtype=np.float32).reshape(12, 4)

    def files(name: str, **how: object) -> ChunkFiles | None:
        array = zarr.create_array(tmp_path / name, data=values, **{"chunks": (6, 4), **how})
        assert_array_equal(read_array(array, 2, 11), values[2:11])
        return ChunkFiles.of(array)

    assert files("plain") is not None
    assert files("sharded", chunks=(3, 4), shards=(6, 4)) is None
    assert files("gzip", compressors=GzipCodec()) is None
    assert files("twice", compressors=[ZstdCodec(), BloscCodec()]) is None
    assert files("turned", zarr_format=2, order="F") is None
    assert files("big ends", serializer=BytesCodec(endian="big")) is None
    turned = zarr.create_array(tmp_path / "other ends in memory", data=values.astype(">f4"))
    assert_array_equal(read_array(turned, 2, 11), values[2:11])
    empty = zarr.create_array(tmp_path / "empty", shape=(0,), chunks=(0,), dtype="i4")
    assert read_array(empty, 0, 0).shape == (0,)
    assert ChunkFiles.of(zarr.create_array({}, data=values)) is None
    plain = zarr.open_array(tmp_path / "plain")
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):  # chosen by the user
        assert ChunkFiles.of(plain) is None


def _damaged(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "other":  # a whole chunk, of another size
        path.write_bytes(Zstd().encode(bytes(40)))
    else:
        path.write_bytes({"short": content[: len(content) // 2], "empty": b"", "noise": os.urandom(190)}[how])


@pytest.mark.parametrize("compressor", [ZstdCodec(), BloscCodec(), None], ids=["zstd", "blosc", "plain"])
@pytest.mark.parametrize("how", ["short", "empty", "noise", "other"])
def test_a_damaged_chunk_is_an_error_that_names_it(tmp_path: Path, how: str, compressor: object) -> None:
    path = tmp_path / "x.zarr"
    values = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    array = read_whole(zarr.create_array(path, data=values, chunks=(10, 5), compressors=compressor))
    _damaged(path / "c" / "1" / "0", how)
    assert ChunkFiles.of(array) is not None
    with pytest.raises(StorageError, match="c/1/0"):
        read_array(array, 0, 30)
    assert_array_equal(read_array(array, 20, 30), values[20:])  # the others can be read


def test_an_absent_chunk_is_filled_in_or_refused_as_by_zarr(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    array = read_whole(zarr.create_array(path, data=np.ones((30, 5), np.float32), chunks=(10, 5), fill_value=7))
    _damaged(path / "c" / "1" / "0", "gone")
    assert_array_equal(read_array(array, 5, 15)[:, 0], [1] * 5 + [7] * 5)
    asked, files = [], ChunkFiles.of(array)
    assert files is not None
    files.read(5, 30, lambda first, last: (asked.append((first, last)), array[first:last])[1])
    assert asked == [(10, 20)]  # for that chunk only
    refuse_absent(array)
    with pytest.raises(MissingChunkError, match="c/1/0"):
        read_array(array, 5, 15)


class _Counting:
    """Rows that know how often they were read; those from 50 on cannot be."""

    def __init__(self) -> None:
        self.times: list[int] = []

    def read(self, start: int, stop: int) -> np.ndarray:
        self.times.append(start)
        if start >= 50:
            raise StorageError("out of reach")
        return np.arange(start, stop)


def test_rows_read_ahead_are_read_once() -> None:
    rows = _Counting()
    ahead = ReadAhead(rows)
    ahead.begin(10, 20)
    ahead.begin(10, 20)
    assert_array_equal(ahead.read(0, 10), np.arange(10))
    assert_array_equal(ahead.read(10, 20), np.arange(10, 20))
    ahead.begin(10, 20)  # somebody was faster
    assert sorted(rows.times) == [0, 10]
    ahead.begin(50, 60)
    with pytest.raises(StorageError, match="out of reach"):
        ahead.read(50, 60)


def test_slabs_are_read_ahead_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(40_000, 3)).astype(np.float32)
    zarr.create_array(tmp_path / "x.zarr", data=values, chunks=(9000, 3))
    begun, read = [], []
    begin, own_read = ReadAhead.begin, ChunkFiles.read
    monkeypatch.setattr(ReadAhead, "begin", lambda self, a, b: (begun.append(a), begin(self, a, b))[1])
    monkeypatch.setattr(ChunkFiles, "read", lambda self, a, *more: (read.append(a), own_read(self, a, *more))[1])
    engine = Engine(None, 2, Progress(False))
    edges = list(range(0, 40_000, 1000)) + [40_000]

    def prepare(graph: Graph) -> Any:
        return lambda start, rows: graph.call(lambda block: float(block.sum(dtype=np.float64)), rows)

    found = run_blocks(engine, ZarrSource(zarr.open_array(tmp_path / "x.zarr", mode="r")), edges, prepare)
    assert found == [float(values[a : a + 1000].sum(dtype=np.float64)) for a in edges[:-1]]
    assert sorted(read) == [0, 9000, 18_000, 27_000, 36_000]
    assert set(begun) == {0, 9000, 18_000, 27_000, 36_000}


def test_a_thread_that_reads_beside_is_one_that_does_not_compute(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(40_000, 3), chunks=(9000, 3), dtype="f4")
    source = ZarrSource(zarr.open_array(tmp_path / "x.zarr", mode="r"))
    engine, few = Engine(None, own_threads() + 1, Progress(False)), Engine(None, 1, Progress(False))
    long = list(range(0, 40_001, 9000 // (engine.threads + 2)))
    assert RowReader(engine, source, long).engine.threads == own_threads()
    assert RowReader(engine, source, [0, 9000, 18_000, 40_000]).engine.threads == own_threads() + 1
    assert RowReader(few, source, long).engine.threads == 1


def test_a_run_that_goes_on_when_all_rows_have_been_read(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(40, 3), chunks=(9, 3), dtype="f4")
    source = ZarrSource(zarr.open_array(tmp_path / "x.zarr", mode="r"))
    assert RowReader(Engine(None, 2, Progress(False)), source, [40]).unfinished(40) == []


@pytest.mark.parametrize("chunk_rows", [500, 9000])
def test_blocks_are_worked_on_in_order(tmp_path: Path, chunk_rows: int) -> None:
    values = np.arange(20_000, dtype=np.float32)[:, None]
    zarr.create_array(tmp_path / "x.zarr", data=values, chunks=(chunk_rows, 1))
    worked_on: list[int] = []

    def prepare(graph: Graph) -> Any:
        return lambda start, rows: graph.call(lambda block: worked_on.append(int(block[0, 0])), rows)

    edges = list(range(0, 20_001, 500))
    source = ZarrSource(zarr.open_array(tmp_path / "x.zarr", mode="r"))
    run_blocks(Engine(None, 1, Progress(False)), source, edges, prepare)
    assert worked_on == edges[:-1]


def test_slabs_that_nobody_asks_for_do_not_pile_up() -> None:
    rows = _Counting()
    ahead = ReadAhead(rows)
    for start in range(0, 40, 4):
        ahead.begin(start, start + 2)
    assert ahead._begun is not None
    assert ahead._begun[0] == 36
    assert_array_equal(ahead.read(40, 42), [40, 41])
    assert ahead._begun is None


def test_without_another_thread_rows_are_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    ahead = ReadAhead(_Counting())
    ahead.begin(0, 3)
    assert_array_equal(ahead.read(0, 3), [0, 1, 2])
