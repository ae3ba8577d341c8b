"""mount(8), fstab and users who mount: in a mount namespace of its own, with cframefs installed as
for everybody."""

import os
import re
import sys
from pathlib import Path

import pytest

from libchunk import header
from libdata import blob
from libmount import DAEMON, wait_until
from libprogram import attempt, daemon_of

NAMESPACE = """\
# mount(8) clears PATH: only system directories are searched
mount --bind "$BIN" /usr/local/sbin || exit 77
PATH=/usr/local/sbin:$PATH
trap 'umount "$MNT" 2>/dev/null || :' EXIT
# The copies of other tests' mounts: here they would outlive an umount there. One is gone by itself,
# and an umount of it fails, where that test has removed its mount point.
grep -o ' /[^ ]*/cframefs-tests-[^ ]*' /proc/self/mounts | sort -r | while read -r top; do
  umount -l "$(printf %b "$top")" 2>/dev/null # of a space there is \\040
done
umount -lat fuse.cframefs 2>/dev/null
set -e
"""


def listed(path):
    """As fstab and the kernel's tables have it."""
    return str(path).replace(" ", r"\040")


@pytest.fixture
def shell(dirs, work, tool, unshared):
    """shell(script) runs with cframefs installed as for everybody, in a mount namespace of its own.
    $BACKING and $MNT are the directories, $LISTED is $MNT as tables have it; what is mounted must
    be unmounted by the script."""
    tool("mount.fuse3")
    backing, mnt = dirs
    (work / "bin").mkdir()
    (work / "bin" / "cframefs").symlink_to(DAEMON)
    env = {
        **os.environ,
        "BIN": str(work / "bin"),
        "BACKING": str(backing),
        "MNT": str(mnt),
        "LISTED": listed(mnt),
        "WORK": str(work),
    }

    def call(script):
        got = attempt(*unshared, "sh", "-c", NAMESPACE + script, env=env)
        if got.returncode == 77:
            pytest.skip("no bind mounts or devices here, or a path that not all may enter")
        wait_until(lambda: not daemon_of(mnt), 20, "end of the daemon")
        return got

    return call


SMALL, TINY, LESS = 128 << 20, 80 << 20, 64 << 20


@pytest.mark.parametrize(
    "files, options",
    [
        ({"memory.max": SMALL, "memory/memory.limit_in_bytes": SMALL}, ""),
        ({"memory.max": "max", "memory.high": SMALL, "memory/memory.limit_in_bytes": SMALL}, ""),
        ({"memory.max": 512 << 20, "memory/memory.limit_in_bytes": 512 << 20}, ""),
        ({"memory.max": "max", "memory/memory.limit_in_bytes": (1 << 63) - 4096}, ""),
        ({"memory.max": TINY, "memory/memory.limit_in_bytes": TINY}, "-o cache=4M,dirty_max=4M"),
        ({"memory.max": LESS, "memory/memory.limit_in_bytes": LESS}, "-o cache=4M,dirty_max=4M"),
    ],
    ids=["limit", "high", "room", "none", "nothing to cut", "too little"],
)
def test_memory_of_a_container(shell, files, options):
    """
    The limit of a control group, of either version: this process is in one of them. It matters
    where it has no room for what the options say.
    """
    groups = Path("/proc/self/cgroup")
    if not groups.exists() or not re.search("^0::|memory", groups.read_text(), re.M):
        pytest.skip("no control groups here")
    write = "".join(f"echo {value} > /sys/fs/cgroup/{name}\n" for name, value in files.items())
    got = shell(
        "mkdir -p /sys/fs/cgroup; mount -t tmpfs none /sys/fs/cgroup || exit 77\n"
        f"mkdir /sys/fs/cgroup/memory\n{write}"
        f'"$BIN/cframefs" "$BACKING" "$MNT" {options}; umount "$MNT"; umount /sys/fs/cgroup'
    )
    said = "memory is limited" in got.stderr
    assert got.returncode == 0 and said == (SMALL in files.values()), got.stderr
    assert not said or "limited to 128 MiB: cache 32, dirty_max 16" in got.stderr
    told = "72 MiB of memory may be needed, and the limit is 64" in got.stderr
    assert told == (LESS in files.values()), got.stderr


@pytest.mark.release  # a sanitizer needs /proc too
def test_without_proc(shell):
    got = shell(
        'mount -t tmpfs none /proc || exit 77; "$BIN/cframefs" "$BACKING" "$MNT" || echo refused'
    )
    assert got.returncode == 0 and "refused" in got.stdout
    assert "'/proc': is not mounted, and cframefs needs it" in got.stderr


def test_mount_program(shell, dirs):
    (dirs[0] / "plain").write_bytes(blob(11, 300_000, "floats"))
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT" -o codec=lz4,typesize=8,filter=shuffle,dev,suid\n'
        'cp "$MNT/plain" "$MNT/f"; grep -F " $LISTED " /proc/self/mountinfo; umount "$MNT"'
    )
    assert got.returncode == 0, got.stderr
    assert "fuse.cframefs" in got.stdout
    assert header(dirs[0] / "f.b2frame")["codec"] == "lz4"


def test_mount_program_tells_a_failure(shell):
    got = shell('mount -t fuse.cframefs "$BACKING" "$MNT" -o codec=snappy')
    assert got.returncode != 0 and "codec" in got.stderr
    got = shell('mount -t fuse.cframefs "$BACKING/absent" "$MNT"')
    assert got.returncode != 0 and "absent" in got.stderr


# A user who is not root, with a /dev/fuse that is open to all, as distributions have it.
AS_A_USER = """\
mkdir "$WORK/dev" && mount -t tmpfs none "$WORK/dev" && mknod -m 666 "$WORK/dev/null" c 1 3 &&
  mknod -m 666 "$WORK/dev/fuse" c 10 229 && : > "$WORK/dev/fuse" || exit 77
mount --move "$WORK/dev" /dev
chown 65534:65534 "$BACKING" "$MNT"; mkdir "$WORK/roots"
# fusermount3 counts a user's mounts in there; a container may have none
[ -e /etc/mtab ] || { cp -a /etc "$WORK/etc"; ln -s /proc/mounts "$WORK/etc/mtab"
  mount --bind "$WORK/etc" /etc; }
PATH=/usr/local/sbin:$PATH
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
as_user cframefs --version > /dev/null 2>&1 || exit 77
"""


@pytest.fixture
def user_shell(shell, tool):
    """`shell`, where `as_user` runs a command as somebody else than root."""
    tool("setpriv"), tool("fusermount3")
    return lambda script: shell(AS_A_USER + script)


def test_a_user_mounts_and_unmounts(user_shell):
    """Without a word on the terminal."""
    got = user_shell(
        'as_user cframefs "$BACKING" "$MNT"\n'
        'as_user sh -c \'echo written > "$MNT/f"; cat "$MNT/f"; fusermount3 -u "$MNT"\''
    )
    assert (got.returncode, got.stdout, got.stderr) == (0, "written\n", ""), got


@pytest.mark.release
@pytest.mark.parametrize(
    "options, mode, said", [("-o ro", "777", "written"), ("", "755", "written"), ("", "777", "")]
)
def test_a_user_who_looks_at_everything(user_shell, options, mode, said):
    """Another one has the directory above. That is in the way only where both might write."""
    got = user_shell(
        f'other() {{ setpriv --reuid 1 --regid 1 --clear-groups "$@"; }}\n'
        f'mkdir "$WORK/view"; chown 1 "$WORK/view"; chmod {mode} "$BACKING"\n'
        f'other cframefs {options} "$WORK" "$WORK/view" || exit 77\n'
        'as_user cframefs "$BACKING" "$MNT" && as_user sh -c \'echo written > "$MNT/f"; '
        'cat "$MNT/f"; fusermount3 -u "$MNT"\'\n'
        'other fusermount3 -u "$WORK/view"'
    )
    assert (got.returncode, got.stdout.strip()) == (0, said), got
    assert ("a directory above it mounted at" in got.stderr) == (not said), got


def test_a_user_is_told_what_is_not_allowed(user_shell):
    """In one line each: somebody else's mount point, backing directory, and device."""
    got = user_shell(
        'as_user cframefs "$BACKING" "$WORK/roots" || echo refused\n'
        'chmod 700 "$WORK/roots"; as_user cframefs "$WORK/roots" "$MNT" || echo refused\n'
        'chmod 600 /dev/fuse; as_user cframefs "$BACKING" "$MNT" || echo refused\n'
        'rm /dev/fuse; as_user cframefs "$BACKING" "$MNT" || echo refused'
    )
    assert (got.returncode, got.stdout.split()) == (0, ["refused"] * 4), got
    mount_point, backing, device, absent = got.stderr.splitlines()
    assert "roots" in mount_point and "access" in mount_point
    assert "backing directory" in backing and "roots" in backing and "denied" in backing
    assert "/dev/fuse" in device and "denied" in device and "chmod 666 /dev/fuse" in device
    assert "/dev/fuse: No such file" in absent
    assert "cframe extract" in device and "cframe extract" in absent


def test_root_is_told_of_what_is_closed_to_root(user_shell, dirs):
    got = user_shell(
        'as_user cframefs "$BACKING" "$MNT"; cframefs "$BACKING" "$MNT" || echo refused\n'
        'cframefs "$MNT" "$WORK/roots" || echo refused; umount "$MNT"'
    )
    assert (got.returncode, got.stdout.split()) == (0, ["refused"] * 2), got
    why = "permission denied even to root: it may be in another user's FUSE mount"
    mount_point, backing = got.stderr.splitlines()
    assert mount_point == f"cframefs: mount point '{dirs[1]}': {why}"
    assert backing == f"cframefs: backing directory '{dirs[1]}': {why}"


def test_a_user_is_told_of_too_few_processes(user_shell, tool):
    """From hardly any to enough: whichever thread or program cannot be started, a line says so.
    Some said nothing, and one that fusermount3 was not installed."""
    tool("prlimit")
    got = user_shell(
        "for n in $(seq 3 200); do\n"
        '  as_user prlimit --nproc=$n cframefs "$BACKING" "$MNT" 2> "$WORK/said" && break\n'
        '  [ -s "$WORK/said" ] || echo silent at $n\n'
        '  ! grep "not found" "$WORK/said"\n'
        'done; as_user fusermount3 -u "$MNT"'
    )
    assert (got.returncode, got.stdout) == (0, ""), got


def test_fstab(shell, dirs, work):
    (work / "fstab").write_text(
        f"{listed(dirs[0])} {listed(dirs[1])} fuse.cframefs noauto,codec=zlib,level=2 0 0\n"
    )
    got = shell('mount -T "$WORK/fstab" "$MNT"; seq 20000 > "$MNT/f"; umount "$MNT"')
    assert got.returncode == 0, got.stderr
    assert header(dirs[0] / "f.b2frame")["codec"] == "zlib"


def test_remount_read_only(shell, dirs):
    """mount -o remount,ro comes to the helper too: no second daemon, no lost
    data, and then no more writing."""
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT"; echo before > "$MNT/f"\n'
        'mount -o remount,ro "$MNT"; cat "$MNT/f"; ! touch "$MNT/g" 2>"$WORK/refusal"; sleep 0.2\n'
        'grep -cF " $LISTED " /proc/self/mountinfo; umount "$MNT"'
    )
    assert got.returncode == 0, got.stderr
    assert got.stdout.split() == ["before", "1"]
    assert os.listdir(dirs[0]) == ["f.b2frame"]


def test_remount_read_only_and_back(shell, dirs):
    """It changes no option of the daemon, and says so."""
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT"; mount -o remount,ro "$MNT"\n'
        'mount -o remount,rw "$MNT"; echo data > "$MNT/f"; cat "$MNT/f"\n'
        'mount -o remount,level=9 "$MNT"; umount "$MNT"'
    )
    assert (got.returncode, got.stdout) == (0, "data\n"), got
    assert got.stderr.startswith(f"cframefs: remount '{dirs[1]}': level stays as it was, "), got
    assert got.stderr.count("\n") == 1


def test_remount_of_what_is_not_ours(shell, dirs):
    """Not mounted, or another file system: that stays as it is."""
    got = shell(
        '! mount -t fuse.cframefs -o remount,ro "$BACKING" "$MNT" || exit 1\n'
        'mount -t tmpfs none "$MNT"; ! cframefs -o remount,ro "$BACKING" "$MNT" || exit 1\n'
        'touch "$MNT/f"; umount "$MNT"'
    )
    assert got.returncode == 0, got
    why = "is not the mount point of a cframefs"
    assert got.stderr == f"cframefs: remount '{dirs[1]}': {why}\n" * 2


def test_a_descriptor_that_is_mounted_already(shell):
    """With drop_privileges mount(8) mounts it itself, and then calls the helper."""
    got = shell('! mount -t fuse.cframefs "$BACKING" "$MNT" -o drop_privileges; umount "$MNT"')
    assert got.returncode == 0, got
    assert "mount point '/dev/fd/3': drop_privileges is not supported" in got.stderr


def test_what_is_mounted_read_only_stays_so(shell, dirs):
    """Others may have it with ro as well: two would write, of which neither knows the other."""
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT"; echo data > "$MNT/f"; umount "$MNT"\n'
        'mount -t fuse.cframefs "$BACKING" "$MNT" -o ro\n'
        '! mount -o remount,rw "$MNT" || exit 1\n'
        'grep " $MNT " /proc/self/mountinfo | cut -d " " -f 6; umount "$MNT"'
    )
    assert got.returncode == 0, got
    assert "ro" in got.stdout.strip().split(",")
    why = "was mounted read-only; unmount it, and mount it again without ro"
    assert got.stderr == f"cframefs: remount '{dirs[1]}': {why}\n"


TRY_TO_CHANGE = """\
import errno, os, sys
os.chdir(sys.argv[1])
for change in (
    lambda: open("new", "w"),
    lambda: open("f", "r+"),
    lambda: open("f", "w"),
    lambda: os.truncate("f", 1),
    lambda: os.chmod("f", 0o600),
    lambda: os.utime("f"),
    lambda: os.mkdir("new"),
    lambda: os.mkfifo("new"),
    lambda: os.symlink("f", "new"),
    lambda: os.link("f", "new"),
    lambda: os.rename("f", "new"),
    lambda: os.unlink("f"),
    lambda: os.rmdir("d"),
    lambda: os.setxattr("f", "user.x", b"1"),
    lambda: os.removexattr("f", "user.x"),
):
    try:
        change()
    except OSError as e:
        assert e.errno == errno.EROFS, e
    else:
        sys.exit("something was changed")
assert open("f").read() == "data\\n" and sorted(os.listdir()) == ["d", "f"]
"""


def test_the_kernel_alone_cannot_make_a_read_only_mount_write(shell, dirs, work):
    (work / "try.py").write_text(TRY_TO_CHANGE)
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT"\n'
        'echo data > "$MNT/f"; mkdir "$MNT/d"; setfattr -n user.x -v 1 "$MNT/f"; umount "$MNT"\n'
        'mount -t fuse.cframefs "$BACKING" "$MNT" -o ro\n'
        # by mount(2), as busybox does: newer calls of the kernel refuse it for all of FUSE
        'LIBMOUNT_FORCE_MOUNT2=always mount -i -o remount,rw "$MNT"\n'
        f'{sys.executable} "$WORK/try.py" "$MNT"; umount "$MNT"'
    )
    assert (got.returncode, got.stderr) == (0, ""), got
    assert sorted(os.listdir(dirs[0])) == ["d", "f.b2frame"]


def test_a_backing_directory_that_is_read_only(shell, dirs):
    """A line says so when it is mounted, and the mount is what that line says."""
    got = shell(
        'cframefs "$BACKING" "$MNT"; echo data > "$MNT/f"; umount "$MNT"\n'
        'mount --bind "$BACKING" "$BACKING"; mount -o remount,bind,ro "$BACKING"\n'
        'cframefs "$BACKING" "$MNT"; cat "$MNT/f"\n'
        '! touch "$MNT/g" 2>"$WORK/refusal"; ! echo more 2>>"$WORK/refusal" >>"$MNT/f"\n'
        'grep -F " $LISTED " /proc/self/mountinfo | cut -d " " -f 6; umount "$MNT"\n'
        'cframefs -o ro "$BACKING" "$MNT"; cat "$MNT/f"; umount "$MNT"; umount -l "$BACKING"'
    )
    assert got.returncode == 0, got
    data, flags, again = got.stdout.split()
    assert data == again == "data" and "ro" in flags.split(",")
    why = "its file system is read-only, and so is this mount (-o ro)"
    assert got.stderr == f"cframefs: backing directory '{dirs[0]}': {why}\n"


def test_a_user_writes_to_a_plain_file_that_may_not_be_read(user_shell):
    got = user_shell(
        'echo before > "$BACKING/f"; chown 65534 "$BACKING/f"; chmod 200 "$BACKING/f"\n'
        'as_user cframefs "$BACKING" "$MNT"; as_user sh -c \'echo new > "$MNT/f"\'\n'
        'as_user fusermount3 -u "$MNT"; cat "$BACKING/f"'
    )
    assert (got.returncode, got.stdout, got.stderr) == (0, "new\n", ""), got


def test_a_user_lets_a_file_be_read_again(user_shell):
    """Its size was a guess while it could not be read, and the kernel has that."""
    mounted = 'as_user cframefs "$BACKING" "$MNT" -o entry_timeout=0,attr_timeout=0\n'
    got = user_shell(
        mounted + 'as_user sh -c \'seq 9999 > "$MNT/f"; chmod 0 "$MNT/f"\'\n'
        'as_user fusermount3 -u "$MNT"\n' + mounted + 'stat -c %s "$BACKING/f.b2frame"\n'
        'as_user sh -c \'stat -c %s "$MNT/f"; chmod 600 "$MNT/f"; stat -c %s "$MNT/f"; '
        'seq 9999 | cmp - "$MNT/f"\'; as_user fusermount3 -u "$MNT"'
    )
    stored, guess, size = got.stdout.split()
    assert (got.returncode, stored == guess, int(size), got.stderr) == (0, True, 48_888, ""), got


def test_a_user_is_told_of_a_directory_that_is_not_theirs_to_write(user_shell):
    got = user_shell(
        'chown 0:0 "$BACKING"; chmod 755 "$BACKING"; echo data > "$BACKING/f"\n'
        'chown 65534 "$BACKING/f"; as_user cframefs "$BACKING" "$MNT"\n'
        'as_user sh -c \'echo more >> "$MNT/f"; cat "$MNT/f"; ! touch "$MNT/g" 2>/dev/null\'\n'
        'as_user fusermount3 -u "$MNT"'
    )
    assert (got.returncode, got.stdout.split()) == (0, ["data", "more"]), got
    assert got.stderr.startswith("cframefs: backing directory '") and got.stderr.count("\n") == 1
    assert "Permission denied: no file can be made" in got.stderr


# cap_chown+ep
CAPABILITY = "0x0100000201000000000000000000000000000000"


@pytest.mark.parametrize(
    "owner, more, mode",
    [("0:0", "", "6777"), ("65534:0", "", "2755"), ("65534", f"-v {CAPABILITY}", "755")],
    ids=["file of another", "another group", "capabilities"],
)
def test_a_user_syncs_what_would_lose_something(user_shell, tool, owner, more, mode):
    """A file that the sync finds durable: what it would write takes mtime, set-id bits, and
    capabilities away, which the user cannot give back."""
    tool("setfattr")
    looks = 'stat -c "%a %Y" "$x"; getfattr -n $cap --only-values "$x" 2> /dev/null | od\n'
    got = user_shell(
        'cframefs "$BACKING" "$MNT"; echo data > "$MNT/f"; umount "$MNT"\n'
        f'cap=security.capability; x="$BACKING/f.b2frame"; chown {owner} "$x"; chmod {mode} "$x"\n'
        f'[ -z "{more}" ] || setfattr -n $cap {more} "$x"; touch -d @1000000000 "$x"; {looks}'
        'as_user cframefs "$BACKING" "$MNT"; as_user sync "$MNT/f"\n'
        'as_user sh -c \'exec 3<> "$MNT/f"; sync "$MNT/f"\'\n'
        f'as_user cat "$MNT/f"; as_user fusermount3 -u "$MNT"; {looks}'
    )
    before, after = got.stdout.split("data\n")
    assert (got.returncode, after, got.stderr) == (0, before, ""), got
    assert before.startswith(f"{mode} 1000000000\n") and before.count("\n") == 2 + 2 * bool(more)
