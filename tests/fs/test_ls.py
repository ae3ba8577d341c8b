"""cframe ls: what is stored of files, in a backing directory and in a mount."""

import json
import os
import subprocess

from libcompress import as_nobody
from libdata import blob
from libmount import CFRAME, REPO

FRAME = REPO / "tests/data/frames/text-zstd.b2frame"


def ls(*args, code=0):
    """{file: (stored, size, ratio)}, and what was said on standard error."""
    got = subprocess.run([CFRAME, "ls", *args], capture_output=True, text=True)
    assert got.returncode == code, got
    header, *rows = got.stdout.splitlines() or [""]
    assert header.split() == (["stored", "size", "ratio", "file"] if rows else [])
    cells = [row.split(None, 3) for row in rows]
    return {name: (int(a), int(b), float(c)) for a, b, c, name in cells}, got.stderr


def test_both_sides_say_the_same(mount, blosc2):
    m = mount()
    sizes = {"big file": 3_000_000, "sub/one": 1, "sub/empty": 0}
    (m.mnt / "sub").mkdir()
    for name, size in sizes.items():
        (m.mnt / name).write_bytes(blob(1, size, "text"))
    (m.mnt / "link").symlink_to("big file")
    (m.backing / "plain.txt").write_bytes(b"plain")
    blosc2.asarray(blob(1, 800, "text"), urlpath=str(m.backing / "a.b2nd"))
    for name in sizes:
        with open(m.mnt / name, "rb+") as f:
            os.fsync(f.fileno())
    rows = {}
    for top in (m.backing, m.mnt):
        rows[top], said = ls(top)
        assert said == ""
        for name, size in sizes.items():
            stored = m.stored(name).stat().st_size
            assert rows[top][f"{top}/{name}"] == (stored, size, round(size / stored, 2))
        assert rows[top][f"{top}/plain.txt"] == (5, 5, 1)
        assert rows[top][f"{top}/a.npy"][1] == (m.mnt / "a.npy").stat().st_size
        assert len(rows[top]) == 6
        total = rows[top]["5 files"]
        assert total[:2] == tuple(sum(row[i] for row in rows[top].values()) // 2 for i in (0, 1))
        assert ls("-s", top)[0] == {"5 files": total}
    assert list(rows[m.backing].values()) == list(rows[m.mnt].values())
    for path in (m.backing / "big file", m.stored("big file"), m.mnt / "link"):
        assert list(ls(path)[0].items()) == [(str(path), rows[m.mnt][f"{m.mnt}/big file"])]
    assert list(ls("-s", path)[0]) == ["1 file"]
    m.end()
    said = f"cframe: {m.mnt}: its daemon is gone; umount it first\n"
    assert ls(m.mnt, code=1) == ({}, said)
    m.kill()


def test_a_sparse_frame(mount, blosc2):
    """Its chunks are in files of their own, and count."""
    m = mount()
    path, data = m.backing / "x.b2frame", blob(1, 300_000, "text")
    blosc2.SChunk(chunksize=100_000, contiguous=False, urlpath=str(path), mode="w", data=data)
    stored = sum(part.stat().st_size for part in path.iterdir())
    told = (stored, len(data), round(len(data) / stored, 2))
    for top in (m.backing, m.mnt):
        assert ls(top) == ({f"{top}/x": told}, "")
    assert os.getxattr(m.mnt / "x", "user.cframefs.stored") == b"%d" % stored
    assert os.getxattr(m.mnt / "x", "user.cframefs.ratio") == b"%.2f" % told[2]
    info = subprocess.run([CFRAME, "info", "--json", path], check=True, capture_output=True)
    assert round(json.loads(info.stdout)["ratio"], 2) == told[2]


def test_a_frame_that_may_not_be_read_is_no_plain_file(mount, root):
    m = mount("allow_other")
    m.stored("x").write_bytes(FRAME.read_bytes())
    m.stored("x").chmod(0)
    for top in m.backing, m.mnt:
        command = [CFRAME, "ls", top]
        got = subprocess.run(command, capture_output=True, text=True, **as_nobody(top))
        assert (got.returncode, got.stdout) == (1, "")
        assert got.stderr == f"cframe: {top}/x: Permission denied\n"


def test_what_cannot_be_read_is_told(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    rows, said = ls(tmp_path / "nosuch", tmp_path / "x", code=1)
    assert rows == {f"{tmp_path}/x": (1, 1, 1)}
    assert said == f"cframe: {tmp_path}/nosuch: No such file or directory\n"
    assert ls(tmp_path / "nosuch", code=1)[0] == {}
    said = f"cframe: {tmp_path}/x/: Not a directory\n"
    assert ls(f"{tmp_path}/x/", code=1) == ({}, said), "as of compress and extract"
    (tmp_path / "empty").mkdir()
    assert ls(tmp_path / "empty") == ({"0 files": (0, 0, 1)}, "")
