"""Fixtures: private directories, real mounts, a watchdog, a scan of each daemon's log."""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import libmount
from libdata import blob
from libfault import Fault
from libmount import DAEMON, SLOWNESS, Mount, is_mounted, umount, wait_until
from libposix import ZERO_RANGE, fallocate
from libprogram import daemon_of, skip_or_fail
from libwatch import Watchdog


def interrupt(*_):
    """A SIGTERM is taken for a Ctrl-C, by the workers of pytest-xdist, too: fixtures unmount what
    tests have mounted."""
    subprocess.run(["pkill", "-TERM", "-P", str(os.getpid())], check=False)
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, interrupt)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # a shell's background job: what the tests start would inherit that, and not be ended by it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def can_zero_ranges(where):
    with tempfile.TemporaryFile(dir=where) as f:
        try:
            fallocate(f.fileno(), ZERO_RANGE, 0, 1)
        except OSError:
            return False
    return True


# A mount is compared with plain files. Those of tmpfs, which /tmp is on Debian 13, can do less.
PLACES = [p for p in (tempfile.gettempdir(), "/var/tmp") if can_zero_ranges(p)]
ROOT = Path(tempfile.mkdtemp(prefix="cframefs-tests-", dir=next(iter(PLACES), None)))
os.chmod(ROOT, 0o755)
os.umask(0o022)
FAILED = pytest.StashKey[bool]()

# whose fixtures several files use
pytest_plugins = ["libcodec", "libcompress", "libfull", "libintent", "libtune"]


def watchdog_seconds(item):
    marker = item.get_closest_marker("watchdog")
    return marker.args[0] if marker else 300


def start_early(item):
    """Also with a short leash, what has one of its own takes longer than what has none."""
    return item.get_closest_marker("watchdog") is not None, watchdog_seconds(item)


def spread(waits, works):
    """One that waits after each two that work, as long as there are any."""
    works = iter(works)
    for item in waits:
        yield item
        yield from itertools.islice(works, 2)
    yield from works


def pytest_collection_modifyitems(items):
    """What may take long starts first, lest it runs alone at the end; if most of its time is a
    pause, others that start then keep the processors busy."""
    items.sort(key=start_early, reverse=True)
    waits = [item for item in items if item.get_closest_marker("waits")]
    items[:] = spread(waits, [item for item in items if not item.get_closest_marker("waits")])
    if SLOWNESS > 1:
        skip = pytest.mark.skip(reason="the release build is enough")
        for item in items:
            if item.get_closest_marker("release"):
                item.add_marker(skip)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    if report.failed:
        keep_repro(item)


def pytest_sessionfinish(session):
    if ROOT.exists() and not any(ROOT.iterdir()):
        ROOT.rmdir()
    elif ROOT.exists():
        print(f"\ndirectories of failed tests: {ROOT}")


def pytest_terminal_summary(terminalreporter):
    """What tests measured, also from the processes of pytest-xdist."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "figure" and report.when == "call":
                terminalreporter.write_line(value)


def work_name(item):
    return re.sub(r"[^A-Za-z0-9]+", "-", item.nodeid)[-80:].strip("-")


def keep_repro(item):
    """Leaves a script that runs the failed case again, and the daemon's command lines."""
    work = ROOT / work_name(item)
    work.mkdir(exist_ok=True)
    daemons = [f"# {shlex.join(m.command())}" for m in item.stash.get(MOUNTS, [])]
    script = [
        "#!/bin/sh",
        *daemons,
        f"cd {shlex.quote(str(item.config.rootpath))}",
        f"BUILD_DIR={shlex.quote(str(libmount.BUILD))} "
        f"{shlex.quote(sys.executable)} -m pytest -n0 {shlex.quote(item.nodeid)}",
    ]
    (work / "repro.sh").write_text("\n".join(script) + "\n")
    (work / "repro.sh").chmod(0o755)


MOUNTS = pytest.StashKey[list]()


@pytest.fixture
def work(request):
    """A private directory for the case. It stays when the case fails."""
    path = ROOT / work_name(request.node)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    yield path
    if not request.node.stash.get(FAILED, False):
        shutil.rmtree(path)


@pytest.fixture(autouse=True)
def watchdog(request):
    seconds = watchdog_seconds(request.node) * SLOWNESS
    with Watchdog(seconds, ROOT / work_name(request.node) / "watchdog.txt"):
        yield


def need_daemon():
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip_or_fail("no /dev/fuse here that may be opened")
    assert DAEMON.exists(), f"{DAEMON} is missing: build first, or set BUILD_DIR"


class Factory:
    """mount(options, ...) -> a started Mount with directories of its own."""

    def __init__(self, base):
        self.base = base
        self.mounts = []

    def __call__(self, options="", start=True, **kw):
        need_daemon()
        made = Mount(
            self.base / f"m{len(self.mounts)}" if self.mounts else self.base, options, **kw
        )
        self.mounts.append(made)
        return made.start() if start else made

    def finish(self):
        errors = []
        for made in reversed(self.mounts):
            try:
                made.finish()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
                made.kill()
        assert not errors, "\n".join(errors)


@pytest.fixture
def mount(request, work):
    """Makes mounts for one test; at its end they are unmounted and their logs are read."""
    factory = Factory(work)
    request.node.stash[MOUNTS] = factory.mounts
    yield factory
    try:
        factory.finish()
    except BaseException:
        request.node.stash[FAILED] = True  # before the directory's own teardown
        raise


@pytest.fixture
def faulty(mount):
    """faulty(options, what its log may say, ...) -> a started Mount, and the Fault that makes its
    backing calls fail."""

    def start(options="", *allowed, **kw):
        m = mount(options, start=False, **kw).allow(*allowed)
        fault = Fault(m, m.work / "fault")
        return m.start(), fault

    return start


@pytest.fixture
def fs(mount):
    """The mount point of a mount with default options, for tests that need no more."""
    return mount().mnt


@pytest.fixture
def file(fs):
    """A file of 300,000 bytes of text."""
    path = fs / "file"
    path.write_bytes(blob(1, 300_000, "text"))
    return path


@pytest.fixture
def fd(file):
    fd = os.open(file, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture(scope="module")
def module_mount(request):
    """One mount for all tests (or all hypothesis examples) of a file."""
    base = ROOT / ("module-" + re.sub(r"\W+", "-", request.node.nodeid))
    shutil.rmtree(base, ignore_errors=True)
    failed_before = request.session.testsfailed
    factory = Factory(base)
    yield factory()
    factory.finish()
    if request.session.testsfailed == failed_before:
        shutil.rmtree(base)


@pytest.fixture
def plain(work):
    """A plain directory beside the mount: the oracle."""
    path = work / "plain"
    path.mkdir()
    return path


@pytest.fixture
def dirs(work):
    """A backing directory and a mount point, for daemons that the test starts itself. The last one
    may go on for a while after its umount, and its files must not vanish below an rmtree."""
    for name in ("backing", "mnt"):
        (work / name).mkdir()
    yield work / "backing", work / "mnt"
    if is_mounted(work / "mnt"):
        umount(work / "mnt", "-l")
        pytest.fail("the test left its mount")
    wait_until(lambda: not daemon_of(work / "mnt"), 30, "end of the daemon")


@pytest.fixture(scope="session")
def blosc2():
    """The reference library; without it a test skips, except in CI."""
    try:
        import blosc2 as module
    except ImportError as error:
        skip_or_fail(f"the reference library is not installed: {error}")
    return module


@pytest.fixture(scope="module")
def reference(blosc2):
    """The reference library as a reader of our frames, in a process of its own."""
    import libblosc

    apart = libblosc.Apart()
    yield apart
    apart.close()


@pytest.fixture(scope="session")
def root():
    """First of all fixtures, so that no other has begun anything when a test is skipped."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="session")
def unshared():
    """The start of a command that runs in a mount namespace of its own. In a plain chroot there is
    none: its root is no mount point."""
    start = ["unshare", "-m", "--propagation", "private"]
    said = "needs root"
    if os.geteuid() == 0:
        said = subprocess.run([*start, "true"], capture_output=True, text=True).stderr
    if said:
        pytest.skip(f"no mount namespace here: {said.strip()}")
    return start


@pytest.fixture
def blind_argv(tool, root):
    """A daemon that may read and write only what the modes of its files let it, as a user's: root
    without the capability to override them."""
    return [tool("setpriv"), "--bounding-set", "-dac_override,-dac_read_search", str(DAEMON)]


@pytest.fixture
def tool():
    """tool("fio") -> its path; a missing program skips the test, and fails it in CI."""

    def find(name):
        path = shutil.which(name)
        if not path:
            skip_or_fail(f"{name} is not installed")
        return path

    return find
