"""The reference library as an oracle: how it reads a frame, and frames that it writes.

Its own defects (FORMAT.md 18) are avoided: at most two filters, block sizes that are
multiples of the typesize, delta only on whole words, one thread, and no schunk[:] of
frames whose chunks differ in size (that ends the process).
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import traceback

import blosc2

CODECS = [
    blosc2.Codec.BLOSCLZ,
    blosc2.Codec.LZ4,
    blosc2.Codec.LZ4HC,
    blosc2.Codec.ZLIB,
    blosc2.Codec.ZSTD,
]
F = blosc2.Filter
PIPELINES = [
    [],
    [F.SHUFFLE],
    [F.BITSHUFFLE],
    [F.DELTA],
    [F.DELTA, F.SHUFFLE],
    [F.DELTA, F.BITSHUFFLE],
    [F.SHUFFLE, F.BITSHUFFLE],
    [F.TRUNC_PREC, F.SHUFFLE],
]
SPLITS = list(blosc2.SplitMode)


def open_frame(path, mode="r"):
    return blosc2.open(str(path), mode=mode, dparams={"nthreads": 1})


def chunk_bytes(schunk):
    """All bytes, chunk by chunk, including a tail that is shorter than an item."""
    return b"".join(schunk.decompress_chunk(i) for i in range(schunk.nchunks))


def whole_frame(path):
    """The bytes of a frame, chunk by chunk; reads every metalayer as well."""
    schunk = open_frame(path)
    for name in list(schunk.meta):
        assert schunk.meta[name] is not None
    schunk.vlmeta.getall()
    return chunk_bytes(schunk)


def chunk_heads(schunk):
    """[(typesize, blocksize, filters)] of the chunks, from their own headers. Holes have none: the
    library makes such a chunk up, and get_chunk of one has crashed."""
    heads = []
    for info in schunk.iterchunks_info():
        if info.special != blosc2.SpecialValue.NOT_SPECIAL:
            heads.append((schunk.typesize, 0, set()))
        else:
            head = schunk.get_chunk(info.nchunk)[:32]
            heads.append((head[3], int.from_bytes(head[8:12], "little"), set(head[16:22])))
    return heads


def slice_is_trusted(schunk, lo, hi, heads=None):
    """False for the slices (in bytes) that the reference (4.14.1) cannot do, of whatever frame:
    it refuses those that cut an item of a chunk whose typesize is larger than the header's; it
    reads wrongly pieces of a delta chunk, and pieces of a stored chunk as long as a block that
    do not start at one."""
    heads = heads or chunk_heads(schunk)
    size = schunk.chunksize
    for start in range(lo - lo % size, hi, size):
        item, block, filters = heads[start // size]
        whole = min(size, schunk.nbytes - start)
        first, last = max(lo - start, 0), min(hi - start, whole)
        if last - first == whole:
            continue
        if first % item or last % item or F.DELTA.value in filters:
            return False
        if block and last - first in (block, whole % block) and first % block:
            return False
    return True


def check(path, expect, rng):
    """The reference opens the frame at `path`, and reads `expect` from it in every way."""
    schunk = open_frame(path)
    assert schunk.nbytes == len(expect)
    assert chunk_bytes(schunk) == expect
    item = schunk.typesize
    items = len(expect) // item
    assert items * item == len(expect), "the reference cannot see the tail"
    if not items:
        return
    assert schunk[:] == expect
    heads = chunk_heads(schunk)
    step = max(1, max(head[0] for head in heads) // item)
    for _ in range(6):
        lo = rng.randrange(items)
        hi = min(rng.randrange(lo + 1, items + 1) // step * step + step, items)
        lo -= lo % step
        if slice_is_trusted(schunk, lo * item, hi * item, heads):
            assert schunk[lo:hi] == expect[lo * item : hi * item], (lo, hi)
    piece = 6000 // (step * item) * step + step
    for _ in range(20):
        schunk = open_frame(path)  # it keeps the buffers of one slice for the next
        for _ in range(3):
            lo = rng.randrange(items) // step * step
            hi = min(lo + piece, items)
            if slice_is_trusted(schunk, lo * item, hi * item, heads):
                assert schunk[lo:hi] == expect[lo * item : hi * item], (lo, hi)


class Writer:
    """Builds a frame with the reference, and remembers the plain bytes of its chunks."""

    def __init__(self, path, shape):
        lossy = F.TRUNC_PREC in shape["filters"]
        metas = [(10 if f == F.TRUNC_PREC else 0) for f in shape["filters"]]
        self.lossy = lossy
        self.typesize = shape["typesize"]
        self.chunksize = shape["chunksize"]
        cparams = {
            "codec": shape["codec"],
            "clevel": shape["level"],
            "typesize": self.typesize,
            "nthreads": 1,
            "filters": shape["filters"] + [F.NOFILTER] * (6 - len(metas)),
            "filters_meta": metas + [0] * (6 - len(metas)),
            "blocksize": shape["blocksize"],
            "splitmode": shape["split"],
        }
        self.schunk = blosc2.SChunk(
            chunksize=self.chunksize,
            urlpath=str(path),
            mode="w",
            contiguous=True,
            cparams=cparams,
            dparams={"nthreads": 1},
            meta=shape.get("meta"),
        )
        self.chunks = []

    def append(self, data):
        self.schunk.append_data(data)
        self.chunks.append(data)

    def insert(self, at, data):
        self.schunk.insert_data(at, data, copy=True)
        self.chunks.insert(at, data)

    def update(self, at, data):
        self.schunk.update_data(at, data, copy=True)
        self.chunks[at] = data

    def delete(self, at):
        self.schunk.delete_chunk(at)
        del self.chunks[at]

    def bytes(self):
        """The content of the frame; with a lossy pipeline, as the reference reads it."""
        return chunk_bytes(self.schunk) if self.lossy else b"".join(self.chunks)


class Apart:
    """check() in a process of its own, whose heap is guarded: the library has been seen to write
    past its buffers when chunks of one block size differ in typesize. Such a frame must fail a
    test, not end it."""

    def __init__(self):
        self.child = None

    def start(self):
        guard = {"LD_PRELOAD": "libc_malloc_debug.so.0", "GLIBC_TUNABLES": "glibc.malloc.check=3"}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.child = subprocess.Popen(
            [sys.executable, __file__],
            text=True,
            env={**os.environ, **guard},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )

    def check(self, path, expect, seed):
        if self.child is None:
            self.start()
        with tempfile.NamedTemporaryFile() as file:
            file.write(expect)
            file.flush()
            self.child.stdin.write(json.dumps([str(path), file.name, seed]) + "\n")
            self.child.stdin.flush()
            answer = self.child.stdout.readline()
        if not answer:
            code, self.child = self.child.wait(), None
            self.errors.seek(0)
            raise AssertionError(
                f"reading {path} ended the reference ({code}): {self.errors.read()[-500:]}"
            )
        assert answer == "ok\n", json.loads(answer)

    def close(self):
        if self.child:
            self.child.stdin.close()
            self.child.wait()


def serve():
    for line in sys.stdin:
        path, expected, seed = json.loads(line)
        try:
            with open(expected, "rb") as f:
                check(path, f.read(), random.Random(seed))
            print("ok", flush=True)
        except Exception:
            print(json.dumps(traceback.format_exc()[-3000:]), flush=True)


if __name__ == "__main__":
    serve()
