"""Changes of a file that old content, on its way into the kernel's page cache, must not cover."""

import os

PAGE = 4096
NEW = b"new." * (PAGE // 4)  # a whole page, of which the kernel needs nothing first


def write(path):
    with open(path, "r+b", buffering=0) as f:
        f.write(NEW)


def shorten(path):
    os.truncate(path, 100)


def shorten_and_append(path):
    with open(path, "wb") as f:
        f.write(b"new")
    with open(path, "ab") as f:
        f.write(b" and more")


CHANGES = {
    write: lambda old: NEW + old[PAGE:],
    shorten: lambda old: old[:100],
    shorten_and_append: lambda old: b"new and more",
}
