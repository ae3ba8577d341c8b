"""Completion in bash, zsh and fish: it offers what --help lists, and a terminal gets that."""

import os
import pty
import re
import shlex
import shutil
import subprocess

import pytest

from libmount import BUILD, CFRAME, DAEMON, REPO

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


# Asks when the prompt appears, and notes what is added, and the line after it.
ZSH = """\
setopt extendedglob
LISTMAX=1000 # no question
autoload -Uz compinit; compinit -u -d $ZDOTDIR/dump
source "$SCRIPT"
zstyle ':completion:*' verbose no
compadd() {
  local -a hits
  if [[ " ${(j: :)@[1,(i)(-|--)]} " != *" "-[a-zA-Z]#[OAD]" "* ]]; then
    builtin compadd -O hits "$@"; print -lr -- $hits >> $NOTES
  fi
  builtin compadd "$@"
}
zle-line-init() {
  BUFFER=$LINE CURSOR=$#LINE
  zle complete-word
  print -rn -- "=$BUFFER" >> $NOTES
  BUFFER=exit; zle .accept-line
}
zle -N zle-line-init
"""


@pytest.fixture
def zsh(tool, tmp_path):
    """zsh("cframe comp") -> (what there is to choose from, the line after a Tab)."""
    shell = tool("zsh")
    (tmp_path / ".zshrc").write_text(ZSH)
    notes, script = tmp_path / "notes", REPO / "tools/completion.zsh"

    def offered(line, cwd=tmp_path):
        notes.write_text("")
        more = {"TERM": "dumb", "LINE": line, "ZDOTDIR": tmp_path, "NOTES": notes, "SCRIPT": script}
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(cwd)
            os.execve(shell, ["zsh", "-d", "-i"], {**SHELL, **more})
        said = drain(terminal)
        os.waitpid(pid, 0)
        *words, after = notes.read_text().split("\n")
        assert after.startswith("="), said
        return set(filter(None, words)), after[1:]

    return offered


def drain(terminal):
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        pass  # the shell has ended
    os.close(terminal)
    return said


def help_of(*words):
    return subprocess.run([*words, "--help"], capture_output=True, text=True, check=True).stdout


def options_of(*words):
    text = re.sub(r"\n {25}.*", "", help_of(*words))
    options = re.findall(r"^  (-[^ ,=]+=?)", text, re.MULTILINE)
    return {*options, *re.findall(r"^  -\w, (--\w+)", text, re.MULTILINE)}


def test_the_options_of_help_are_offered():
    mount = re.findall(r"^  (\w+=)", help_of(DAEMON), re.MULTILINE)
    assert len(mount) > 15 and set(mount) < set(offered("cframefs -o "))
    assert offered("cframefs store mnt -o level=3,tun") == ["3,tune="]
    assert offered("cframefs -o n") == ["noatime", "nosuid"]
    words = ["-f", "-d", "-h", "--help", "-V", "--version", "-o", "--recompress"]
    assert offered("cframefs -") == sorted(words)
    commands = re.findall(r"^  (\w+)  ", help_of(CFRAME), re.MULTILINE)
    assert set(commands) < set(offered("cframe ")) and "tune" in commands
    assert offered("cframe help comp") == ["compress"]
    for command in commands:
        assert set(offered(f"cframe {command} -")) == {"--help", *options_of(CFRAME, command)}


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
    os.write(terminal, f"source {shlex.quote(str(SCRIPT))}\n{to_echo}exit\n".encode())
    said = drain(terminal)
    os.waitpid(pid, 0)
    lines = said.decode().split("\r\n")
    assert "cframefs -o level=3,tune=speed" in lines
    assert "cframe compress --codec lz4hc" in [line.rstrip() for line in lines]


def test_zsh_offers_the_options_of_help(zsh):
    mount = re.findall(r"^  (\w+)=", help_of(DAEMON), re.MULTILINE)
    words = {"rw", "ro", "allow_other", "noatime", "nosuid"}
    assert zsh("cframefs -o ")[0] == {*mount, *words} and len(mount) > 15
    assert zsh("cframefs -")[0] == {*options_of(DAEMON), "-o"}
    commands = re.findall(r"^  (\w+)  ", help_of(CFRAME), re.MULTILINE)
    assert zsh("cframe ")[0] == set(commands) and "tune" in commands
    for command in commands:
        options = {name.rstrip("=") for name in options_of(CFRAME, command)}
        assert zsh(f"cframe {command} -")[0] == {"-h", "--help", *options}


def test_zsh_offers_values_and_paths(zsh, tmp_path):
    codecs = {"blosclz", "lz4", "lz4hc", "zlib", "zstd"}
    for line in ("cframefs -o codec=", "cframe compress --codec=", "cframe compress --codec "):
        assert zsh(line)[0] == codecs
    assert zsh("cframefs -o level=3,tun")[1] == "cframefs -o level=3,tune="
    assert zsh("cframefs -o level=3,tune=sp")[1] == "cframefs -o level=3,tune=speed,"
    assert zsh("cframe comp")[1] == "cframe compress "
    (tmp_path / "a directory").mkdir()
    (tmp_path / "a file").touch()
    assert zsh("cframefs -f a")[1] == "cframefs -f a\\ directory/"
    assert zsh("cframe extract -C a")[1] == "cframe extract -C a\\ directory/"
    assert zsh("cframe compress --rules=a\\ f")[1] == "cframe compress --rules=a\\ file "
    assert zsh("cframe info a\\ f")[1] == "cframe info a\\ file "


@pytest.fixture
def fish(tool, tmp_path):
    """fish("cframe comp") -> what there is to choose from."""
    shell, script = tool("fish"), REPO / "tools/completion.fish"

    def offered(line):
        got = subprocess.run(
            [
                shell,
                "--no-config",
                "-c",
                f"source {shlex.quote(str(script))}; complete -C '{line}'",
            ],
            env={**SHELL, "HOME": tmp_path, "TERM": "dumb"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert (got.returncode, got.stderr) == (0, ""), got
        return {it.split("\t")[0] for it in got.stdout.splitlines()}

    return offered


def test_fish_offers_what_help_lists(fish, tmp_path):
    mount = set(re.findall(r"^  (\w+=)", help_of(DAEMON), re.MULTILINE))
    words = {"rw", "ro", "allow_other", "noatime", "nosuid"}
    offered = fish("cframefs -o ")
    assert {it for it in offered if not re.search("=.", it)} == mount | words
    assert fish("cframefs -o level=3,tune=s") == {"level=3,tune=size", "level=3,tune=speed"}
    assert fish("cframefs -") == {*options_of(DAEMON), "-o"}
    commands = set(re.findall(r"^  (\w+)  ", help_of(CFRAME), re.MULTILINE))
    assert fish("cframe ") == commands and "tune" in commands
    for command in commands:
        options = {name.rstrip("=") for name in options_of(CFRAME, command)}
        assert fish(f"cframe {command} -") == {"-h", "--help", *options}
    codecs = {"blosclz", "lz4", "lz4hc", "zlib", "zstd"}
    assert fish("cframe compress --codec ") == codecs
    assert fish("cframe compress --codec=") == {f"--codec={name}" for name in codecs}
    (tmp_path / "directory").mkdir()
    (tmp_path / "direct").touch()
    assert fish("cframefs dir") == {"directory/"}
    assert fish("cframe info dir") == {"directory/", "direct"}


def test_shells_find_it_where_it_is_installed(tmp_path):
    log = BUILD / "meson-logs/install-log.txt"  # what `ninja uninstall` removes; it may be root's
    before = log.read_bytes() if log.exists() else None
    build = tmp_path / "build"
    (build / "meson-logs").mkdir(parents=True)
    shutil.copytree(BUILD / "meson-private", build / "meson-private")
    for folder in ("src", "tools"):
        (build / folder).symlink_to(BUILD / folder)
    command = ["meson", "install", "-C", build, "--no-rebuild", "--quiet"]
    env = {**os.environ, "DESTDIR": str(tmp_path / "at")}
    subprocess.run(command, env=env, check=True, capture_output=True)
    assert (log.read_bytes() if log.exists() else None) == before
    top = tmp_path / "at/usr/local"
    assert {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()} == {
        "bin/cframe",
        "bin/cframefs",
        "share/bash-completion/completions/cframe",
        "share/bash-completion/completions/cframefs",
        "share/doc/cframefs/LICENSE",
        "share/fish/vendor_completions.d/cframe.fish",
        "share/fish/vendor_completions.d/cframefs.fish",
        "share/man/man1/cframe.1",
        "share/man/man1/cframefs.1",
        "share/man/man8/cframefs.8",
        "share/zsh/site-functions/_cframe",
    }
