"""Cluster a Zarr that is larger than the memory limit, and look at what came out: what ``daskkcl demo`` runs.

The code is in ``daskkcl/demo.py``, so that an installed package has it. Run this with ``make demo``.
"""

from daskkcl.cli import main

if __name__ == "__main__":
    main(["demo"], prog_name="daskkcl")
