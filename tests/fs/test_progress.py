"""cframe on a terminal: the line that a long run shows, and names that it would obey."""

import os
import pty
import re
import subprocess

import pytest

from libdata import blob
from libmount import CFRAME

pytestmark = pytest.mark.release

LINE = r"\r\d+ files?, [\d.]+ k?M?B( -> [\d.]+ k?M?B \([\d.]+ %\))?, [\d.]+ k?M?B/s\x1b\[K"
TAKEN = r"\r\x1b\[K"


def on_terminal(*args, term="xterm"):
    """What the terminal gets of it, and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(CFRAME, ["cframe", *args], {**os.environ, "TERM": term})
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        pass  # it has ended
    os.close(terminal)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def slow(tmp_path):
    """Options and a directory whose files take seconds; a fifo between them."""
    (tmp_path / "plain").mkdir()
    for name in ("a", "z"):
        (tmp_path / "plain" / name).write_bytes(blob(1, 4 << 20, "text"))
    os.mkfifo(tmp_path / "plain/fifo")
    return ["compress", "-j1", "--codec=zstd", "--level=9", tmp_path / "plain"]


def test_a_long_run_tells_how_far_it_is(slow, tmp_path):
    said, code = on_terminal(*slow, tmp_path / "made")
    taken = f"(({LINE})+{TAKEN})?"
    told = re.escape(f"cframe: {tmp_path}/plain/fifo: is not a file, directory or link: left out")
    assert code == 0 and re.search(LINE, said), said
    assert re.fullmatch(f"{taken}{told}\r\n{taken}", said), said
    assert " -> " in said


def test_others_need_no_line(slow, tmp_path):
    os.truncate(tmp_path / "plain/z", 0)  # one of them is enough
    assert "\x1b" not in on_terminal(*slow, tmp_path / "made", term="dumb")[0]
    assert "\x1b" not in on_terminal(*slow, "-v", tmp_path / "told")[0]
    assert on_terminal("extract", "-C", tmp_path / "back", tmp_path / "made") == ("", 0)
    (tmp_path / "made/\x1b[31m.b2frame").write_bytes(b"")
    assert "/?[31m\r\n" in on_terminal("ls", tmp_path / "made")[0]
    os.unlink(tmp_path / "made/\x1b[31m.b2frame")
    assert on_terminal("verify", tmp_path / "made") == ("", 0)


def test_no_name_is_obeyed(tmp_path):
    """By a terminal; who reads a pipe gets it as it is."""
    odd, made, back = tmp_path / "\x1b[31m", tmp_path / "made", tmp_path / "back"
    odd.write_bytes(b"odd")
    assert on_terminal("compress", "-v", odd, made)[0].startswith(f"{tmp_path}/?[31m: 3 -> ")
    assert on_terminal("extract", "-v", "-C", back, made) == ("?[31m\r\n", 0)
    frame = made / (odd.name + ".b2frame")
    frame.write_bytes(b"no frame")
    assert on_terminal("verify", made) == (f"{made}/?[31m.b2frame: is not a Blosc2 frame\r\n", 1)
    piped = subprocess.run([CFRAME, "verify", made], capture_output=True)
    assert piped.stdout == bytes(frame) + b": is not a Blosc2 frame\n"
