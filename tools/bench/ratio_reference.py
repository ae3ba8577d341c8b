"""What the Blosc2 library itself makes of a file when it is told the best of a
few filters, a typesize and zstd level 1.

    ratio_reference.py FILE...

Prints {file: bytes}: chunks of 1 MiB, the best of {none, shuffle, bitshuffle} x
{1, 2, 4, 8} for all of each file.
"""

import json
import sys

import blosc2

CHUNK = 1 << 20


def stored(data, filt, typesize):
    return sum(
        len(
            blosc2.compress2(
                data[at : at + CHUNK],
                codec=blosc2.Codec.ZSTD,
                clevel=1,
                typesize=typesize,
                filters=[filt],
                filters_meta=[0],
                nthreads=1,
            )
        )
        for at in range(0, len(data), CHUNK)
    )


def best(path):
    with open(path, "rb") as f:
        data = f.read()
    tried = [(blosc2.Filter.NOFILTER, 1)]
    tried += [
        (f, size)
        for f in (blosc2.Filter.SHUFFLE, blosc2.Filter.BITSHUFFLE)
        for size in (1, 2, 4, 8)
        if f == blosc2.Filter.BITSHUFFLE or size > 1
    ]
    return min(stored(data, *one) for one in tried)


if __name__ == "__main__":
    print(json.dumps({path: best(path) for path in sys.argv[1:]}))
