"""The same code on a dask.distributed cluster of processes: the same labels, and nothing left behind."""

import numpy as np
import pytest
import zarr

import daskkcl


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = 4 * rng.normal(size=(5, 8))[rng.integers(0, 5, 30_000)] + rng.normal(size=(30_000, 8))
    path = str(tmp_path_factory.mktemp("data") / "x.zarr")
    zarr.create_array(path, data=rows.astype("float32"), chunks=(2_700, 8))
    return path


@pytest.mark.parametrize("parameters", [{}, {"memory_limit": "400MiB"}], ids=["default", "limited"])
@pytest.mark.parametrize("algo", ["akkmeans", "pakcl", "okfcm", "spkfcm", "rsekfcm", "skkmeans"])
def test_workers_give_the_labels_of_threads(client, table, tmp_path, algo, parameters):
    size = {"buffer_size": 100} if algo == "skkmeans" else {"n_landmarks": 100}
    settings = {"n_clusters": 5, **size, "random_state": 0, "progress": False}
    on_workers = daskkcl.fit(table, algo, client=client, out=tmp_path / "out.zarr", **settings, **parameters)
    labels = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")["labels"][:]
    here = _without_client(lambda: daskkcl.fit(table, algo, **settings))
    np.testing.assert_array_equal(labels, _without_client(lambda: here.labels_.compute(scheduler="threads")))
    np.testing.assert_array_equal(on_workers.cluster_sizes_, here.cluster_sizes_)
    assert np.bincount(labels).tolist() == here.cluster_sizes_.tolist()


def test_chunks_of_okfcm_run_side_by_side(client, table):
    """In the task stream: both workers cluster chunks, and most of the time at once."""
    from distributed import get_task_stream

    with get_task_stream(client) as stream:
        daskkcl.fit(table, "okfcm", 5, n_landmarks=100, chunk_size=250, random_state=0, client=client, progress=False)
    spans = {}
    for record in stream.data:
        if "summarise_chunks" in str(record["key"]):
            for part in record["startstops"]:
                if part["action"] == "compute":
                    spans.setdefault(record["worker"], []).append((part["start"], part["stop"]))
    assert len(spans) == 2
    one, two = spans.values()
    busy = min(sum(stop - start for start, stop in spans) for spans in (one, two))
    together = sum(max(0, min(b, d) - max(a, c)) for a, b in one for c, d in two)
    assert together > 0.5 * busy


def test_nothing_is_left_on_the_scheduler(client, table):
    model = daskkcl.fit(table, "akkmeans", 5, n_landmarks=50, random_state=0, client=client, progress=False)
    assert model.cluster_sizes_.sum() == 30_000
    del model
    assert client.run_on_scheduler(_count_tasks_after_a_while) == 0


async def _count_tasks_after_a_while(dask_scheduler):
    import asyncio

    for _ in range(100):  # released keys are forgotten in the background
        if not dask_scheduler.tasks:
            break
        await asyncio.sleep(0.1)
    return len(dask_scheduler.tasks)


def _without_client(function):
    """Run as if there were no active client."""
    from distributed import client as module

    current = module._global_clients.copy()
    module._global_clients.clear()
    try:
        return function()
    finally:
        module._global_clients.update(current)
