"""Cluster a Zarr on any dask cluster: workers here, jobs of Slurm, or a scheduler that is there already.

    python examples/cluster/run.py pixels.zarr result.zarr --shared /shared/scratch --workers 4
    python examples/cluster/run.py pixels.zarr result.zarr --shared /shared/scratch --slurm --workers 32
    python examples/cluster/run.py s3://bucket/pixels.zarr s3://bucket/result.zarr --scheduler tcp://dask-scheduler:8786

Run it again after a crash or a time limit: it goes on after the last round.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import daskkcl


def main() -> None:
    options = parse()
    with make_client(options) as client:
        print(f"computing on {client}")
        model = daskkcl.fit(
            options.rows,
            options.algorithm,
            options.clusters,
            n_landmarks=options.landmarks,
            random_state=0,
            memory_limit=options.memory_limit,  # of each worker; by default what dask allows it before it spills
            scratch=options.shared and str(Path(options.shared) / "scratch"),
            checkpoint=options.checkpoint or (options.shared and str(Path(options.shared) / "run.ckpt")),
            out=options.result,
            overwrite=options.overwrite,
            client=client,
        )
        print(model.plan_)
        print(f"rows in each cluster: {model.cluster_sizes_.tolist()}")


def make_client(options: argparse.Namespace) -> Any:
    """Return a client of the cluster that the options name."""
    from distributed import Client, LocalCluster

    if options.scheduler:
        return Client(options.scheduler)
    if options.slurm:
        return slurm_client(options)
    return Client(LocalCluster(n_workers=options.workers, threads_per_worker=options.threads, dashboard_address=None))


def slurm_client(options: argparse.Namespace) -> Any:
    """Start workers as jobs of Slurm, which come and go as the queue allows."""
    from dask_jobqueue import SLURMCluster

    cluster = SLURMCluster(
        cores=options.threads,
        processes=1,
        memory=options.worker_memory,
        walltime="04:00:00",
        local_directory="${TMPDIR:-/tmp}",  # of the node: the job's shell reads this
        # Workers leave five minutes before their time is up, not all at once: what they hold moves to others, and a
        # death is no surprise to the scheduler.
        worker_extra_args=["--lifetime", "235m", "--lifetime-stagger", "4m"],
    )
    # As many all the time: jobs that end are replaced, and none is sent away while a round begins.
    cluster.adapt(minimum_jobs=options.workers, maximum_jobs=options.workers)
    return cluster.get_client()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="a Zarr array, path or URL")
    parser.add_argument("result", help="where labels go, path or URL")
    parser.add_argument("--algorithm", default="akkmeans")
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--memory-limit", help="of each worker, such as 4GiB")
    parser.add_argument("--shared", help="a folder that this process and all workers share")
    parser.add_argument("--checkpoint", help="path or URL (default: in the shared folder)")
    parser.add_argument("--overwrite", action="store_true", help="replace a result that is there")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--worker-memory", default="8GiB", help="of each job of Slurm")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--slurm", action="store_true", help="start workers as jobs (needs dask-jobqueue)")
    where.add_argument("--scheduler", help="address of a dask scheduler")
    return parser.parse_args()


if __name__ == "__main__":
    main()
