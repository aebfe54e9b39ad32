#!/usr/bin/env bash
# The driver as a job of Slurm; it starts its workers as further jobs. Submit it with
#     sbatch examples/cluster/slurm.sh /project/pixels.zarr /project/result.zarr
#SBATCH --job-name=daskkcl
#SBATCH --time=24:00:00
#SBATCH --cpus-per-task=2
#SBATCH --mem=8G
# Two minutes before the time is up Slurm sends SIGUSR1 to this script: B: says so, else only job steps are told.
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

rows=${1:?usage: sbatch slurm.sh ROWS RESULT [SHARED FOLDER]}
result=${2:?usage: sbatch slurm.sh ROWS RESULT [SHARED FOLDER]}
shared=${3:-$(dirname "$result")/daskkcl-run}
mkdir -p "$shared"

# The environment that has daskkcl and dask-jobqueue; workers start in the same one.
if [ -n "${DASKKCL_VENV:-}" ]; then
    . "$DASKKCL_VENV/bin/activate"
fi

python "${SLURM_SUBMIT_DIR:-.}/examples/cluster/run.py" "$rows" "$result" --shared "$shared" --overwrite \
    --slurm --workers "${WORKERS:-16}" --threads "${THREADS:-4}" --worker-memory "${WORKER_MEMORY:-16GiB}" &
driver=$!

# The time is nearly up: the driver leaves its state in the checkpoint, and the job goes back into the queue. (Slurm
# requeues by itself after a preemption or the failure of a node, but not at the time limit.)
again=no
trap 'again=yes; kill -TERM "$driver"' USR1
code=0
wait "$driver" || code=$?  # a signal ends this wait, not the driver
if [ "$again" = yes ]; then
    wait "$driver" && code=0 || code=$?
fi
if [ "$again" = yes ] && [ "$code" -ne 0 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
