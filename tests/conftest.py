"""What several test files share."""

import pytest

SMALL_TILE = 1024


@pytest.fixture(scope="module")
def small_tiles():
    """Let tiles of narrow rows be small, so that a few thousand rows are several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskkcl.planning._MAX_TILE", SMALL_TILE)
        yield SMALL_TILE


@pytest.fixture
def small_subsets_dealt(monkeypatch):
    """Let workers deal subsets that are so small that one of them would meet each alone."""
    monkeypatch.setattr("daskkcl.schedules.problem._WHOLE_BYTES", 0)
