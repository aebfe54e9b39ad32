"""The examples for Slurm and Kubernetes, as far as they can be checked without either."""

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster_tools import labels_at, labels_on_threads, store_rows, wait_until

FOLDER = Path(__file__).parent.parent / "examples" / "cluster"


def test_the_job_script_is_good_shell():
    subprocess.run(["bash", "-n", FOLDER / "slurm.sh"], check=True)
    answer = subprocess.run(["bash", FOLDER / "slurm.sh"], capture_output=True, text=True)
    assert answer.returncode != 0
    assert "usage: sbatch slurm.sh ROWS RESULT" in answer.stderr


def test_the_job_script_calls_the_driver_with_options_that_it_knows(tmp_path):
    """A python of our own notes how it was called; the driver then reads these very arguments."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/called\n')
    (tmp_path / "python").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(FOLDER.parent.parent), "WORKERS": "3"}
    subprocess.run(["bash", FOLDER / "slurm.sh", "x.zarr", str(tmp_path / "y.zarr")], check=True, env=env)
    script, *arguments = (tmp_path / "called").read_text().splitlines()
    assert Path(script) == FOLDER / "run.py"
    parse, before = runpy.run_path(script)["parse"], sys.argv
    try:
        sys.argv = [script, *arguments]
        options = parse()
    finally:
        sys.argv = before
    assert (options.rows, options.workers, options.slurm) == ("x.zarr", 3, True)
    assert Path(options.shared).is_dir()


@pytest.mark.parametrize("code, queued", [(143, "requeue 77"), (0, "")])
def test_the_job_goes_back_into_the_queue_when_its_time_is_up(tmp_path, code, queued):
    """SIGUSR1 to the script becomes SIGTERM to the driver, whose exit code says whether there is more to do."""
    driver = f"#!/bin/bash\ntrap 'echo asked > {tmp_path}/asked; exit {code}' TERM\ntouch {tmp_path}/runs\n"
    driver += "while :; do sleep 0.05; done\n"
    for name, text in (("python", driver), ("scontrol", f'#!/bin/sh\necho "$@" > {tmp_path}/queued\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "77"}
    job = subprocess.Popen(["bash", FOLDER / "slurm.sh", "x.zarr", str(tmp_path / "y.zarr")], env=env)
    wait_until((tmp_path / "runs").exists, 30)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(30) == code
    assert (tmp_path / "asked").exists()
    assert ((tmp_path / "queued").read_text().strip() if (tmp_path / "queued").exists() else "") == queued


def test_slurm_s_own_words_for_the_signal():
    """Without ``B:`` the signal goes to job steps, of which there are none: the script has to be told itself."""
    assert "#SBATCH --signal=B:USR1@120" in (FOLDER / "slurm.sh").read_text()


def test_the_values_for_kubernetes_agree_with_one_another():
    yaml = pytest.importorskip("yaml")
    chart = yaml.safe_load((FOLDER / "kubernetes-values.yaml").read_text())
    operator = yaml.safe_load((FOLDER / "kubernetes-operator.yaml").read_text())
    worker = operator["spec"]["worker"]
    container = worker["spec"]["containers"][0]
    assert operator["kind"] == "DaskCluster"
    assert chart["worker"]["replicas"] == worker["replicas"]
    assert "{repository}:{tag}".format(**chart["worker"]["image"]) == container["image"]
    assert chart["scheduler"]["image"] == chart["worker"]["image"]
    limits = chart["worker"]["resources"]["limits"]
    assert container["args"][container["args"].index("--nthreads") + 1] == str(limits["cpu"])
    assert container["args"][container["args"].index("--memory-limit") + 1] == limits["memory"] + "B"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in worker["spec"]["volumes"]}


@pytest.mark.slow
def test_the_driver_runs_on_workers_here(tmp_path):
    rows, result = store_rows(tmp_path / "x.zarr", 20_000), tmp_path / "result.zarr"
    command = [sys.executable, FOLDER / "run.py", rows, result, "--shared", tmp_path, "--workers", "2"]
    options = ["--clusters", "5", "--landmarks", "50"]
    subprocess.run([*command, *options], check=True, timeout=240)
    subprocess.run([*command, *options, "--overwrite"], check=True, timeout=240)  # from the checkpoint
    settings = {"n_clusters": 5, "n_landmarks": 50, "random_state": 0, "progress": False}
    assert (labels_at(result) == labels_on_threads(rows, "akkmeans", **settings)).all()


@pytest.mark.slow
def test_the_driver_runs_on_jobs_of_slurm(tmp_path):
    """dask-jobqueue itself, with a Slurm that starts what is submitted here: the job scripts and options are real."""
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue (pip install dask-jobqueue)")
    (tmp_path / "bin").mkdir()
    submit = f'#!/bin/bash\nsetsid bash "$1" > {tmp_path}/job-$$.log 2>&1 &\necho "Submitted batch job $!"\n'
    for name, text in (("sbatch", submit), ("scancel", '#!/bin/bash\nkill -- -"$1"\n')):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    table, result = store_rows(tmp_path / "x.zarr", 20_000), tmp_path / "y.zarr"
    options = ["--slurm", "--workers", "2", "--shared", str(tmp_path), "--clusters", "5", "--landmarks", "50"]
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, str(FOLDER / "run.py"), table, str(result), *options, "--worker-memory", "2GiB"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(tmp_path.glob("job-*.log"))) >= 2
    settings = {"n_clusters": 5, "n_landmarks": 50, "random_state": 0, "progress": False}
    np.testing.assert_array_equal(labels_at(result), labels_on_threads(table, "akkmeans", **settings))
