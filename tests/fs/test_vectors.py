"""Frames made elsewhere, read through the mount: size and digest of their manifests."""

import itertools
import json
import mmap
import os
import re
import shutil

import pytest

from libdata import VECTORS, file_sha256, sha256
from libmount import REPO
from libposix import (
    KEEP_SIZE,
    PUNCH_HOLE,
    RENAME_EXCHANGE,
    error_of,
    fallocate,
    read_direct,
    renameat2,
)

HERE = REPO / "tests/data/frames"
SUFFIX = re.compile(r"\.(b2frame|b2f|b2)$")


def manifest(folder):
    path = folder / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else []


def cases(folder):
    return [
        pytest.param(folder, entry, id=entry["name"])
        for entry in manifest(folder)
        if (folder / entry["name"]).exists()
    ]


@pytest.fixture(scope="module")
def shown(module_mount):
    """shown(path of a frame) -> a copy of it in the mount's backing directory."""

    def place(source):
        folder = "-".join(source.parts[-3:-1])
        target = module_mount.backing / folder / source.name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        return module_mount.mnt / folder / SUFFIX.sub("", source.name)

    return place


def check(path, entry):
    assert path.is_file() and path.stat().st_size == entry["nbytes"]
    assert file_sha256(path) == entry["sha256"]
    assert sha256(read_direct(path, entry["nbytes"])) == entry["sha256"]
    with open(path, "rb") as f:  # a few places, out of order
        whole = f.read()
        for at in (len(whole) - 1, len(whole) // 2, len(whole) // 3 + 1, 0):
            assert os.pread(f.fileno(), 5000, max(at, 0)) == whole[max(at, 0) : max(at, 0) + 5000]


def check_array(path, entry):
    import numpy as np

    path = path.with_suffix(".npy")
    array = np.load(path)
    assert sha256(array.tobytes()) == entry["array_sha256"]
    assert (
        path.stat().st_size % 64 == entry["array_nbytes"] % 64
        and array.nbytes == entry["array_nbytes"]
    )
    shape, dtype = re.search(r"dtype (\S+) shape \[(.*?)\]", entry["note"]).groups()[::-1]
    assert list(array.shape) == json.loads(f"[{shape}]") and array.dtype.str == dtype
    assert array.flags.c_contiguous and np.load(path, mmap_mode="r").tobytes() == array.tobytes()


def check_frame(shown, folder, entry):
    path = shown(folder / entry["name"])
    (check_array if path.suffix == ".b2nd" else check)(path, entry)


def test_the_project_brings_vectors():
    """Not one directory of pytest parameters that happens to be empty."""
    assert len(cases(HERE)) >= 20, f"{HERE} has no manifest.json with frames"


@pytest.mark.parametrize("folder, entry", cases(HERE))
def test_own_vector(shown, folder, entry):
    check_frame(shown, folder, entry)


def need(folder):
    if not (folder / "manifest.json").exists():
        pytest.skip(f"no vectors in {folder}: set CFRAMEFS_VECTORS")


def test_shared_vectors(shown, subtests):
    need(VECTORS / "frames")
    listed = cases(VECTORS / "frames")
    assert len(listed) == 154
    for case in listed:
        with subtests.test(case.id):
            check_frame(shown, *case.values)


def test_beta_frames(shown, subtests):
    """Frames that today's reference no longer reads: FORMAT.md 11. Ours does."""
    need(VECTORS / "beta")
    for case in cases(VECTORS / "beta"):
        with subtests.test(case.id):
            check(shown(case.values[0] / case.id), case.values[1])


def reference_bytes(blosc2, path):
    """What the reference makes of a frame; None when it refuses."""
    try:
        chunks = blosc2.open(str(path), mode="r")
        chunks = getattr(chunks, "schunk", chunks)
        return b"".join(chunks.decompress_chunk(i) for i in range(chunks.nchunks))
    except (RuntimeError, ValueError):
        return None


def mounted_with(mount, source):
    """A mount with a frame of others, of which its log may speak."""
    if not source.exists():
        pytest.skip(f"{source} is absent")
    m = mount(start=False).allow(re.escape(source.stem))
    shutil.copy(source, m.backing)
    return m.start()


READ_ONLY = ["varchunks-lz4-3.0.0", "vlblocks-lz4-fixed-3.0.0", "vlblocks-lz4-variable-3.0.0"]


@pytest.mark.parametrize("name", READ_ONLY)
def test_compat_frame_is_read_or_refused(mount, blosc2, name):
    """Third-party frames, read where they are. Right bytes, or EIO and a log
    line, or plain bytes and a log line."""
    source = VECTORS / "compat" / f"{name}.b2frame"
    m = mounted_with(mount, source)
    expect = reference_bytes(blosc2, source)
    if os.listdir(m.mnt) == [source.name]:
        assert (m.mnt / source.name).read_bytes() == source.read_bytes()
        m.expect_log(re.escape(name))
    elif error := error_of((m.mnt / name).read_bytes):
        assert error == "EIO"
        m.expect_log(re.escape(name))
    else:
        assert expect is not None and (m.mnt / name).read_bytes() == expect


@pytest.mark.parametrize("name", [*READ_ONLY, "beta"])
@pytest.mark.parametrize("change", ["write", "copy", "truncate", "allocate", "punch"])
def test_a_frame_that_is_only_read_takes_the_place_of_one_that_is_written(mount, name, change):
    """Another program writes it over a file that is open here: EROFS, and the daemon goes on."""
    compat = VECTORS / "compat" / f"{name}.b2frame"
    source = next((HERE / "beta").glob("*.b2frame")) if name == "beta" else compat
    if not source.exists():
        pytest.skip(f"{source} is absent")
    m = mount("attr_timeout=0,entry_timeout=0,commit=0.1").allow("f.b2frame")
    (m.mnt / "source").write_bytes(bytes(300_000))
    (m.mnt / "f").write_bytes(b"x" * 70_000)
    from_fd, fd = (
        os.open(m.mnt / "source", os.O_RDONLY),
        os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT),
    )
    m.stored("f").write_bytes(source.read_bytes())
    os.close(os.open(m.mnt / "f", os.O_RDONLY))  # looks, and reads it anew
    page = mmap.mmap(-1, 4096)
    calls = {
        "write": lambda: os.pwrite(fd, page, 0),
        "copy": lambda: os.copy_file_range(from_fd, fd, 10_000, 200_000, 100),
        "truncate": lambda: os.ftruncate(fd, 5),
        "allocate": lambda: os.posix_fallocate(fd, 0, 1_000_000),
        "punch": lambda: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096),
    }
    assert error_of(calls[change]) == "EROFS"
    os.fsync(fd)
    os.close(fd)
    os.close(from_fd)
    assert m.stored("f").read_bytes() == source.read_bytes()
    assert error_of(os.open, m.mnt / "f", os.O_RDWR) == "EROFS"


def assemble(array):
    """The items of a b2nd array in C order, put together from its decoded
    chunks (FORMAT.md 14.3)."""
    import numpy as np

    item = array.schunk.typesize
    out = np.zeros([-(-n // c) * c for n, c in zip(array.shape, array.chunks)], dtype=f"V{item}")
    grid = [range(0, n, c) for n, c in zip(out.shape, array.chunks)]
    padded = [-(-c // b) * b for c, b in zip(array.chunks, array.blocks)]
    for number, corner in enumerate(itertools.product(*grid)):
        items = np.frombuffer(array.schunk.decompress_chunk(number), dtype=f"V{item}")
        chunk = np.zeros(padded, dtype=f"V{item}")
        for i, place in enumerate(
            itertools.product(*[range(0, p, b) for p, b in zip(padded, array.blocks)])
        ):
            size = int(np.prod(array.blocks))
            chunk[tuple(slice(x, x + b) for x, b in zip(place, array.blocks))] = items[
                i * size : (i + 1) * size
            ].reshape(array.blocks)
        out[tuple(slice(x, x + c) for x, c in zip(corner, array.chunks))] = chunk[
            tuple(slice(0, c) for c in array.chunks)
        ]
    return out[tuple(slice(0, n) for n in array.shape)]


@pytest.mark.parametrize("name", ["example_day_month_temp", "example_item_prices"])
def test_compat_array(mount, blosc2, name):
    """Arrays whose dtype is not as wide as their items: the reference cannot
    slice them, we give the items as they are."""
    import numpy as np

    source = VECTORS / "compat" / f"{name}.b2nd"
    m = mounted_with(mount, source)
    if os.listdir(m.mnt) == [f"{name}.npy"]:
        expect = assemble(blosc2.open(str(source), mode="r"))
        mine = np.load(m.mnt / f"{name}.npy")
        assert mine.shape == expect.shape and mine.tobytes() == expect.tobytes()
    else:
        m.expect_log(re.escape(name))


@pytest.mark.parametrize("name", ["sparse", "edited-sframe"])
def test_sparse_frame_is_a_read_only_file(mount, name):
    source = next(
        (
            d / f"{name}.b2frame"
            for d in (HERE, VECTORS / "frames")
            if (d / f"{name}.b2frame").exists()
        ),
        None,
    )
    if source is None:
        pytest.skip("no sparse frame among the vectors")
    entry = next(e for e in manifest(source.parent) if e["name"] == source.name)
    m = mount(start=False)
    shutil.copytree(source, m.backing / source.name)
    m.start()
    assert os.listdir(m.mnt) == [name]
    check(m.mnt / name, entry)
    refused = ("EROFS", "EACCES", "EPERM")
    assert error_of(os.open, m.mnt / name, os.O_WRONLY) in refused
    assert error_of(os.truncate, m.mnt / name, 0) in refused
    (m.mnt / "new").write_bytes(b"a frame")
    (m.backing / "old").write_bytes(b"a plain file")
    assert error_of(os.unlink, m.mnt / name) == "EROFS"
    for other in ("new", "old", "absent"):
        assert error_of(os.rename, m.mnt / name, m.mnt / other) == "EROFS"
        if other != "absent":
            assert error_of(os.rename, m.mnt / other, m.mnt / name) == "EROFS"
            for pair in (name, other), (other, name):
                sides = (m.mnt / side for side in pair)
                assert error_of(renameat2, *sides, RENAME_EXCHANGE) == "EROFS"
    assert sorted(os.listdir(m.mnt)) == sorted([name, "new", "old"])
    check(m.mnt / name, entry)
    assert error_of(os.listdir, m.mnt / name) == "ENOTDIR"
