"""Completion in bash: what it offers is what --help lists, and what a terminal gets of it."""

import os
import pty
import re
import subprocess

import pytest

from libmount import CFRAME, DAEMON, REPO

pytestmark = pytest.mark.release

SCRIPT = REPO / "tools/completion.bash"
SHELL = {**os.environ, "PATH": f"{CFRAME.parent}:{DAEMON.parent}:{os.environ['PATH']}"}
ASK = """\
source "$0"; COMP_LINE=$1 COMP_POINT=${#1}; _${1%% *} ${1%% *} "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(line, cwd=None):
    """What a Tab behind that line has to choose from."""
    word = re.split("[ =]", line)[-1]
    got = subprocess.run(
        ["bash", "-c", ASK, SCRIPT, line, word], env=SHELL, cwd=cwd, capture_output=True, text=True
    )
    assert (got.returncode, got.stderr) == (0, ""), got
    return sorted(got.stdout.split())


def help_of(*words):
    return subprocess.run([*words, "--help"], capture_output=True, text=True, check=True).stdout


def test_the_options_of_help_are_offered():
    mount = re.findall(r"^  (\w+=)", help_of(DAEMON), re.MULTILINE)
    assert len(mount) > 15 and set(mount) < set(offered("cframefs -o "))
    assert offered("cframefs store mnt -o level=3,tun") == ["3,tune="]
    assert offered("cframefs -o n") == ["noatime", "nosuid"]
    assert offered("cframefs -") == sorted("-f -d -h --help -V --version -o".split())
    commands = re.findall(r"^  (\w+)  ", help_of(CFRAME), re.MULTILINE)
    assert set(commands) < set(offered("cframe ")) and "tune" in commands
    assert offered("cframe help comp") == ["compress"]
    for command in commands:
        text = re.sub(r"\n {25}.*", "", help_of(CFRAME, command))
        wanted = {"--help", *re.findall(r"^  (-[^ ,=]+=?)", text, re.MULTILINE)}
        wanted |= set(re.findall(r"^  -\w, (--\w+)", text, re.MULTILINE))
        assert set(offered(f"cframe {command} -")) == wanted


def test_values_are_offered():
    codecs = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
    for line in ("cframefs -o codec=", "cframe compress --codec=", "cframe compress --codec "):
        assert offered(line) == codecs
    assert offered("cframefs -o codec=lz4,tune=s") == ["size", "speed"]
    assert "bitshuffle" in offered("cframe compress --filter=b")


def test_paths_are_offered(tmp_path):
    (tmp_path / "a directory").mkdir()
    (tmp_path / "a file").touch()
    (tmp_path / "b").mkdir()
    assert offered("cframefs -f a", tmp_path) == ["a", "directory"]
    assert offered("cframe extract -C b", tmp_path) == ["b"]
    assert offered("cframe info b", tmp_path) == [], "readline knows files by itself"


def test_a_terminal_completes():
    """As readline cuts words: at '=', too."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**SHELL, "TERM": "dumb"})
    lines = ["cframefs -o level=3,tun\tsp\t", "cframe comp\t--codec lz4h\t"]
    to_echo = "".join(f"{line}\x01echo \n" for line in lines)
    os.write(terminal, f"source {SCRIPT}\n{to_echo}exit\n".encode())
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        pass  # the shell has ended
    os.close(terminal)
    os.waitpid(pid, 0)
    lines = said.decode().split("\r\n")
    assert "cframefs -o level=3,tune=speed" in lines
    assert "cframe compress --codec lz4hc" in [line.rstrip() for line in lines]
