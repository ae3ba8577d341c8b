"""Power cuts at the frame layer: disks that a cut may leave are built in memory
and opened (tests/c/frame_crash.c)."""

import random
import re
import subprocess

import pytest

from libdata import KINDS, blob
from libmount import BUILD, REPO, SLOWNESS

MOST = 20_000  # bytes of a frame that stories begin with
FEWER = 1 if SLOWNESS == 1 else 3  # of the stories: a sanitizer sees the same calls in each


def crash(stories, states, seed, *args):
    done = subprocess.run(
        [BUILD / "tests/c/frame_crash", *map(str, (stories, states, seed)), *args],
        capture_output=True,
        text=True,
        timeout=300 * SLOWNESS,
    )
    found = re.search(r"(\d+) stories, (\d+) states, (\d+) recovered", done.stdout)
    return (
        done.returncode,
        done.stdout + done.stderr,
        found and int(found[2]),
        found and int(found[3]),
    )


@pytest.mark.parametrize("fail", [(), ("--fail",)], ids=["", "failing"])
@pytest.mark.parametrize("seed", range(4 if SLOWNESS == 1 else 1))
def test_every_disk_shows_a_state_that_was(seed, fail):
    """Whatever power leaves of the calls since the last sync: what was synced
    is there, and nothing is torn; the same where calls have failed before."""
    code, said, states, recovered = crash(60 // FEWER, 20, 1000 * seed, *fail)
    assert code == 0, said
    assert states > 15000 // FEWER and recovered > 1000 // FEWER, said


@pytest.mark.parametrize("fail", [(), ("--fail",)], ids=["", "failing"])
def test_what_a_checkpoint_has_synced_needs_no_proof(fail):
    """Roots that were not synced one by one; with failing syncs of both kinds before it."""
    code, said, states, recovered = crash(120 // FEWER, 20, 1, "--checkpoints", *fail)
    assert code == 0, said
    assert states > 30000 // FEWER and recovered > 2000 // FEWER, said
    assert int(re.search(r"(\d+) checkpoints", said)[1]) > 80 // FEWER, said


@pytest.mark.parametrize("fail", [(), ("--fail",)], ids=["", "failing"])
def test_what_is_kept_for_roots_on_a_full_disk_is_cut_off(fail):
    code, said, states, recovered = crash(60 // FEWER, 20, 3, "--full", *fail)
    assert code == 0, said
    assert states > 15000 // FEWER and recovered > 1000 // FEWER, said


def test_a_chunk_without_a_checksum_is_synced():
    """Memory was short when it was written: then nothing could prove it after a power cut."""
    code, said, states, recovered = crash(30 // FEWER, 20, 7, "--forget")
    assert code == 0, said
    assert states > 5000 // FEWER and recovered > 100 // FEWER, said


@pytest.mark.parametrize("fail", [(), ("--fail",)], ids=["", "failing"])
def test_chunks_too_many_for_checksums_need_no_recovery(fail):
    """Nothing could tell whether their bytes were overwritten since. So all of a root is synced
    before the header names it: recovery is left to roots that have holes alone."""
    code, said, states, recovered = crash(60 // FEWER, 20, 1000, "--bare", *fail)
    assert code == 0, said
    assert recovered < states / 50, said


def test_a_large_frame_whose_sync_was_cut_short():
    """Its root may be there without its chunks. Recovery does not verify all chunks of a large
    frame, but those that the sync was to get to the disk. One was missing in the fourth story."""
    code, said, _, _ = crash(40 // FEWER, 20, 0, "--fail", "--large")
    assert code == 0, said


@pytest.mark.parametrize("seed", [20274, 40272, 60553])
def test_a_root_without_its_header_does_not_come_back(seed):
    """A process is killed before it writes a header. The next one syncs the file as it finds it,
    and writes: a power cut then may not lead to the root that nobody has seen, though it is newer
    than what was synced. These are stories in which it did."""
    code, said, _, _ = crash(1, 8, seed, "--fail")
    assert code == 0, said


@pytest.mark.parametrize("fail", [(), ("--fail",)], ids=["", "failing"])
def test_nor_after_the_file_was_closed_again(fail):
    """The process that syncs it so writes nothing: what it found is to be told to the next."""
    code, said, states, recovered = crash(60 // FEWER, 20, 1, "--killed", *fail)
    assert code == 0, said
    assert states > 15000 // FEWER and recovered > 1000 // FEWER, said


def test_a_commit_after_a_failed_sync_waits_for_the_next():
    """What the failed one was to get to the disk may be gone, also from the kernel's cache: a root
    that is written without a sync would point to it. This is a story in which it did."""
    code, said, _, _ = crash(1, 20, 158, "--fail")
    assert code == 0, said


def test_a_header_in_the_place_of_a_fingerprint():
    """A root whose last sector did not get there: what the disk has in its place is a part of an
    older root's note, which looked like another program's fingerprint."""
    code, said, _, _ = crash(1, 20, 9252)
    assert code == 0, said


def another_program(path, rng):
    """A frame of the reference whose chunks were appended, replaced, inserted and deleted, perhaps
    all of them; with metalayers of both kinds, and perhaps with bytes behind its end."""
    import blosc2

    import libblosc

    item = rng.choice([1, 1, 3, 4, 8, 17, 300])
    size = rng.choice([512, 1000, 1024, 4096]) // item * item
    shape = {
        "typesize": item,
        "chunksize": size,
        "codec": rng.choice(libblosc.CODECS),
        "level": rng.choice([0, 1, 5, 9]),
        "filters": rng.choice([[], [libblosc.F.SHUFFLE]]),
        "blocksize": rng.choice([0, size // item // 4 * item or item]),
        "split": blosc2.SplitMode.AUTO_SPLIT,
        "meta": {f"m{i}": rng.randbytes(rng.choice([5, 600])) for i in range(rng.choice([0, 2]))},
    }
    path.unlink(missing_ok=True)
    writer = libblosc.Writer(path, shape)
    for i in range(rng.choice([0, 1, 15])):
        writer.schunk.vlmeta[f"v{i}"] = rng.randbytes(rng.choice([9, 3000]))
    for _ in range(rng.choice([0, 1, 8, 20])):
        data, n = blob(rng.random(), size, rng.choice(KINDS)), len(writer.chunks)
        kind = rng.choice(["append", "append", "update", "insert", "delete"])
        if kind in ("append", "insert") and (n + 1) * size > MOST:
            continue
        if kind == "append":
            writer.append(data)
        elif kind == "insert":
            writer.insert(rng.randrange(n + 1), data)
        elif n and kind == "update":
            writer.update(rng.randrange(n), data)
        elif n:
            writer.delete(rng.randrange(n))
    while rng.randrange(6) == 0 and writer.chunks:
        writer.delete(0)
    del writer
    if rng.randrange(4) == 0:
        with path.open("ab") as file:
            file.write(rng.randbytes(2000))


@pytest.mark.parametrize("fail", [(), ("--fail",), ("--killed",)], ids=["", "failing", "killed"])
def test_every_disk_of_another_programs_frame(work, blosc2, fail):
    """The same from frames of the reference: where the trailer of an empty root must go lie chunks
    of theirs, and their metalayers stay as they are."""
    path = work / "f.b2frame"
    for seed in range(40 if SLOWNESS == 1 else 4):
        another_program(path, random.Random(f"{seed} {fail}"))
        code, said, _, _ = crash(12, 8, 1000 * seed, "--from", path, *fail)
        assert code == 0, f"{seed}: {said}"


@pytest.mark.parametrize("fail", [(), ("--fail",)], ids=["", "failing"])
def test_every_disk_of_a_frame_whose_chunks_are_single_bytes(fail):
    """Thousands of calls lie between two syncs."""
    path = REPO / "tests/data/frames/tiny-1byte.b2frame"
    code, said, _, recovered = crash(6 // FEWER, 4, 1000, "--from", path, *fail)
    assert code == 0 and recovered > 0, said


@pytest.mark.release
@pytest.mark.parametrize("every", [2, 3, 5, 9])
def test_a_skipped_sync_is_noticed(every):
    """The negative control: with every n-th sync left out, disks must show up
    that lost something."""
    code, said, _, _ = crash(300, 20, 1, "--skip-sync", str(every))
    assert code == 1, said
