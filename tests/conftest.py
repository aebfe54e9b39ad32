"""What several test files share."""

import pytest

SMALL_TILE = 1024


@pytest.fixture(scope="module")
def small_tiles():
    """Let tiles of narrow rows be small, so that a few thousand rows are several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskkcl.planning._MAX_TILE", SMALL_TILE)
        yield SMALL_TILE
