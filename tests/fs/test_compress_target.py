"""cframe compress: what is in the target already, from an earlier run or of others."""

import os
import shutil
import subprocess
import time

import pytest

from libcompress import DATA, MTIME, as_nobody, compress, extracted
from libdata import blob
from libmount import CFRAME
from libtree import assert_same, cframe, small_disk, tree


def test_what_is_there_stays(full, tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (full / "z").touch()
    (made / "big.b2frame").write_bytes(b"mine")
    (made / "holes.b2f").write_bytes(b"mine")
    (made / "third name of big").write_bytes(b"mine")
    (made / "sub").symlink_to(tmp_path)
    (made / "dangling").symlink_to("/no/such/fire")
    before = sorted(os.listdir(tmp_path))
    said = compress(full, made, code=1)
    assert f"cframe: {made}/big.b2frame: is there already; --force replaces it\n" in said
    assert f"cframe: {made}/sub: is there already, and is not a directory\n" in said
    assert f"cframe: {made}/dangling: is there already; --force replaces it\n" in said
    beside = "would stand beside {}, which has the same name in a mount\n"
    holes = f"cframe: {made}/holes.b2frame: {beside.format('holes.b2f')}"
    third = f"cframe: {made}/third name of big.b2frame: {beside.format('third name of big')}"
    assert holes in said and third in said
    assert sorted(os.listdir(tmp_path)) == before, "nothing is written through a link"
    assert (made / "big.b2frame").read_bytes() == b"mine" and (made / "z.b2frame").exists()
    (made / "third name of big").unlink()
    (made / "third name of big.b2frame").mkdir()
    said = compress("--force", full, made, code=1)
    assert f"cframe: {made}/third name of big.b2frame: is a directory, and stays\n" in said
    assert len(said.splitlines()) == 3 and holes in said and (made / "sub").is_symlink()
    assert os.readlink(made / "dangling") == "/no/such/file"
    assert (extracted(made / "big.b2frame", tmp_path / "back") / "big").read_bytes() == DATA
    assert not [name for name in os.listdir(made) if name.startswith(".cframe")]


def test_a_second_run_does_what_the_first_did_not(full, tmp_path):
    made, back = tmp_path / "made", tmp_path / "back"
    compress(full, made)
    files = len([path for path in full.rglob("*") if path.is_symlink() or path.is_file()])
    before = tree(made)

    def again(*args, code=0):
        got = subprocess.run([CFRAME, *args], capture_output=True, text=True)
        assert got.returncode == code, got
        return got.stdout, got.stderr

    assert again("compress", full, made) == (f"{files} up to date, 0 made\n", "")
    assert tree(made) == before
    (made / "sub/other name of big.b2frame").unlink()
    (made / "dangling").unlink()
    (full / "new").write_bytes(b"new")
    assert again("compress", full, made) == (f"{files - 2} up to date, 3 made\n", "")
    assert (made / "sub/other name of big.b2frame").samefile(made / "big.b2frame")
    (full / "new").write_bytes(b"NEW")  # of the same size: the time tells
    os.truncate(full / "sub/text 31", 30)  # and what has the same time: its size
    os.utime(full / "sub/text 31", ns=(1, MTIME))
    os.utime(full / "sub/text 0", ns=(1, MTIME - 1))  # older than what is there
    said = again("compress", full, made, code=1)[1]
    there = f"cframe: {made}/%s.b2frame: is there already"
    assert sorted(said.splitlines()) == [
        f"{there % 'new'}, and older; --update replaces it",
        f"{there % 'sub/text 0'}; --force replaces it",
        f"{there % 'sub/text 31'}; --force replaces it",
    ]
    out, said = again("compress", "--update", full, made, code=1)
    assert (out, said.count("\n")) == (f"{files - 2} up to date, 1 made\n", 2)
    assert again("compress", "--force", full, made) == ("", "")
    cframe("extract", "-C", back, made)
    assert_same(back, full)
    assert again("extract", "-C", str(back), str(made)) == (f"{files + 1} up to date, 0 made\n", "")
    (back / "big").write_bytes(b"changed")
    os.utime(back / "big", (1, 1))
    said = again("extract", "-u", "-C", str(back), str(made))
    assert said == (f"{files - 2} up to date, 3 made\n", "")  # all its names
    assert (back / "big").read_bytes() == DATA
    when = (back / "new").stat().st_mtime_ns
    os.truncate(back / "new", 2)
    os.utime(back / "new", ns=(1, when))
    said = again("extract", "-C", str(back), str(made), code=1)[1]
    assert said == f"cframe: {back}/new: is there already; --force replaces it\n"


def attributes(top):
    return {
        str(path.relative_to(top)): (oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns)
        for path in top.rglob("*")
        if path.is_dir() and not path.is_symlink()
        for st in [path.stat()]
    }


def test_a_second_run_finishes_the_directories_of_the_first(full, tmp_path):
    """They are as an interrupted one leaves them; the one that is named keeps its attributes."""
    made, back = tmp_path / "made", tmp_path / "back"
    (full / "closed").mkdir()
    (full / "closed/file").touch()
    (full / "empty").mkdir()
    os.utime(full / "closed", ns=(1, MTIME))
    os.chmod(full / "closed", 0o555)
    compress(full, made)
    cframe("extract", "-C", back, made)
    wanted = attributes(full)
    for top in made, back:
        assert attributes(top) == wanted
        os.chmod(top, 0o711)
        for path in "sub/deep", "sub":
            (top / path / f"only in {top.name}").touch()
            os.chmod(top / path, 0o700)
        os.chmod(top / "sub", 0o500)
        os.chmod(top / "closed", 0o755)
        next((top / "closed").iterdir()).unlink()
        os.chmod(top / "closed", 0o555)
        if os.geteuid() == 0:
            os.chown(top / "empty", 54321, -1)
    compress(full, made)
    cframe("extract", "-C", back, made)
    for top in made, back:
        assert attributes(top) == wanted and (top.stat().st_mode & 0o7777) == 0o711
        assert len(os.listdir(top / "closed")) == 1
    os.chmod(full / "closed", 0o755)


def test_a_target_that_is_made_is_as_closed_as_its_source(full, tmp_path):
    """One that was there, or has several sources, keeps its own attributes."""
    made, back, there = (tmp_path / name for name in ("made", "back", "there"))
    there.mkdir(0o711)
    os.chmod(full, 0o700)
    os.setxattr(full, "user.mine", b"1")
    os.utime(full, ns=(1, MTIME))
    compress(full, made)
    cframe("extract", "-C", back, made)
    for top in made, back:
        assert (top.stat().st_mode & 0o7777, top.stat().st_mtime_ns) == (0o700, MTIME)
        assert os.getxattr(top, "user.mine") == b"1"
    compress(full, there)
    compress(full / "big", full / "sub/deep", tmp_path / "several")
    compress(full / "big", tmp_path / "one")
    assert there.stat().st_mode & 0o7777 == 0o711
    (tmp_path / "new").mkdir()
    assert len({(tmp_path / name).stat().st_mode for name in ("several", "one", "new")}) == 1


def test_closed_directories_of_a_user(work):
    """A second run opens them for itself, and closes them again."""
    how = as_nobody(work) if os.geteuid() == 0 else {}
    plain, made, back = work / "plain", work / "made", work / "back"
    (plain / "sub").mkdir(parents=True)
    os.chmod(work, 0o777)
    for names in ["x"], ["x", "y"]:
        os.chmod(plain / "sub", 0o755)
        (plain / "sub" / names[-1]).touch()
        os.chmod(plain / "sub", 0o555)
        assert compress(plain, made, **how) == cframe("extract", "-C", back, made, **how) == ""
        assert sorted(os.listdir(back / "sub")) == names
        for top in made, back:
            assert (top / "sub").stat().st_mode & 0o7777 == 0o555
            assert len(os.listdir(top / "sub")) == len(names)
    for top in plain, made, back:
        os.chmod(top / "sub", 0o755)


def test_directories_of_others_stay_as_they_are(work, root):
    plain, made = work / "plain", work / "made"
    (plain / "shared").mkdir(parents=True)
    (plain / "shared/x").touch()
    (made / "shared").mkdir(parents=True)
    os.chmod(made / "shared", 0o777)
    assert compress(plain, made, **as_nobody(work)) == ""
    assert os.listdir(made / "shared") == ["x.b2frame"]
    assert (made / "shared").stat().st_mode & 0o7777 == 0o777


@pytest.mark.parametrize("unit", [1, 100, 1000, 10**7, 10**9])
def test_times_of_other_file_systems(tmp_path, unit):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    (plain / "x").write_bytes(b"x")
    os.utime(plain / "x", ns=(1, MTIME))
    compress(plain, made)
    stamp = MTIME // unit * unit
    os.utime(made / "x.b2frame", ns=(1, stamp))
    assert compress(plain, made) == ""
    os.utime(made / "x.b2frame", ns=(1, stamp - 1))
    assert "x.b2frame: is there already, and older" in compress(plain, made, code=1)


def test_times_of_fat(tmp_path, root):
    """Its time stamps are even seconds, rounded down."""
    plain = tmp_path / "plain"
    plain.mkdir()
    start = MTIME // 10**10 * 10
    for second in range(4):
        (plain / f"{second}").write_bytes(b"x")
        os.utime(plain / f"{second}", ns=(1, (start + second) * 10**9 + 123))
    disk, made = tmp_path / "disk", tmp_path / "made"
    made.mkdir()
    disk.write_bytes(bytes(4 << 20))
    for argv in ["mkfs.vfat", disk], ["mount", "-t", "vfat", "-o", "loop,quiet", disk, made]:
        if not shutil.which(argv[0]) or subprocess.run(argv, capture_output=True).returncode:
            pytest.skip("no FAT can be mounted")
    try:
        compress(plain, made)
        assert {int(path.stat().st_mtime) - start for path in made.iterdir()} == {0, 2}
        assert compress(plain, made) == ""
        os.utime(made / "3.b2frame", (1, start))
        assert "3.b2frame: is there already, and older" in compress(plain, made, code=1)
    finally:
        subprocess.run(["umount", made], check=True)


def test_a_file_that_is_a_second_younger(tmp_path):
    """Where stamps are exact it has changed, even if its length has not."""
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    even = MTIME // 10**10 * 10**10
    for stamp, content in (even, b"one"), (even + 15 * 10**8, b"two"):
        (plain / "x").write_bytes(content)
        os.utime(plain / "x", ns=(stamp, stamp))
        compress("-u", plain, made)
        assert (extracted(made, tmp_path / f"back of {stamp}") / "x").read_bytes() == content


def test_a_target_named_like_a_frame(tmp_path):
    """Who expects a file of that name gets no directory; who has such a directory can use it."""
    plain, frame = tmp_path / "x", tmp_path / "x.b2frame"
    plain.write_bytes(DATA)
    assert compress(plain, frame, code=1) == (
        f"cframe: {frame}: is the name of a frame; the last argument is the directory for frames\n"
    )
    assert os.listdir(tmp_path) == ["x"]
    frame.mkdir()
    compress(plain, frame)
    assert os.listdir(frame) == ["x.b2frame"]


def test_into_itself(full):
    said = compress(full, full, code=1)
    assert said == f"cframe: {full}: is where the files would go; name another directory\n"
    wanted = tree(full)
    compress(full, full / "out")
    assert not (full / "out/out").exists() and (full / "out/big.b2frame").exists()
    assert {path: it for path, it in tree(full).items() if not path.startswith("out")} == wanted


def test_two_sources_with_one_name(tmp_path):
    """What comes later stands back, also where it would only take a name in a mount."""
    for kind in ("file", "directory", "link"):
        (tmp_path / kind).mkdir()
    (tmp_path / "file/x").write_bytes(blob(1, 1_000_000, "text"))
    (tmp_path / "directory/x").mkdir()
    (tmp_path / "directory/x/inside").touch()
    (tmp_path / "link/x").symlink_to("nowhere")
    (tmp_path / "link/y.b2frame").symlink_to("nowhere")
    beside = "would stand beside {}, which has the same name in a mount\n"
    for first, second in [("file", "directory"), ("file", "link"), ("directory", "file")]:
        made = tmp_path / f"{first} {second}"
        there, at = ("x", "x.b2frame") if second == "file" else ("x.b2frame", "x")
        wanted = f"cframe: {made}/{at}: {beside.format(there)}"
        said = compress("--level=9", tmp_path / first, tmp_path / second, made, code=1)
        assert said == wanted and not os.path.lexists(made / at)
        # --force replaces what has the same name in the target, and no other entry
        assert compress("--force", tmp_path / second, made, code=1) == wanted
        assert not os.path.lexists(made / at)
    (tmp_path / "file/y.b2frame").write_bytes(b"called like a frame")
    made = tmp_path / "made"
    said = compress(tmp_path / "link/y.b2frame", tmp_path / "file/y.b2frame", made, code=1)
    assert said == f"cframe: {made}/y.b2frame.b2frame: {beside.format('y.b2frame')}"


def test_a_directory_claims_no_name_of_a_file(tmp_path):
    for name in ("x.b2nd", "x.npy"):
        (tmp_path / "plain" / name).mkdir(parents=True)
    compress(tmp_path / "plain", tmp_path / "made")
    assert sorted(os.listdir(tmp_path / "made")) == ["x.b2nd", "x.npy"]


def test_the_last_of_two_sources_replaces(tmp_path):
    for name, size in [("a", 1_000_000), ("b", 1)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(blob(1, size, "text"))
    made = tmp_path / "made"
    compress("--force", "--level=9", tmp_path / "a/x", tmp_path / "b/x", made)
    assert (extracted(made, tmp_path / "back") / "x").read_bytes() == blob(1, 1, "text")


@pytest.mark.parametrize("how", [[], ["--update"]], ids=["plain", "update"])
def test_two_sources_with_one_name_size_and_time(tmp_path, how):
    """The second one is another file, which nothing else would tell: not one that is up to date.
    So it stays in a second run. The first one by another path is up to date."""
    for name in "ab":
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/x").write_text(name)
        os.utime(tmp_path / name / "sub/x", (1_700_000_000, 1_700_000_000))
    made, back = tmp_path / "made", tmp_path / "back"
    there = f"cframe: {made}/sub/x.b2frame: is there already; --force replaces it\n"
    for _ in range(2):
        assert compress(*how, tmp_path / "a", tmp_path / "b", made, code=1) == there
        assert compress(*how, tmp_path / "a", tmp_path / "a/../a", made) == ""
    assert (extracted(made, back) / "sub/x").read_text() == "a"
    compress(tmp_path / "b", tmp_path / "other")
    there = f"cframe: {back}/sub/x: is there already; --force replaces it\n"
    for _ in range(2):
        said = cframe("extract", *how, "-C", back, made, tmp_path / "other", code=1)
        assert said == there and (back / "sub/x").read_text() == "a"


def test_a_mount_is_no_target(mount):
    m = mount()
    plain = m.work / "plain"
    plain.mkdir()
    (plain / "x").write_bytes(b"x")
    said = compress(plain, m.mnt, code=1)
    assert said == f"cframe: {m.mnt}: is a mount, which compresses what is copied to it\n"
    said = compress("--force", plain, m.backing, code=1)
    assert said.startswith(f"cframe: {m.backing}: is mounted, and its daemon may write to what")
    (m.mnt / "sub").mkdir()
    for target in (m.mnt / "sub", m.mnt / "sub/new"):
        said = compress(plain, target, code=1)
        assert said == f"cframe: {target}: is a mount, which compresses what is copied to it\n"
    said = compress("--force", plain, m.backing / "sub", code=1)
    assert said.startswith(f"cframe: {m.backing}/sub: is mounted, and its daemon may write to")
    compress(plain, m.backing)  # what is new is seen there
    while not (m.mnt / "x").exists():
        time.sleep(0.1)
    assert (m.mnt / "x").read_bytes() == b"x"


def test_what_may_not_be_read_above_hides_no_mount(mount, root):
    """As the directory that the homes of users lie in."""
    m = mount("allow_other")
    plain, home = m.work / "plain", m.mnt / "homes/home"
    plain.mkdir()
    (plain / "x").write_bytes(b"x")
    home.mkdir(parents=True)
    how = as_nobody(m.work, m.backing)
    os.chown(home, how["user"], how["group"])
    os.chmod(m.mnt / "homes", 0o711)
    said = compress(plain, home / "new", code=1, **how)
    assert said == f"cframe: {home}/new: is a mount, which compresses what is copied to it\n"
    store = m.backing / "homes/home/store"
    compress(plain, store, **how)
    said = compress("--force", plain, store, code=1, **how)
    assert said.startswith(f"cframe: {store}: is mounted, and its daemon may write to what")


def test_a_log_that_was_left_forbids_to_replace(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "made/sub").mkdir(parents=True)
    (tmp_path / "made/.cframefs-intent").write_bytes(b"records")
    said = compress("--force", tmp_path / "x", tmp_path / "made/sub", code=1)
    assert said.startswith(f"cframe: {tmp_path}/made/sub: its daemon was killed, and its intent")
    compress(tmp_path / "x", tmp_path / "made/sub")


def test_another_file_system_in_the_target(full, tmp_path, root):
    made = tmp_path / "made"
    made.mkdir()
    with small_disk(made / "sub", "64M"):
        why = "not all hard links can be made, and the files are copied instead"
        assert compress(full, made) == f"cframe: {made}: {why}: Invalid cross-device link\n"
        assert (made / "sub/text 31.b2frame").exists()
