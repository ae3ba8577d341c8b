"""cframe compress: what cannot be read or stored gets a line, and the rest is done."""

import os
import socket
import subprocess
import sys

from libcompress import DATA, as_nobody, compress
from libtree import cframe, small_disk


def test_a_target_that_may_not_be_written_to_is_named(work):
    plain, made = work / "plain", work / "made"
    plain.mkdir()
    for name in ("a", "b"):
        (plain / name).write_bytes(b"x")
    (plain / "d").mkdir()
    made.mkdir()
    how = as_nobody(work) if os.geteuid() == 0 else {}
    os.chmod(made, 0o555)
    wanted = "".join(
        f"cframe: {made}/{name}: Permission denied\n" for name in ("a.b2frame", "b.b2frame", "d")
    )
    assert compress(plain, made, code=1, **how) == wanted


def test_a_pipe_is_no_source(tmp_path):
    """Its name, /dev/stdin or that of a shell's <(...), is a link."""
    made = tmp_path / "made"
    source, end = os.pipe()
    os.write(end, b"bytes")
    os.close(end)
    for command in (["compress"], ["extract", "-C", made]):
        target = [made] if command == ["compress"] else []
        said = cframe(*command, "/dev/stdin", *target, code=1, stdin=source)
        assert said == "cframe: /dev/stdin: is not a regular file\n"
        assert not made.exists()
    os.close(source)


def test_a_target_without_files_is_not_left(tmp_path):
    for args in (
        ["compress", tmp_path / "nosuch", tmp_path / "made"],
        ["extract", "-C", tmp_path / "made", tmp_path / "nosuch"],
    ):
        assert cframe(*args, code=1) == f"cframe: {tmp_path}/nosuch: No such file or directory\n"
        assert not (tmp_path / "made").exists()
    (tmp_path / "empty").mkdir()
    compress(tmp_path / "empty", tmp_path / "made")
    assert os.listdir(tmp_path / "made") == []
    compress(tmp_path / "nosuch", tmp_path / "made", code=1)
    assert (tmp_path / "made").exists(), "it was there before"


def test_a_file_with_a_slash_behind_it(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    said = compress(tmp_path / "x", f"{tmp_path}/x/", tmp_path / "made", code=1)
    assert said == f"cframe: {tmp_path}/x/: Not a directory\n"
    assert os.listdir(tmp_path / "made") == ["x.b2frame"]


def test_a_line_is_a_line_whatever_the_name(tmp_path):
    (tmp_path / "plain").mkdir()
    os.mkfifo(tmp_path / "plain/a\n\x1b[31mß\x9b2JÜ")  # U+009B is the ESC [ of some terminals
    said = compress(tmp_path / "plain", tmp_path / "made")
    name = "a??[31mß??2JÜ"
    assert said == f"cframe: {tmp_path}/plain/{name}: is not a file, directory or link: left out\n"
    nosuch = tmp_path / "no\nsuch"
    assert cframe("info", nosuch, code=1).count("\n") == 1


def test_a_path_of_any_length_has_its_reason_behind_it(tmp_path):
    make = "import os\nfor i in range(25): os.mkdir('d' * 200); os.chdir('d' * 200)\nos.mkfifo('f')"
    (tmp_path / "plain").mkdir()
    subprocess.run([sys.executable, "-c", make], cwd=tmp_path / "plain", check=True)
    said = compress(tmp_path / "plain", tmp_path / "made")
    deep = ("d" * 200 + "/") * 25
    assert said == f"cframe: {tmp_path}/plain/{deep}f: is not a file, directory or link: left out\n"


def test_an_empty_name_can_be_seen(tmp_path):
    """An unset variable of a shell script becomes one."""
    said = "cframe: '': No such file or directory\n"
    for command in ("info", "cat", "ls", "stat", "tune", "extract"):
        assert cframe(command, "", code=1) == said
    for args in (["", tmp_path / "made"], [tmp_path, ""]):
        assert compress(*args, code=1) == said


def test_files_without_a_length_are_told(tmp_path):
    made, name = tmp_path / "made", "/proc/self/stat"
    for command in (["compress", name, made], ["extract", "-C", made, name]):
        said = cframe(*command, code=1)
        assert said == f"cframe: {name}: has contents but no length (as in /proc); left out\n"
        assert not made.exists()


def test_what_cannot_be_stored_gets_a_line(tmp_path):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    os.mkfifo(plain / "fifo")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(plain / "socket"))
    for kind in ("fifo", "socket"):
        assert f"{plain}/{kind}: is not a file, directory or link: left out\n" in compress(
            plain, tmp_path / kind
        )
        said = compress(plain / kind, tmp_path / "named", code=1)
        assert said == f"cframe: {plain}/{kind}: is not a file, directory or link: left out\n"
        assert not (tmp_path / "named").exists()
    os.unlink(plain / "fifo")
    os.unlink(plain / "socket")
    (plain / ("n" * 248)).touch()
    (plain / "x").write_bytes(b"x")
    (plain / "x.b2frame").symlink_to("x")
    (plain / ".cframefs-intent").mkdir()
    said = compress(plain, made, code=1)
    assert f"{plain}/{'n' * 248}: File name too long\n" in said
    assert f"{plain}/x.b2frame: has the name of the frame of a file beside it" in said
    assert f"{plain}/.cframefs-intent: would be hidden by a mount, and is left out\n" in said
    assert len(said.splitlines()) == 3 and os.listdir(made) == ["x.b2frame"]
    assert (made / "x.b2frame").is_file() and not (made / "x.b2frame").is_symlink()


def test_unreadable_files_are_told_and_the_rest_is_done(work):
    plain, made = work / "plain", work / "made"
    (plain / "closed").mkdir(parents=True)
    for name in ("a", "b", "c", "closed/d"):
        (plain / name).write_bytes(DATA)
    os.chmod(plain / "b", 0)
    os.chmod(plain / "closed", 0)
    made.mkdir()
    os.chmod(made, 0o777)
    how = as_nobody(work) if os.geteuid() == 0 else {}
    said = compress(plain, made, code=1, **how)
    assert said == "".join(
        f"cframe: {plain}/{name}: Permission denied\n" for name in ("b", "closed")
    )
    os.chmod(plain / "closed", 0o700)
    assert sorted(os.listdir(made)) == ["a.b2frame", "c.b2frame"]


def test_a_full_disk(tmp_path, root):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    for n in range(3):
        (plain / f"large {n}").write_bytes(os.urandom(4 << 20))
    (plain / "small").write_bytes(b"small")
    with small_disk(made):
        said = compress(plain, made, code=1)
        # what came while those had the room may have a line as well
        assert set(said.splitlines()) >= {
            f"cframe: {made}/large {n}.b2frame: No space left on device" for n in range(3)
        }
        assert os.listdir(made) == ([] if "small" in said else ["small.b2frame"])
        compress("--force", plain / "small", made)
        assert os.listdir(made) == ["small.b2frame"] and cframe("verify", made) == ""
