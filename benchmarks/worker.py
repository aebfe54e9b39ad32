"""One contestant in a fresh process: ``python -m benchmarks.worker '{"contestant": ..., "rows": ..., ...}'``.

Loads libraries and rows, then measures: seconds, and the peak of the resident size over what it was before.
The last line of its output is JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import CONTESTANTS, LIBRARIES, distribution
from daskkcl.system import peak_bytes, resident_bytes

__all__ = ["forget_peak", "run"]


def forget_peak() -> None:
    """Let the kernel count the peak of the resident size from here (Linux; elsewhere loading the rows counts too)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do what a job says; return times, bytes and quality."""
    function, libraries = CONTESTANTS[job["contestant"]]
    for name in (*libraries, *job.get("libraries", ())):
        for module in LIBRARIES[name]:
            try:
                importlib.import_module(module)
            except ImportError:
                return {"failed": f"{distribution(name)} is not installed"}
    X: Any = np.load(job["rows"]) if job["rows"].endswith(".npy") else job["rows"]
    warnings.simplefilter("ignore")
    forget_peak()
    base, began, cpu = resident_bytes(), time.perf_counter(), time.process_time()
    try:
        answer = function(X, job["n_clusters"], job["seed"], **job.get("parameters", {}))
    except MemoryError as error:
        return {"failed": f"out of memory ({_first_line(error)})"}
    seconds, cpu, peak = time.perf_counter() - began, time.process_time() - cpu, peak_bytes()
    answer = answer if isinstance(answer, dict) else {"labels": answer}
    labels = answer.pop("labels", None)
    result = {"seconds": seconds, "cpu_seconds": cpu, "base_bytes": base, "added_bytes": peak - base, **answer}
    if labels is not None and job.get("classes"):
        result |= quality(np.load(job["classes"]), np.asarray(labels))
    return result


def quality(classes: Any, labels: Any) -> dict[str, float]:
    """Return normalised mutual information and the adjusted Rand index."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "nmi": float(normalized_mutual_info_score(classes, labels)),
        "ari": float(adjusted_rand_score(classes, labels)),
    }


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


if __name__ == "__main__":
    found = run(json.loads(sys.argv[1]))
    print()
    print(json.dumps(found))
