"""Which root a frame goes back to, of disks that are dear to make at random: many roots behind the
newest synced one, many bytes behind all of them, many that have to prove themselves."""

import mmap
import os
import platform
import struct
import subprocess
import time

import pytest

from libdata import blob
from libmount import CFRAME, another_mount
from libposix import error_of
from libstats import stats

KiB, MiB = 1 << 10, 1 << 20
OPTIONS = "commit=0,intent=0,level=0"
WENT_BACK = "went back to its newest whole state"


def spoil(path, at, size=64):
    """What was written there did not get to the disk."""
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(bytes(size))


def synced(path, data):
    with open(path, "wb", buffering=0) as f:
        f.write(data)
        os.fsync(f.fileno())


def append(path, data):
    with open(path, "ab", buffering=0) as f:
        f.write(data)


def spoil_newest_root(path):
    """That is at the end of the file."""
    spoil(path, path.stat().st_size - 200, 150)


def need_mounts_told_apart():
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 8):
        pytest.skip("mounts are not told apart here")


def without_its_last_chunk(mount):
    """A file whose last chunk never got to the disk, and its killed mount: (mount, what was synced,
    the chunk, the place of 64 of its bytes that are missing)."""
    need_mounts_told_apart()
    m = mount(f"{OPTIONS},chunksize=4K,blocksize=4K")
    data, lost = blob(1, 8 * KiB, "noise"), blob(2, 4 * KiB, "noise")
    synced(m.mnt / "f", data)
    append(m.mnt / "f", lost)
    assert m.kill()  # no checkpoint
    at = m.stored("f").read_bytes().index(lost[1000:2000])
    spoil(m.stored("f"), at)
    return m, data, lost, at


@pytest.mark.parametrize("closes", [1, 50, 200])
def test_many_roots_that_lack_the_same_chunk(mount, closes):
    m = mount(f"{OPTIONS},chunksize=64K,blocksize=64K")
    # so much that what the roots leave behind, 2 KB each at most, is not worth a sync
    # (frame_space_outgrown)
    data, lost = blob(1, 1664 * KiB, "noise"), blob(2, 64 * KiB, "noise")
    synced(m.mnt / "f", data)
    append(m.mnt / "f", lost)
    for i in range(closes):
        append(m.mnt / "f", b"%d" % i)
    m.unmount()
    there = m.stored("f").read_bytes()
    spoil(m.stored("f"), there.index(lost[3000:3100]))
    spoil_newest_root(m.stored("f"))
    m.start().allow(WENT_BACK)
    assert (m.mnt / "f").read_bytes() == data


def before_a_spoilt_root(mount):
    """A mount that has ended, and what its file f has without the last append."""
    m = mount(OPTIONS)
    data = blob(1, 10_000, "noise")
    synced(m.mnt / "f", data)
    append(m.mnt / "f", b"more")
    m.unmount()
    spoil_newest_root(m.stored("f"))
    return m, data


@pytest.mark.release  # a sanitizer takes minutes for looking through it
def test_many_bytes_behind_the_roots(mount):
    """Of a stream that no commit came for."""
    m, data = before_a_spoilt_root(mount)
    os.truncate(m.stored("f"), 17 << 30)
    m.start().allow(WENT_BACK)
    # on a busy machine the append may have had two commits
    assert (m.mnt / "f").read_bytes() in (data, data + b"more")
    m.expect_log(WENT_BACK)


def test_many_bytes_to_prove(mount, root):
    """Large changes that were not synced, of which the disk lacks the last chunk."""
    need_mounts_told_apart()
    size = 70 * MiB
    m = mount(OPTIONS.replace("level=0", "level=1"))
    data = b"old data" * (size // 8)  # of which so little is stored that no commit has to sync
    synced(m.mnt / "f", data)
    noise = blob(2, MiB, "noise")
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        for at in range(0, size, MiB):
            f.write(at.to_bytes(8, "little") + noise[8:])
    assert m.kill()  # no checkpoint
    with open(m.stored("f"), "rb") as f:
        last = f.read().rindex(noise[1000:2000])
    spoil(m.stored("f"), last)
    with another_mount(m.backing) as backing:
        again = mount("", backing=backing).allow(WENT_BACK)
        got = (again.mnt / "f").read_bytes()
        again.unmount()
    assert len(got) == size
    for at in range(0, size, MiB):  # it was committed in parts
        new = at.to_bytes(8, "little") + noise[8:]
        assert got[at : at + MiB] in (data[at : at + MiB], new), at


def test_a_reader_of_what_went_back(mount, root):
    """The last chunk never got to the disk, which only those find out who open the file: its size
    is the older one for the first of them, with nothing behind its end."""
    m, data, *_ = without_its_last_chunk(mount)
    with another_mount(m.backing) as backing:
        again = mount("attr_timeout=60", backing=backing).allow(WENT_BACK)
        os.stat(again.mnt / "f")
        got = (again.mnt / "f").read_bytes()
        assert os.stat(again.mnt / "f").st_size == len(data)
        again.unmount()
    assert got == data


@pytest.mark.parametrize("how", [os.O_RDONLY, os.O_RDWR], ids=["reader", "writer"])
def test_a_sync_of_what_went_back_is_for_other_programs_too(mount, how):
    """They have locked the file, and cannot open it before its header leads to what there is."""
    m, data = before_a_spoilt_root(mount)
    (m.backing / "f.b2frame.b2lock").write_bytes(bytes(16))
    m.start().allow(WENT_BACK)
    assert (m.mnt / "f").read_bytes() == data
    fd = os.open(m.mnt / "f", how)
    os.fsync(fd)
    os.close(fd)
    checked = subprocess.run([CFRAME, "verify", m.backing], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_a_reader_of_what_went_back_and_has_just_changed(mount, root):
    """What opening it has shown still holds when its time stamps have become reliable."""
    m, data, *_ = without_its_last_chunk(mount)
    with another_mount(m.backing) as backing:
        again = mount("entry_timeout=0,attr_timeout=0", backing=backing).allow(WENT_BACK)
        os.utime(backing / "f.b2frame")
        for _ in range(3):
            got = (again.mnt / "f").read_bytes()
            time.sleep(0.06)  # more than BACKING_STEP_NS
            assert (got, os.stat(again.mnt / "f").st_size) == (data, len(data))
        again.unmount()


def test_many_roots_that_all_reach_through_the_file(mount):
    """No daemon of ours leaves such a file. Looking for its newest root takes time in proportion to
    its length, not to that times the roots."""
    m = mount(OPTIONS)
    synced(m.mnt / "f", blob(1, 1000, "noise"))
    m.unmount()
    raw = m.stored("f").read_bytes()
    header_len, (frame_len,) = struct.unpack(">i", raw[11:15])[0], struct.unpack(">Q", raw[16:24])
    trailer = raw[frame_len - struct.unpack(">I", raw[frame_len - 22 : frame_len - 18])[0] :]
    trailer, size = trailer[: len(trailer) - (len(raw) - frame_len)], 8 * MiB
    roots = bytearray()
    for _ in range(1000):
        end = struct.pack(">Q", size + len(roots) + len(trailer))
        root = raw[:16] + end + raw[24:87]
        roots += trailer[:-16].replace(raw[:87], root) + bytes(8) + trailer[-8:]
    with open(m.stored("f"), "wb") as f:
        f.write(raw[:16] + end + raw[24:header_len])
        f.seek(size)
        f.write(roots)
    m.start().allow("fingerprint of the frame")
    before = stats(m)["read"]["disk_bytes"]
    for name in os.listdir(m.mnt):
        error_of((m.mnt / name).read_bytes)
    # 2 to 4 lookups, each of which begins anew; it was 1000 * size for one
    assert 0 < stats(m)["read"]["disk_bytes"] - before < 128 * size
    m.unmount()


@pytest.mark.release  # a sanitizer takes minutes for a million blocks
def test_a_chunk_of_many_blocks_is_verified(mount):
    """Its head, with a million blocks, takes more memory than those of others; the root that holds
    it is whole for all that."""
    m = mount("chunksize=64M,blocksize=64,dirty_max=128M,pipeline=lz4")
    path, old = m.backing / "f.b2frame", (b"\1" * 60 + b"abcd") * MiB
    synced(m.mnt / "f", old)
    m.unmount()
    before = path.read_bytes()
    m.start()
    append(m.mnt / "f", b"more")
    m.unmount()
    path.write_bytes(path.read_bytes()[:87] + before[87:])
    m.allow(WENT_BACK)
    m.start()
    with open(m.mnt / "f", "rb", buffering=0) as f:  # all of it takes 15 s
        for at in (0, 40 * MiB, 63 * MiB):
            assert os.pread(f.fileno(), MiB, at) == old[at : at + MiB]
        assert os.fstat(f.fileno()).st_size == len(old)
    m.expect_log(WENT_BACK)
    m.unmount()


def test_a_chunk_of_large_blocks_with_delta_proves_itself(mount, root):
    """Its first block is decoded with its head."""
    m = mount("commit=0,chunksize=32M,blocksize=16M,dirty_max=64M,pipeline=delta+lz4")
    data = b"".join(n.to_bytes(4, "big") + bytes(60) for n in range(32 * MiB // 64))
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    with another_mount(m.backing) as backing:
        again = mount("", backing=backing)
        assert (again.mnt / "f").read_bytes() == data
        again.unmount()


@pytest.mark.parametrize("how", ["reader", "writer", "reader later", "writer later"])
def test_damage_of_what_was_synced_after_its_close(mount, root, how):
    """The commit of the close says that its chunks have to prove themselves. The fsync ends that:
    one chunk that is damaged after it does not cost the others, and brings back no older ones."""
    need_mounts_told_apart()
    m = mount(f"{OPTIONS},chunksize=64K,intent=0")
    new = blob(2, MiB, "noise")
    synced(m.mnt / "f", blob(1, MiB, "noise"))
    (m.mnt / "f").write_bytes(new)
    os.utime(m.mnt / "f", (1_000_000_000, 1_000_000_000))
    if "later" in how:
        m.remount()
    fd = os.open(m.mnt / "f", os.O_RDONLY if "reader" in how else os.O_RDWR)
    os.fsync(fd)
    os.close(fd)
    m.unmount()
    assert m.stored("f").stat().st_mtime == 1_000_000_000
    spoil(m.stored("f"), m.stored("f").read_bytes().index(new[200_000:201_000]))
    with another_mount(m.backing) as backing:
        again = mount("", backing=backing).allow("checksum of a chunk")
        with open(again.mnt / "f", "rb", buffering=0) as f:
            for at in range(0, MiB, 64 * KiB):
                if at == 192 * KiB:
                    assert error_of(os.pread, f.fileno(), 64 * KiB, at) == "EIO"
                else:
                    assert os.pread(f.fileno(), 64 * KiB, at) == new[at : at + 64 * KiB]
        again.unmount()


@pytest.mark.parametrize("how", [os.O_RDONLY, os.O_RDWR], ids=["reader", "writer"])
@pytest.mark.parametrize("data", [b"data", b""], ids=["data", "empty"])
def test_a_sync_is_told_to_the_next_process(mount, how, data):
    """That of a file which it has found so. Once: then the file stays as it is."""
    m = mount(OPTIONS)
    synced(m.mnt / "f", data)
    os.utime(m.mnt / "f", (1_000_000_000, 1_000_000_000))
    for told in range(3):
        m.remount()
        before = m.stored("f").read_bytes()
        fd = os.open(m.mnt / "f", how)
        os.fsync(fd)
        changed, after = m.stored("f").stat(), m.stored("f").read_bytes()
        os.fsync(fd)
        os.close(fd)
        fd = os.open(m.mnt / "f", how)
        os.fsync(fd)
        os.close(fd)
        assert m.stored("f").stat().st_ctime_ns == changed.st_ctime_ns
        assert changed.st_mtime == 1_000_000_000
        assert after[:-16] == before[:-16]
        if data:
            assert after[-8:] == bytes(7) + b"\1" and (after == before) == (told > 0)
        else:
            assert after[-8:] > before[-8:]


def test_a_reader_of_a_file_that_is_left_to_another_inode_writes_nothing(mount):
    """Where it would say that the root is durable, that of a new writer may be by then, or a chunk
    that has taken its place."""
    m = mount(f"{OPTIONS},entry_timeout=0,attr_timeout=0")
    (m.mnt / "f").write_bytes(b"old")
    old = os.open(m.mnt / "f", os.O_RDONLY)
    with open(m.mnt / "f", "r+b") as f:
        f.write(b"new")
    os.utime(m.stored("f"), (1_000_000_000, 1_000_000_000))
    new = os.open(m.mnt / "f", os.O_RDONLY)
    stages = [m.stored("f").read_bytes()]
    for fd in old, new:
        os.fsync(fd)
        stages.append(m.stored("f").read_bytes())
        assert os.pread(fd, 9, 0) == b"new"
        os.close(fd)
    assert stages[0] == stages[1] != stages[2]


def test_a_sync_vouches_for_no_damage(mount):
    """An index that has changed since it was loaded: opening the file is to find that, and the
    state of before."""
    m = mount(f"{OPTIONS},chunksize=4K,blocksize=4K")
    data, path = blob(1, 8 * KiB, "noise"), m.mnt / "f"
    synced(path, data)
    append(path, b"more")
    assert m.kill()
    m.start()
    with open(path, "r+b", buffering=0) as f:
        raw = m.stored("f").read_bytes()
        last = struct.pack("<Q", raw.index(b"more") - 32 - struct.unpack(">i", raw[11:15])[0])
        spoil(m.stored("f"), raw.index(last), 8)
        os.fsync(f.fileno())
    assert m.kill()
    m.start().allow(WENT_BACK)
    assert path.read_bytes() == data


def test_a_reader_of_what_went_back_and_is_whole_again(mount, root):
    """The lost chunk comes later, and no time stamp says so, as they are too young for that."""
    m, data, lost, at = without_its_last_chunk(mount)
    there = lost[1000:1064]
    with another_mount(m.backing) as backing:
        again = mount("entry_timeout=0,attr_timeout=0", backing=backing).allow(WENT_BACK)
        stored = backing / "f.b2frame"
        with open(stored, "r+b") as f, mmap.mmap(f.fileno(), 0) as pages:
            pages[at] = 0  # from here on they are written without the kernel
            for _ in range(100):  # until the mount has looked before the stamp was old
                os.utime(stored)
                before, began = os.stat(stored), time.monotonic()
                assert (again.mnt / "f").read_bytes() == data
                if time.monotonic() - began < 0.04:
                    break
            pages[at : at + 64] = there
            assert os.stat(stored) == before
        time.sleep(0.06)  # more than BACKING_STEP_NS
        assert os.stat(again.mnt / "f").st_size == len(data + lost)
        assert (again.mnt / "f").read_bytes() == data + lost
        again.unmount()
