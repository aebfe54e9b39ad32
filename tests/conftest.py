"""What several test files share."""

import zlib

import pytest

SMALL_TILE = 1024


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out those that are slow
def pytest_collection_modifyitems(items):
    """Of the cases of a test marked ``part(n)`` one in n runs by default, always the same; the others are slow ones."""
    cases = {}
    for item in items:
        if item.get_closest_marker("part") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for own in cases.values():
        n = own[0].get_closest_marker("part").args[0]
        by_chance = sorted(own, key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in by_chance[-(-len(own) // n) :]:
            item.add_marker(pytest.mark.slow)


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
