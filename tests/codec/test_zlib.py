"""Both ways of doing zlib: through libdeflate, where the build found it, and
through zlib itself."""

import subprocess

import pytest

from libcodec import EBADMSG, Refused, Tool
from libinterop import check_ours, make

PROGRAMS = ["codec_tool", "codec_tool_zlib"]


@pytest.fixture(scope="module")
def both_ways():
    found = {program: Tool(program=program) for program in PROGRAMS}
    yield found
    for one in found.values():
        one.close()


def test_they_are_two(both_ways):
    """Where both were built with zlib, this file tests one thing twice."""
    symbols = [
        subprocess.run(
            ["nm", "-u", both_ways[p].program], capture_output=True, text=True, check=True
        ).stdout
        for p in PROGRAMS
    ]
    assert "deflateReset" in symbols[1] and "libdeflate_zlib_compress" not in symbols[1]
    assert "libdeflate_zlib_compress" in symbols[0] or "deflateReset" in symbols[0]


@pytest.mark.parametrize("level", range(1, 10))
@pytest.mark.parametrize("writer", PROGRAMS)
def test_each_reads_the_other_and_the_reference_both(both_ways, writer, level):
    for i, kind in enumerate(["text", "wave", "mixed", "noise", "ramp"]):
        data = make(kind, 1000 + 9001 * ((level + i) % 5))
        for text in (f"zlib:{level}", f"shuffle:8+zlib:{level}"):
            chunk = check_ours(data, text, both_ways[writer])
            for reader in PROGRAMS:
                assert both_ways[reader].both(chunk) == data


@pytest.mark.parametrize("reader", PROGRAMS)
def test_damage_is_noticed(both_ways, reader):
    """Every stream ends with a checksum; both look at it, and at its length."""
    data = make("text", 5000)
    chunk = bytearray(both_ways[reader].encode("zlib:6", data))
    for at in range(len(chunk) - 4, len(chunk)):
        bad = bytearray(chunk)
        bad[at] ^= 1
        with pytest.raises(Refused) as refused:
            both_ways[reader].decode(bytes(bad))
        assert refused.value.rc == EBADMSG
