"""cframe compress: attributes of files and directories, and how those of a target choose."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from libcompress import as_nobody, compress, extracted
from libdata import blob
from libtree import assert_same, cframe


def test_rules_and_attributes(tmp_path, blosc2):
    plain, made = tmp_path / "plain", tmp_path / "made"
    (plain / "sub").mkdir(parents=True)
    for name in ("a.jpg", "b.dat", "sub/c.dat"):
        (plain / name).write_bytes(blob(1, 100_000, "text"))
    (tmp_path / "rules").write_text("*.jpg store\n")
    made.mkdir()
    os.setxattr(made, "user.cframefs.pipeline", b"lz4")
    compress("--rules", tmp_path / "rules", plain, made)
    codec = {
        path.name: blosc2.open(str(path)).cparams.codec.name for path in made.rglob("*.b2frame")
    }
    # the attribute of the directory is nearer than the rule, and is inherited
    assert set(codec.values()) == {"LZ4"}
    assert os.getxattr(made / "sub", "user.cframefs.pipeline") == b"lz4"
    assert os.getxattr(made / "sub/c.dat.b2frame", "user.cframefs.pipeline") == b"lz4"
    compress("--rules", tmp_path / "rules", plain, tmp_path / "other")
    assert (tmp_path / "other/a.jpg.b2frame").stat().st_size > 100_000
    assert (tmp_path / "other/b.dat.b2frame").stat().st_size < 60_000
    (tmp_path / "link.jpg").symlink_to(plain / "b.dat")  # the name that the frame gets counts
    compress("--rules", tmp_path / "rules", tmp_path / "link.jpg", tmp_path / "named")
    assert (tmp_path / "named/link.jpg.b2frame").stat().st_size > 100_000


CAPS = bytes.fromhex("0100000200040000000000000000000000000000")  # cap_net_bind_service+ep


def extras(top):
    """{path: its extended attributes} below a directory, but for labels."""
    found = {}
    for path in [top, *top.rglob("*")]:
        if not path.is_symlink():
            names = [name for name in os.listxattr(path) if name != "security.selinux"]
            found[path.relative_to(top)] = {name: os.getxattr(path, name) for name in names}
    return found


@pytest.fixture
def with_extras(tmp_path, tool):
    tool("setfacl")
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    for name in ("a", "sub/b"):
        (plain / name).write_bytes(blob(1, 100_000, "text"))
        os.setxattr(plain / name, "user.note", b"of " + name.encode())
    os.setxattr(plain / "a", "user.empty", b"")
    os.setxattr(plain / "sub", "user.note", b"of a directory")
    for acl, name in (("u:54321:rw,g::r", "a"), ("d:u:54321:rwx,u:54322:rx", "sub")):
        if subprocess.run(["setfacl", "-m", acl, plain / name]).returncode:
            pytest.skip("the directory for temporary files has no ACLs")
    os.chmod(plain / "sub/b", 0o444)
    os.setxattr(plain / "a", "user.cframefs.pipeline", b"lz4")
    return plain


def test_extended_attributes_and_acls(with_extras, mount, root):
    """Those of a source, but for what describes how a frame is stored."""
    plain, m = with_extras, mount("allow_other", start=False)
    os.setxattr(plain / "sub/b", "security.capability", CAPS)
    wanted = extras(plain)
    assert len(wanted) == 4
    assert compress(plain, m.backing) == ""
    back = extracted(m.backing, m.work / "back")
    assert_same(back, plain)
    del wanted[(plain / "a").relative_to(plain)]["user.cframefs.pipeline"]
    assert extras(back) == wanted
    m.start()
    assert extras(m.mnt) == wanted
    again = m.work / "again"
    assert compress(m.mnt, again) == "", "a mount is as good a source"
    assert extras(extracted(again, m.work / "back2")) == wanted


def test_access_is_that_of_the_source(with_extras, tmp_path):
    """Not what a default ACL of the target's directory, or one of an earlier run, gives."""
    plain, made, back = with_extras, tmp_path / "made", tmp_path / "back"
    compress(plain, made)
    extracted(made, back)
    (plain / "sub/new").write_bytes(b"data")
    (plain / "sub/deep").mkdir()
    for path in "sub/new", "sub/deep":
        subprocess.run(["setfacl", "-b", plain / path], check=True)
    compress(plain, made)
    extracted(made, back)
    subprocess.run(["setfacl", "-b", plain / "sub"], check=True)
    os.setxattr(plain / "sub", "user.note", b"another")
    compress(plain, made)
    wanted = extras(plain)
    assert wanted[Path("sub")] == {"user.note": b"another"} and wanted[Path("sub/new")] == {}
    del wanted[Path("a")]["user.cframefs.pipeline"]
    assert extras(extracted(made, back)) == wanted


def test_capabilities_of_a_file_with_several_names(tmp_path, root):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    (plain / "a").write_bytes(b"data")
    os.link(plain / "a", plain / "b")
    os.chmod(plain / "a", 0o4755)
    os.setxattr(plain / "a", "security.capability", CAPS)
    assert compress(plain, made) == ""
    (made / "b.b2frame").unlink()
    compress(plain, made)  # once more, to one that is up to date
    back = extracted(made, tmp_path / "back")
    assert (back / "a").samefile(back / "b") and (back / "a").stat().st_mode & 0o7777 == 0o4755
    for path in made / "a.b2frame", back / "a":
        assert os.getxattr(path, "security.capability") == CAPS


def test_attributes_of_a_user(with_extras, work, root):
    """Who may not set capabilities goes without them, and a file that is read-only has its own."""
    os.setxattr(with_extras / "sub/b", "security.capability", CAPS)
    shutil.copytree(with_extras, work / "plain", symlinks=True)
    (work / "made").mkdir()
    os.chmod(work / "made", 0o777)
    assert compress(work / "plain", work / "made", **as_nobody(work)) == ""
    made = extras(work / "made")
    assert made[Path("sub/b.b2frame")]["user.note"] == b"of sub/b"
    assert "security.capability" not in made[Path("sub/b.b2frame")]


def test_set_id_bits_are_for_the_owner_that_they_had(work, root):
    """Who cannot give the files away would lend his own rights to others."""
    plain, made, back = work / "plain", work / "made", work / "back"
    (plain / "sub").mkdir(parents=True)
    (plain / "x").write_bytes(b"x")
    for path in plain / "x", plain / "sub":
        os.chmod(path, 0o7755)
    compress(plain, made)
    assert (made / "x.b2frame").stat().st_mode & 0o7777 == 0o7755
    os.chmod(work, 0o777)
    compress(plain, work / "theirs", **as_nobody(work))
    cframe("extract", "-C", back, made, **as_nobody(work))
    for path in work / "theirs/x.b2frame", work / "theirs/sub", back / "x", back / "sub":
        assert path.stat().st_mode & 0o7777 == 0o1755, path


def test_a_group_of_a_user_who_does_not_own_the_files(work, root):
    """As cp -a does; else the group's rights would be for all that are in the user's own."""
    plain, made, back = work / "plain", work / "made", work / "back"
    (plain / "sub").mkdir(parents=True)
    (plain / "x").write_bytes(b"x")
    (plain / "to").symlink_to("x")
    for path in plain, *plain.iterdir():
        os.chown(path, 1234, 5678, follow_symlinks=False)
        if not path.is_symlink():
            os.chmod(path, 0o775)
    os.chmod(work, 0o777)
    how = {**as_nobody(work), "extra_groups": [5678]}
    assert compress(plain, made, **how) == ""
    assert cframe("extract", "-C", back, made, **how) == ""
    for path in made, *made.iterdir(), back, *back.iterdir():
        st = path.lstat()
        assert (st.st_uid, st.st_gid) == (how["user"], 5678), path


def test_read_only_files_of_a_user(work, tool):
    """What an ACL leaves to the owner forbids to write other attributes, as a mode would: it comes
    after these, in whichever order they are listed."""
    tool("setfacl")
    how = as_nobody(work) if os.geteuid() == 0 else {}
    plain, made = work / "plain", work / "made"
    (plain / "sub").mkdir(parents=True)
    for top in (plain, plain / "sub"):
        for name in ("before", "behind"):
            (top / name).write_bytes(b"x")
        os.setxattr(top / "before", "user.note", b"x")
        for name in ("before", "behind"):
            if subprocess.run(["setfacl", "-m", "u:54321:r", top / name]).returncode:
                pytest.skip("the directory for temporary files has no ACLs")
        os.setxattr(top / "behind", "user.note", b"x")
        for name in ("before", "behind"):
            os.chmod(top / name, 0o444)
    subprocess.run(["setfacl", "-d", "-m", "u::rx,u:54321:r", plain / "sub"], check=True)
    if how:
        for path in (plain, *plain.rglob("*")):
            os.chown(path, how["user"], how["group"])
        os.chmod(work, 0o777)
    wanted = extras(plain)
    assert all("user.note" in has for path, has in wanted.items() if path.name.startswith("be"))
    for force in ([], ["--force"]):  # the second one finds the default ACL in the directory
        assert compress(*force, plain, made, **how) == ""
        assert extras(extracted(made, work / f"back{len(force)}")) == wanted


def test_a_target_without_attributes(with_extras, tmp_path, root):
    (tmp_path / "disk").mkdir()
    if subprocess.run(["mount", "-t", "ramfs", "none", tmp_path / "disk"]).returncode:
        pytest.skip("no ramfs can be mounted")
    try:
        said = compress(with_extras, tmp_path / "disk")
        assert said.startswith(
            f"cframe: {tmp_path}/disk: its file system does not support extended"
        )
        assert said.count("\n") == 1 and (tmp_path / "disk/sub/b.b2frame").exists()
    finally:
        subprocess.run(["umount", tmp_path / "disk"], check=True)
