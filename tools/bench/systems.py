"""The file systems that are compared: one class a kind, one row each in SYSTEMS.

Each keeps its files under its own directory in the work room (memory). `fresh` makes it empty,
`fill` puts files in, `mount` and `unmount` bring it up cold and take it down.
"""

import gzip
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import data
from host import (
    BenchError,
    Unavailable,
    ask,
    bytes_written,
    is_mounted,
    loop_device,
    run,
    unmount,
)


class System:
    writable = True

    def __init__(self, name, room, stack):
        self.name = name
        self.room = room / name
        self.room.mkdir()
        self.point = self.room / "mnt"
        self.point.mkdir()
        self.stack = stack
        self.peak_kib = None  # of the last mount; None where there is no process to ask
        self.cpu_seconds = None
        stack.callback(self.unmount)

    def fill(self, files):
        """An empty file system with copies of the files, synced and unmounted again."""
        self.fresh()
        self.mount()
        for f in files:
            shutil.copyfile(f, self.point / f.name)
        run("sync", "-f", self.point)
        self.unmount()

    def add(self, tree):
        """A copy of a directory beside what is there."""
        self.mount()
        shutil.copytree(tree, self.point / tree.name)
        run("sync", "-f", self.point)
        self.unmount()

    def fresh(self):
        raise NotImplementedError

    def mount(self):
        raise NotImplementedError

    def unmount(self):
        unmount(self.point)

    def move_to_device(self):
        """From now on its files lie on a block device of its own, so that what
        reaches it can be counted."""

    def device_bytes(self):
        """Written to that device so far; nothing may be mounted."""
        return bytes_written(self.device)

    def stored(self):
        """Bytes in use for what was filled in, metadata included."""
        raise NotImplementedError


class Btrfs(System):
    def __init__(self, name, room, stack, compress, size):
        super().__init__(name, room, stack)
        self.options = f"compress-force={compress}"
        image = self.room / "image"
        with open(image, "wb") as f:
            f.truncate(size)
        self.device = loop_device(stack, image)

    def fresh(self):
        run("mkfs.btrfs", "-q", "-f", self.device, error=Unavailable)

    def mount(self):
        run("mount", "-t", "btrfs", "-o", self.options, self.device, self.point, error=Unavailable)

    def stored(self):
        self.mount()
        st = os.statvfs(self.point)
        self.unmount()
        return (st.f_blocks - st.f_bfree) * st.f_frsize


class Squashfs(System):
    writable = False

    def __init__(self, name, room, stack, *options):
        super().__init__(name, room, stack)
        self.image = self.room / "image"
        self.options = options
        self.device = None

    def fill(self, files):
        run(
            "mksquashfs",
            *files,
            self.image,
            *self.options,
            "-quiet",
            "-no-progress",
            "-noappend",
            error=Unavailable,
        )

    def add(self, tree):
        run(
            "mksquashfs",
            tree,
            self.image,
            "-quiet",
            "-no-progress",
            "-keep-as-directory",
            error=Unavailable,
        )

    def mount(self):
        if not self.device:
            self.device = loop_device(self.stack, self.image)
        run("mount", "-t", "squashfs", "-o", "ro", self.device, self.point, error=Unavailable)

    def stored(self):
        return self.image.stat().st_size


class Daemon(System):
    """A FUSE daemon in the foreground, over a backing directory."""

    def __init__(self, name, room, stack):
        super().__init__(name, room, stack)
        self.backing = self.room / "backing"
        self.device = None  # move_to_device
        self.process = None

    def command(self):
        raise NotImplementedError

    def fresh(self):
        shutil.rmtree(self.backing, ignore_errors=True)
        self.backing.mkdir()

    def move_to_device(self):
        image, disk = self.room / "disk.image", self.room / "disk"
        shutil.rmtree(self.backing, ignore_errors=True)
        disk.mkdir()
        with open(image, "wb") as f:
            f.truncate(IMAGE)
        self.device = loop_device(self.stack, image)
        run(
            "mkfs.ext4",
            "-q",
            "-N",
            "100000",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
            self.device,
            error=Unavailable,
        )
        run("mount", self.device, disk, error=Unavailable)
        self.stack.callback(unmount, disk)
        self.backing = disk / "backing"

    def device_bytes(self):
        """Unmounted: what is only in the journal yet is written once more, to its place."""
        disk = self.backing.parent
        unmount(disk)
        written = super().device_bytes()
        run("mount", self.device, disk)
        return written

    def mount(self):
        with open(self.room / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(a) for a in self.command()], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 10
        while not is_mounted(self.point):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.unmount()
                raise BenchError(f"{self.name} does not mount: {self.last_words()}")
            time.sleep(0.002)
        os.stat(self.point)

    def last_words(self):
        lines = (self.room / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it says nothing"

    def unmount(self):
        if self.process is None:
            return
        self.note_use()
        super().unmount()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            why = f"{self.name} did not end within {END_SECONDS} s of being unmounted"
            raise BenchError(why) from None
        finally:
            self.process = None

    def resident_kib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(
            int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")
        )

    def note_use(self):
        """Peak memory and processor time of the daemon so far."""
        proc = Path(f"/proc/{self.process.pid}")
        try:
            status = (proc / "status").read_text()
            stat = (proc / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        if peak:
            self.peak_kib = int(peak[0])
            self.cpu_seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def stored(self):
        return sum(f.lstat().st_blocks * 512 for f in self.backing.rglob("*") if f.is_file())


class Passthrough(Daemon):
    """The example of libfuse, built from the source that its package installs."""

    def __init__(self, name, room, stack, *options):
        super().__init__(name, room, stack)
        self.options = options
        self.binary = room / "passthrough_ll.bin"
        if not self.binary.exists():
            build_passthrough(self.binary)

    def command(self):
        options = ",".join((f"source={self.backing}",) + self.options)
        return [self.binary, "-f", "-o", options, self.point]


def build_passthrough(binary):
    examples = Path("usr/share/doc/libfuse3-dev/examples")
    where = Path("/") / examples
    if not list(where.glob("passthrough_ll.c*")):  # containers often leave documentation out
        where = data.fetch("libfuse3-dev") / examples
    with tempfile.TemporaryDirectory() as tmp:
        for name in ("passthrough_ll.c", "passthrough_helpers.h"):
            packed = where / (name + ".gz")
            source = (
                gzip.decompress(packed.read_bytes())
                if packed.exists()
                else (where / name).read_bytes()
            )
            (Path(tmp) / name).write_bytes(source)
        flags = ask("pkg-config", "--cflags", "--libs", "fuse3").split()
        run(
            "cc",
            "-O2",
            "-D_GNU_SOURCE",
            "-o",
            binary,
            Path(tmp) / "passthrough_ll.c",
            *flags,
            "-lpthread",
            error=Unavailable,
        )


class Squashfuse(Daemon):
    """The image of Squashfs, mounted without root."""

    writable = False
    fill, add, stored = Squashfs.fill, Squashfs.add, Squashfs.stored

    def __init__(self, name, room, stack, *options):
        super().__init__(name, room, stack)
        if not shutil.which("squashfuse_ll"):
            raise Unavailable("squashfuse_ll is not installed")
        self.image = self.room / "image"
        self.options = options

    def command(self):
        return ["squashfuse_ll", "-f", self.image, self.point]


class Cframefs(Daemon):
    def __init__(self, name, room, stack, binary, options):
        super().__init__(name, room, stack)
        if not binary:
            raise Unavailable("not built (or say --cframefs PATH)")
        self.binary = binary
        self.options = options

    def command(self):
        argv = [self.binary, self.backing, self.point, "-f"]
        return argv + (["-o", self.options] if self.options else [])


END_SECONDS = 120  # on a busy machine the last commit of a frame of 1 TiB took more than 30
IMAGE = 8 << 30  # sparse: a btrfs image takes what is written into it
ZSTD = ("-comp", "zstd", "-Xcompression-level", "3")  # the level of btrfs-zstd3


def joined(*options):
    return ",".join(o for o in options if o)


# name -> System(room, stack, settings); settings: the command line's cframefs binary and options
SYSTEMS = {
    "cframefs": lambda n, r, s, o: Cframefs(n, r, s, o.cframefs, joined(o.options)),
    "cframefs-zstd": lambda n, r, s, o: Cframefs(
        n, r, s, o.cframefs, joined("codec=zstd", o.options)
    ),
    "cframefs-fixed": lambda n, r, s, o: Cframefs(
        n, r, s, o.cframefs, joined("pipeline=zstd:1", o.options)
    ),
    "cframefs-lz4": lambda n, r, s, o: Cframefs(
        n, r, s, o.cframefs, joined("codec=lz4", o.options)
    ),
    "passthrough_ll": lambda n, r, s, o: Passthrough(n, r, s),
    "passthrough_ll-wb": lambda n, r, s, o: Passthrough(n, r, s, "writeback"),
    "btrfs-zstd1": lambda n, r, s, o: Btrfs(n, r, s, "zstd:1", IMAGE),
    "btrfs-zstd3": lambda n, r, s, o: Btrfs(n, r, s, "zstd:3", IMAGE),
    "squashfs-zstd-128K": lambda n, r, s, o: Squashfs(n, r, s, *ZSTD, "-b", "128K"),
    "squashfs-zstd-1M": lambda n, r, s, o: Squashfs(n, r, s, *ZSTD, "-b", "1M"),
    "squashfuse-zstd-128K": lambda n, r, s, o: Squashfuse(n, r, s, *ZSTD, "-b", "128K"),
    "squashfs-lz4-128K": lambda n, r, s, o: Squashfs(n, r, s, "-comp", "lz4", "-b", "128K"),
}
