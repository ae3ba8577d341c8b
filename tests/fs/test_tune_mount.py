"""What the tuner does in a mount: the same frame for the same bytes, whoever
gets to its chunks first."""

import mmap
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from libchunk import is_stored
from libframe import check_reference
from libmount import CFRAME, wait_until
from libposix import sync
from libshare import stored_bytes
from libsteps import same_through_mount
from libtyped import MIB, audio_i2, image_u1, noise, records, rng, text, walk_f8


def tar_of_kinds():
    """Six megabytes whose nature changes, inside of chunks too."""
    kinds = [
        text(),
        walk_f8()[:700_000],
        noise()[:900_000],
        audio_i2(),
        records().tobytes(),
        bytes(300_000),
        image_u1(),
    ]
    return b"".join(kinds) + text()[:12345]


def chunks_of(blosc2, path):
    """Each chunk's bytes as stored: header, pipeline and all."""
    frame = blosc2.open(str(path), mode="r")
    return [frame.get_chunk(i) for i in range(frame.nchunks)]


def append(path, data):
    with open(path, "ab", buffering=0) as f:
        f.write(data)


def write_in_order(path, data, piece=1 << 18):
    write_pieces(path, data, range(0, len(data), piece), piece)


def write_pieces(path, data, places, piece):
    """Past the page cache, which would send pages in an order and at times of its own."""
    with mmap.mmap(-1, piece) as aligned:
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
        try:
            for at in places:
                aligned[:] = data[at : at + piece].ljust(piece, b"\0")
                os.pwrite(fd, aligned, at)
            os.ftruncate(fd, len(data))
            os.fsync(fd)
        finally:
            os.close(fd)


def test_packed_bytes_that_come_again_later(mount):
    """A jar whose first members have nothing in common: the bytes look alike from end to end."""
    member = noise()[:30_000]
    data = rng().bytes(MIB) + member * (2 * MIB // len(member))
    m = mount()
    (m.mnt / "a.jar").write_bytes(data)
    m.unmount()
    assert m.stored("a.jar").stat().st_size < 0.8 * len(data)


def pipeline_of(path):
    return os.getxattr(path, "user.cframefs.pipeline").decode()


@pytest.mark.parametrize(
    "options, named",
    [("", "zstd:2"), ("tune=size", "zstd:3"), ("tune=speed", "zstd:1"), ("level=1", "zstd:1")],
)
def test_small_files_count_as_text(mount, options, named):
    """They are not looked at; what is larger is."""
    m = mount(options)
    path = m.mnt / "small"
    path.write_bytes(text()[:20_000])
    sync(path)
    assert pipeline_of(path) == named
    path.write_bytes(walk_f8())
    sync(path)
    assert "shuffle" in pipeline_of(path) and path.read_bytes() == walk_f8()


def test_small_files_are_as_small_as_text(mount):
    stored = []
    for options in ("", "level=1"):
        m = mount(options)
        (m.mnt / "small").write_bytes(text()[:30_000])
        m.unmount()
        stored.append(m.stored("small").stat().st_size)
    assert stored[0] < stored[1]


@pytest.mark.parametrize("options", ["", "tune=size", "codec=lz4", "chunksize=64K"])
def test_same_bytes_same_frame(mount, blosc2, options):
    data = tar_of_kinds()
    seen = []
    for workers in (1, 4, 4, 3):
        m = mount(",".join(filter(None, [options, f"workers={workers},commit=0"])))
        for name in ("a", "b"):
            write_in_order(m.mnt / name, data)
        m.unmount()
        for name in ("a", "b"):
            path = m.stored(name)
            assert stored_bytes(blosc2, path) == data
            seen.append(chunks_of(blosc2, path))
            path.unlink()
    assert all(one == seen[0] for one in seen[1:])
    assert len({chunk[16:32] for chunk in seen[0]}) >= 3, (
        "one pipeline for all: the data does not test anything"
    )


@pytest.mark.parametrize("options", ["", "tune=size", "chunksize=64K"])
def test_same_bytes_in_another_order(mount, blosc2, options):
    """As the kernel's requests come: from start to end, but not one after the other."""
    data = tar_of_kinds() + walk_f8() * 2 + tar_of_kinds()
    rng, piece = np.random.default_rng(8), 1 << 18
    places = list(range(0, len(data), piece))
    orders = [places]
    for window in (8, 24):  # pieces that are on their way at a time
        orders.append([])
        for first in range(0, len(places), window):
            orders[-1] += [int(at) for at in rng.permutation(places[first : first + window])]
    m = mount(",".join(filter(None, [options, "workers=4,commit=0"])))
    for i, order in enumerate(orders):
        write_pieces(m.mnt / f"f{i}", data, order, piece)
    m.unmount()
    in_order, *others = [chunks_of(blosc2, m.stored(f"f{i}")) for i in range(len(orders))]
    assert len({chunk[16:32] for chunk in in_order}) >= 3, "one pipeline for all"
    for other in others:
        different = [i for i, (a, b) in enumerate(zip(in_order, other)) if a != b]
        # the reference makes up chunks for holes, of 32 bytes, from the header
        assert [i for i in different if len(other[i]) > 32] == []
    for i in range(len(orders)):
        assert stored_bytes(blosc2, m.stored(f"f{i}")) == data


@pytest.mark.parametrize("how", ["mount", "compress"])
def test_the_header_names_the_first_choice(mount, blosc2, how):
    """Doubles, then floats: chunks of items are those of the first, and so the header's items are.
    With others the library refuses slices that cut an item of these chunks, and what is appended
    would have whole items of another size, for which its buffers are too small (FORMAT.md 18)."""
    data = walk_f8() + np.frombuffer(walk_f8()).astype("<f4").tobytes() * 2
    m = mount("commit=0")
    if how == "mount":
        write_in_order(m.mnt / "f", data)
        m.unmount()
    else:
        m.unmount()
        (m.work / "plain").mkdir()
        (m.work / "plain/f").write_bytes(data)
        subprocess.run([CFRAME, "compress", m.work / "plain", m.backing], check=True)
    frame = blosc2.open(str(m.stored("f")), mode="r")
    assert frame.typesize == 8
    for first in (1, 1001, 131_001):  # of items; not as long as a block, FORMAT.md 18
        assert bytes(frame[first : first + 999]) == data[8 * first : 8 * (first + 999)]
    m.start()
    append(m.mnt / "f", data)
    m.unmount()
    chunks = chunks_of(blosc2, m.stored("f"))
    assert {chunk[3] for chunk in chunks} == {1, 8}, "one item size, beside typesize 1"
    assert stored_bytes(blosc2, m.stored("f")) == data * 2


@pytest.mark.parametrize("tail", [0, 8, 5])
def test_chunks_without_filters_have_the_items_of_the_file(mount, blosc2, tail):
    """Noise among doubles: the library before C 3.3.2 reads slices of chunks of typesize 1 wrongly
    in a file of larger items. A file that ends inside an item has typesize 1 all over."""
    data = walk_f8() + noise() + walk_f8() + noise()[:tail]
    m = mount("commit=0")
    write_in_order(m.mnt / "f", data)
    m.unmount()
    chunks = chunks_of(blosc2, m.stored("f"))
    assert not any(chunks[1][16:22]), "it has no filters"
    assert {chunk[3] for chunk in chunks[:3]} == {1 if tail == 5 else 8}
    assert stored_bytes(blosc2, m.stored("f")) == data


def test_blocks_beside_filtered_ones_get_their_level(mount, blosc2):
    """The header of a file that began small names the level for bytes that no filter helps."""
    m = mount("commit=0")
    numbers = walk_f8()[:300_080]
    for name in "f", "g":
        (m.mnt / name).write_bytes(numbers[:800])
        append(m.mnt / name, numbers[800:300_000])
    os.setxattr(m.mnt / "g", "user.cframefs.pipeline", b"zstd:1")
    for name in "f", "g":
        append(m.mnt / name, numbers[300_000:])
    m.unmount()
    assert blosc2.open(str(m.stored("f")), mode="r").cparams.clevel == 2
    [chunk] = chunks_of(blosc2, m.stored("f"))
    assert any(chunk[16:22]), "it has filters"
    assert chunks_of(blosc2, m.stored("g")) == [chunk]


def test_the_choice_follows_the_data(mount, blosc2):
    """A header of a page in front of its data; an image, text and numbers behind each other."""
    parts = [image_u1(), text(), walk_f8()]
    mixed = {"headed": text()[:4096] + walk_f8() * 2, "tar": b"".join(parts)}
    alone = {f"part{i}": part for i, part in enumerate(parts)}
    m = mount("workers=2,commit=0")
    for name, data in {**mixed, **alone}.items():
        write_in_order(m.mnt / name, data)
    m.unmount()
    for name, data in mixed.items():
        assert stored_bytes(blosc2, m.stored(name)) == data
    size = {name: os.stat(m.stored(name)).st_size for name in {**mixed, **alone}}
    assert size["tar"] < 1.03 * sum(size[name] for name in alone), size
    assert size["headed"] < 1.05 * 2 * size["part2"], size


def test_image_behind_black_whose_margins_meet_the_glance(mount):
    """Wide margins: all places that a glance looks at are black in both chunks. Not quite all
    of the first one is, which would not be chosen for."""
    rows = np.full((656, 3200), 16, "u1")
    rows[0, :64] = np.arange(64)
    rows[328:, 800:2400] = np.frombuffer(image_u1(), "u1")[: 328 * 1600].reshape(328, 1600)
    m = mount("workers=1,commit=0")
    for name in ("chosen", "given"):
        os.close(os.open(m.mnt / name, os.O_CREAT | os.O_WRONLY))
    os.setxattr(m.mnt / "given", "user.cframefs.pipeline", b"bytedelta+zstd:1")
    for name in ("chosen", "given"):
        write_in_order(m.mnt / name, rows.tobytes())
    m.unmount()
    size = {name: os.stat(m.stored(name)).st_size for name in ("chosen", "given")}
    assert size["chosen"] < 1.03 * size["given"], size


def test_numbers_behind_texts_of_many_kinds(mount):
    """Several choices that were the same in spite of other looks: the next may not be."""
    hexadecimal = text().hex().encode()[:MIB]
    digits = b" ".join(b"%d" % x for x in rng().integers(0, 99999, 200_000))[:MIB]
    texts = text() + digits + text() + hexadecimal + text() + digits
    m = mount("workers=1,commit=0")
    for name, data in {"texts": texts, "all": texts + walk_f8(), "numbers": walk_f8()}.items():
        write_in_order(m.mnt / name, data)
    m.unmount()
    size = {name: os.stat(m.stored(name)).st_size for name in ("texts", "all", "numbers")}
    assert size["all"] < size["texts"] + 1.03 * size["numbers"], size


def test_chunks_behind_gaps_do_not_wait_for_ever(mount):
    """What they wait for never comes. Nobody closes the file, and no commit is due."""
    m = mount("commit=0")
    piece = noise()
    with mmap.mmap(-1, len(piece)) as aligned:
        aligned[:] = piece
        fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
        for i in range(40):
            os.pwrite(fd, aligned, (2 * i + 1) * len(piece))
        wait_until(lambda: m.stored("f").stat().st_blocks * 512 > 30 * len(piece), 120)
        os.close(fd)
    with open(m.mnt / "f", "rb") as f:
        for _ in range(40):
            assert f.read(len(piece)) == bytes(len(piece)) and f.read(len(piece)) == piece


def test_many_files_at_once(mount, blosc2):
    """Chunks of several files share the workers: each still has its choices in its own order."""
    data = [tar_of_kinds(), walk_f8() * 3, text() * 2 + walk_f8()]
    m = mount("workers=4,commit=0")
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda i: write_in_order(m.mnt / f"f{i}", data[i % 3]), range(9)))
    m.unmount()
    first = [chunks_of(blosc2, m.stored(f"f{i}")) for i in range(3)]
    for i in range(9):
        assert chunks_of(blosc2, m.stored(f"f{i}")) == first[i % 3]
        assert stored_bytes(blosc2, m.stored(f"f{i}")) == data[i % 3]


def test_a_container_of_packed_data(mount, blosc2):
    """Its first pages are worth a look, which no sample gives them; what follows is stored."""
    m = mount("workers=1,commit=0")
    data = bytes(30_000) + text()[:10_000] + noise() + noise()[:700_000]
    write_in_order(m.mnt / "f", data)
    m.unmount()
    stored = [is_stored(chunk) for chunk in chunks_of(blosc2, m.stored("f"))]
    assert stored == [False, True]
    assert os.stat(m.stored("f")).st_size < len(data) - 30_000
    assert stored_bytes(blosc2, m.stored("f")) == data


def test_a_rest_is_not_chosen_for(mount, blosc2):
    """It would take longer than encoding it; behind packed data it may be an index, though."""
    m = mount("workers=1,commit=0")
    rest = text()[:60_000]
    for name, data in (("walk", walk_f8()), ("noise", noise())):
        write_in_order(m.mnt / name, data + rest)
    m.unmount()
    walk, noisy = (chunks_of(blosc2, m.stored(name)) for name in ("walk", "noise"))
    assert walk[0][16:22] == walk[1][16:22], "another choice"
    assert is_stored(noisy[0]) and not is_stored(noisy[1])
    for name, data in (("walk", walk_f8()), ("noise", noise())):
        assert stored_bytes(blosc2, m.stored(name)) == data + rest


def test_incompressible_is_no_larger(mount):
    m = mount()
    data = np.random.default_rng(1).bytes(5_000_001)
    (m.mnt / "noise").write_bytes(data)
    sync(m.mnt / "noise")
    assert (
        m.stored("noise").stat().st_blocks * 512 <= len(data) * 1.002 + 4096 + 4096
    )  # whole blocks
    m.remount()
    assert (m.mnt / "noise").read_bytes() == data


def steps_and_numbers():
    """Steps of a simulation whose mesh stays, then numbers."""
    r = rng()
    mesh = r.normal(size=30_000).astype("f4").tobytes()
    fields = (np.cumsum(r.normal(size=10_000)).astype("f4").tobytes() for _ in range(28))
    steps = b"".join(mesh + field for field in fields)
    walks = (np.cumsum(r.normal(size=MIB // 8)).tobytes() for _ in range(5))
    return steps[: 4 * MIB] + b"".join(walks) + b"odd"


def test_a_file_that_repeats_itself_for_a_while(mount, blosc2):
    """Chunks in one block beside others; both ways, and overwritten at odd places."""
    data = bytearray(steps_and_numbers())
    m = mount()
    path = m.mnt / "steps"
    write_in_order(path, data)
    m.unmount()
    chunks = chunks_of(blosc2, m.stored("steps"))
    sizes = [int.from_bytes(chunk[8:12], "little") for chunk in chunks]
    assert min(sizes[:4]) > MIB - 256 and max(sizes[4:]) <= 64 << 10, sizes
    assert sum(map(len, chunks[:4])) < 0.5 * 4 * MIB
    check_reference(m.stored("steps"), data)
    m.start()
    with open(path, "r+b", buffering=0) as f:
        for at in (5, 5 * MIB + 12_345, 9 * MIB - 3):
            data[at : at + 4097] = rng().bytes(4097)
            assert os.pwrite(f.fileno(), data[at : at + 4097], at) == 4097
        os.fsync(f.fileno())
    same_through_mount(path, data, seed=1)
    m.unmount()
    check_reference(m.stored("steps"), data, seed=2)
