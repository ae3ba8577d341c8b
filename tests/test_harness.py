"""The harness itself: a stuck daemon, a dirty log and a dead daemon each fail a
test, and leave what one needs to see why."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import libmount

pytestmark = pytest.mark.release

CASES = {
    "a stuck daemon": (
        "os.kill(m.proc.pid, signal.SIGSTOP); os.waitpid(m.proc.pid, os.WUNTRACED)\n"
        "    os.stat(m.mnt / 'anything')",
        ["watchdog", "daemon "],
    ),
    "an error in the log": (
        "open(m.log, 'a').write('cframefs: error: x: bad\\n')",
        ["unexpected lines", "x: bad"],
    ),
    "a sanitizer's report": (
        "open(m.log, 'a').write('==1==ERROR: AddressSanitizer: x\\n')",
        ["AddressSanitizer"],
    ),
    "a daemon that died": (
        "os.kill(m.proc.pid, signal.SIGKILL); m.proc.wait()",
        ["is gone (-9), its mount is not"],
    ),
    "an exit code": ("m.unmount(code=3)", ["daemon ended with 0, not 3"]),
}


def test_what_quickstart_says_to_type_can_be_pasted():
    """Also where the path of the checkout has spaces."""
    words = ["umount", "/a b/ü'x", "/plain/path"]
    take = 'source <(sed -n \'/^typed()/,/^}/p\' "$0"); typed "$@"'
    quickstart = libmount.REPO / "tools/quickstart"
    typed = subprocess.check_output(["bash", "-c", take, quickstart, *words], text=True)
    again = subprocess.check_output(["bash", "-c", f"printf '%s\\n' {typed}"], text=True)
    assert again.splitlines() == words and typed.startswith("umount ")


def test_quickstart_can_be_run_again(tmp_path):
    """Also where the path of the checkout has a symbolic link; what builds is left out."""
    top, link, mnt = (tmp_path / name for name in ("top", "link", "top/build/quickstart/mnt"))
    (top / "tools").mkdir(parents=True)
    (top / "build").mkdir()
    (top / "build/build.ninja").touch()
    (top / "build/src").symlink_to(libmount.BUILD / "src")
    (top / "tests").symlink_to(libmount.REPO / "tests")
    shutil.copy(libmount.REPO / "tools/quickstart", top / "tools")
    for path in top / "tools/deps", tmp_path / "ninja", tmp_path / "cc":
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    link.symlink_to(top)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    try:
        for mounted in False, True:
            said = subprocess.check_output(link / "tools/quickstart", env=env, text=True)
            assert "bash reads back byte for byte" in said
            assert (f"already mounted: {mnt}\n" in said) == mounted
            rows = [line.rsplit(maxsplit=3) for line in said.splitlines()]
            sizes = {row[0]: row[1] for row in rows if len(row) == 4}
            assert sizes["bash"] == str((mnt / "bash").stat().st_size)
            assert ("my own file" in sizes) == mounted
            (mnt / "my own file").write_bytes(bytes(100))
        (mnt / "bash").write_bytes(b"half")
        got = subprocess.run(link / "tools/quickstart", env=env, text=True, capture_output=True)
        assert got.returncode == 1 and "or one that was interrupted, can be removed" in got.stderr
    finally:
        subprocess.run(["fusermount3", "-u", mnt], check=True)


def test_quickstart_says_that_it_cannot_write_here(tmp_path):
    """A tree of another user, or on a disc: what Meson makes of that speaks of a bug."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "build").touch()
    shutil.copy(libmount.REPO / "tools/quickstart", tmp_path / "tools")
    (tmp_path / "tools/deps").symlink_to("/bin/true")
    script = tmp_path / "tools/quickstart"
    got = subprocess.run(script, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert got.returncode == 1, got
    assert got.stderr.startswith(f"tools/quickstart: it builds in {tmp_path}/build, but mkdir: ")
    assert "Not a directory" in got.stderr and got.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["check", "deps", "quickstart"])
def test_scripts_that_are_asked_for_help_only_tell(tmp_path, name):
    """Who looks what a script does does not want its packages installed."""
    for program in ("bash", "sed"):
        (tmp_path / program).symlink_to(shutil.which(program))
    for word in ("--help", "-h"):
        argv = [libmount.REPO / "tools" / name, word]
        said = subprocess.check_output(argv, env={"PATH": str(tmp_path)}, text=True)
        assert f"  tools/{name} " in said and "set -" not in said


def test_who_interrupts_the_checks_is_obeyed(tmp_path):
    """Although pytest leaves with an exit code; the next build would begin."""
    (tmp_path / "tools").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    for name in "tests/requirements.txt", ".venv/requirements.installed":
        (tmp_path / name).touch()
    shutil.copy(libmount.REPO / "tools/check", tmp_path / "tools")
    for name in "tools/deps", "meson", "ninja", "renice":
        (tmp_path / name).write_text("#!/bin/sh\n")
    waits = "for i in $(seq 300); do sleep 0.1; done"
    python = f"#!/bin/sh\ntrap 'exit 2' INT\necho begun >>begun\n{waits}\n"
    (tmp_path / ".venv/bin/python").write_text(python)
    for name in "tools/deps", "meson", "ninja", "renice", ".venv/bin/python":
        (tmp_path / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CHECK_RUNS": "release release",
    }
    check = subprocess.Popen(
        [tmp_path / "tools/check"],
        env=env,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        # who started these tests in the background of a shell has it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        libmount.wait_until((tmp_path / "begun").exists, 20, "pytest")
        time.sleep(0.2)
        os.killpg(check.pid, signal.SIGINT)
        assert check.wait(60) == 130
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(check.pid, signal.SIGKILL)
    assert (tmp_path / "begun").read_text() == "begun\n"


@pytest.mark.parametrize("name", CASES)
def test_a_bad_case_fails_and_is_kept(tmp_path, name):
    body, words = CASES[name]
    case = tmp_path / "test_case.py"
    case.write_text(
        f"import os, signal, pytest\n@pytest.mark.watchdog({2 if 'stuck' in name else 30})\n"
        f"def test_case(mount):\n"
        f"    m = mount()\n    print('WORK', m.work)\n    {body}\n"
    )
    here = Path(__file__).parent
    got = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-c",
            here / "pytest.ini",
            "--confcutdir",
            tmp_path,
            "-p",
            "conftest",
            case,
        ],
        capture_output=True,
        text=True,
        cwd=here,
        env={**os.environ, "PYTHONPATH": f"{here}:{here}/lib", "BUILD_DIR": str(libmount.BUILD)},
        timeout=300,
    )
    assert got.returncode == 1, got.stdout + got.stderr
    for word in words:
        assert word in got.stdout + got.stderr, word
    work = Path(
        next(line for line in got.stdout.splitlines() if line.startswith("WORK ")).partition(" ")[2]
    )
    assert (work / "repro.sh").exists() and (work / "daemon.log").exists()
    assert not libmount.is_mounted(work / "mnt"), got.stdout[-6000:]
    subprocess.run(["rm", "-r", work.parent], check=True)


def test_cframe_can_be_built_without_libfuse(tmp_path):
    """As on a cluster that does not have it; configured here, not compiled."""
    build, found = tmp_path / "build", tmp_path / "found"
    found.mkdir()
    for name in "zlib", "liblz4", "libzstd", "libxxhash", "libcjson":
        at = subprocess.check_output(["pkg-config", "--variable=pcfiledir", name], text=True)
        (found / f"{name}.pc").symlink_to(Path(at.strip()) / f"{name}.pc")
    env = os.environ | {"PKG_CONFIG_LIBDIR": str(found)}
    setup = ["meson", "setup", "-Dfuse=disabled", build, libmount.REPO]
    ran = subprocess.run(setup, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    targets = subprocess.check_output(["meson", "introspect", "--targets", build], text=True)
    names = {target["name"] for target in json.loads(targets)}
    assert "cframe" in names and "cframefs" not in names
