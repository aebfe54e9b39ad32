#!/usr/bin/env bash
# The driver as a job of Slurm; it starts its workers as further jobs. Submit it with
#     sbatch examples/cluster/slurm.sh /project/pixels.zarr /project/result.zarr
#SBATCH --job-name=daskkcl
#SBATCH --time=24:00:00
#SBATCH --cpus-per-task=2
#SBATCH --mem=8G
# Slurm asks the driver to leave two minutes before its time is up; the state between rounds is in the checkpoint.
#SBATCH --signal=TERM@120
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

# exec: the signal reaches Python itself. After a requeue the same call goes on from the checkpoint.
exec python "${SLURM_SUBMIT_DIR:-.}/examples/cluster/run.py" "$rows" "$result" --shared "$shared" --overwrite \
    --slurm --workers "${WORKERS:-16}" --threads "${THREADS:-4}" --worker-memory "${WORKER_MEMORY:-16GiB}"
