"""The parts of docs/papers.md: what was published beside what came out, and the papers' claims."""
