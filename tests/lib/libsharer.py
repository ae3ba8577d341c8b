"""A process of the reference library that shares a frame with a mount: `python
libsharer.py WHAT FRAME [NUMBER]`.

It says a line when it is ready, and answers each line on its standard input with one.
"""

import fcntl
import json
import subprocess
import sys

PAGE = 4096


class Sharer:
    """The other process, from the test's side."""

    def __init__(self, what, path, *arguments):
        self.child = subprocess.Popen(
            [sys.executable, __file__, what, str(path), *map(str, arguments)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.child.stdout.readline() == "ready\n"

    def ask(self, line):
        self.tell(line)
        return self.answer()

    def tell(self, line):
        self.child.stdin.write(json.dumps(line) + "\n")
        self.child.stdin.flush()

    def answer(self):
        line = self.child.stdout.readline()
        assert line, "the other process ended"
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.child.stdin.close()
        assert self.child.wait(250) == 0 or error[0]


def versions(data):
    """The numbers that the pages of some bytes carry; None for a page that is torn."""
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    return [
        int.from_bytes(page[:4], "little") if page == page[:4] * (len(page) // 4) else None
        for page in pages
    ]


def page(version):
    return version.to_bytes(4, "little") * (PAGE // 4)


def read_all(schunk):
    with schunk.holding_lock():
        return b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks))


def serve(what, path):
    """One answer a line: reader: the versions of all pages; writer: writes a
    version everywhere; lock: holds one."""
    import blosc2

    if what == "lock":
        with open(path + ".b2lock", "a+b") as file:
            print("ready", flush=True)
            for line in sys.stdin:
                how = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX, "none": fcntl.LOCK_UN}[
                    json.loads(line)
                ]
                fcntl.flock(file, how)
                print(json.dumps("done"), flush=True)
        return
    schunk = blosc2.open(
        path, mode="r" if what == "reader" else "a", locking=True, dparams={"nthreads": 1}
    )
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if what == "reader":
            answer = versions(read_all(schunk))
        else:
            size, number = schunk.chunksize, order
            with schunk.holding_lock():
                for n in range(schunk.nchunks):
                    schunk.update_data(n, page(number) * (size // PAGE), copy=True)
                if number % 3 == 0:
                    schunk.append_data(page(number) * (size // PAGE))
            answer = schunk.nchunks
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:3])
