"""The experiments of the five papers, run with this package: ``python -m benchmarks.papers --help``.

A module for each paper (`competitive`, `sparse_kernel`, `cooperative`, `fuzzy`, `embedding`) declares its experiments
and what was published. `running` runs their cells, `store` keeps what comes out, `page` writes docs/papers.md from it.
"""
