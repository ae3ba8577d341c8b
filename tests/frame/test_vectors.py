"""Frames made by the reference library and by early betas, decoded without a mount: cframe cat."""

import json
import re
import struct
import subprocess

import blosc2
import numpy
import pytest

from libdata import VECTORS, sha256
from libmount import CFRAME, REPO

OWN = REPO / "tests/data/frames"


def cframe(*args):
    return subprocess.run([CFRAME, *map(str, args)], capture_output=True, timeout=300)


def manifest(folder):
    path = folder / "manifest.json"
    if folder.is_relative_to(VECTORS) and not path.exists():
        pytest.skip(f"no vectors in {folder}: set CFRAMEFS_VECTORS")
    return json.loads(path.read_text())


def check(folder, entry):
    done = cframe("cat", folder / entry["name"])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == entry["nbytes"]
    assert sha256(done.stdout) == entry["sha256"]


@pytest.mark.parametrize("folder, least", [("", 70), ("beta", 6)])
def test_own_vectors(subtests, folder, least):
    entries = manifest(OWN / folder)
    assert len(entries) >= least
    for entry in entries:
        with subtests.test(entry["name"]):
            check(OWN / folder, entry)


@pytest.mark.parametrize("folder", ["frames", "beta"])
def test_shared_vectors(subtests, folder):
    for entry in manifest(VECTORS / folder):
        with subtests.test(entry["name"]):
            check(VECTORS / folder, entry)


def test_compat_is_read(subtests):
    """Third-party files of many releases, all of them. What exactly single chunks hold is known to
    the tests of the codec layer."""
    for entry in manifest(VECTORS / "compat"):
        with subtests.test(entry["name"]):
            done = cframe("cat", VECTORS / "compat" / entry["name"])
            assert done.returncode == 0, done.stderr
            if "sha256" in entry and not entry["name"].endswith(".cdata"):
                assert sha256(done.stdout) == entry["sha256"]
            else:
                assert len(done.stdout) == entry["nbytes"]


def test_info_agrees_with_the_manifest(subtests):
    for entry in manifest(OWN):
        with subtests.test(entry["name"]):
            done = cframe("info", OWN / entry["name"], "--json")
            assert done.returncode == 0, done.stderr
            info = json.loads(done.stdout)
            assert info["nbytes"] == entry["nbytes"] and info["nchunks"] == entry["nchunks"]
            assert info["chunksize"] == entry["chunksize"] or entry["nbytes"] == 0
            assert info["typesize"] == entry["typesize"]
            plain = cframe("info", OWN / entry["name"])
            assert (
                plain.returncode == 0
                and f"nbytes       {entry['nbytes']} bytes\n".encode() in plain.stdout
            )


@pytest.mark.parametrize(
    "name, version, pipeline, header",
    [
        ("1.7.0-blosclz-s1-t24-ramp-50003", 2, "shuffle:24+blosclz", 16),
        ("1.21.6-lz4hc-s2-t8-ramp-64000", 2, "bitshuffle:8+lz4", 16),
        ("1.21.6-lz4-s0-t4-zero-40000", 2, "none:4+lz4", 16),
    ],
)
def test_info_of_chunks_of_blosc1(name, version, pipeline, header):
    path = REPO / f"tests/data/blosc1/blosc1-{name}.cdata"
    info = json.loads(cframe("info", path, "--json").stdout)
    assert (info["kind"], info["version"]) == ("chunk", version)
    assert (info["pipeline"], info["header_len"]) == (pipeline, header)
    assert info["nbytes"] == int(name.split("-")[-1]) and info["cbytes"] == path.stat().st_size
    assert info["content"] == "blocks" and info["typesize"] == int(name.split("-")[3][1:])
    assert b"kind         chunk\n" in cframe("info", path).stdout


@pytest.mark.parametrize("content", ["blocks", "plain copy", "zeros", "repeated item"])
def test_info_of_chunks_of_blosc2(work, content):
    data = {
        "blocks": numpy.arange(9000).tobytes(),
        "plain copy": numpy.random.default_rng(1).bytes(9000),
        "zeros": bytes(9000),
        "repeated item": b"\1\2\3\4" * 10,
    }[content]
    if content == "repeated item":
        head = struct.pack("<4B3i", 5, 1, 5, 4, len(data), len(data), 36)
        chunk = head + bytes(15) + b"\x30" + data[:4]
    else:
        chunk = blosc2.compress2(data, typesize=8, codec=blosc2.Codec.ZSTD)
    (work / "chunk").write_bytes(chunk)
    assert cframe("cat", work / "chunk").stdout == data
    info = json.loads(cframe("info", "--json", work / "chunk").stdout)
    assert info["content"] == content and info["kind"] == "chunk" and info["version"] == 5
    assert info["nbytes"] == len(data) and info["cbytes"] == len(chunk)
    expected = {"blocks": "shuffle:8+zstd", "plain copy": "store"}
    assert info.get("pipeline") == expected.get(content)


def test_metalayers_are_listed():
    info = json.loads(cframe("info", OWN / "meta.b2frame", "--json").stdout)
    assert json.loads(cframe("info", "--json", OWN / "meta.b2frame").stdout) == info
    assert info["meta"] == {"numbers": 4, "title": 6}
    assert set(info["vlmeta"]) == {"history", "short"}
    plain = cframe("info", OWN / "meta.b2frame").stdout.decode()
    assert info["blocksize"] == 0 and "\nblocksize    automatic\n" in plain
    assert "  numbers      4 bytes\n" in plain and f"nchunks      {info['nchunks']}\n" in plain


def test_odd_names_of_metalayers(work):
    """JSON is UTF-8, and a terminal obeys control characters."""
    odd = b"\xc3n\x1b[m\xffr", "\u00e9\u20ac".encode()
    frame = (OWN / "meta.b2frame").read_bytes()
    frame = frame.replace(b"\xa7numbers", b"\xa7" + odd[0]).replace(b"\xa5title", b"\xa5" + odd[1])
    (work / "odd.b2frame").write_bytes(frame)
    info = json.loads(cframe("info", work / "odd.b2frame", "--json").stdout.decode())
    assert info["meta"] == {"?n\x1b[m?r": 4, "\u00e9\u20ac": 6}
    plain = cframe("info", work / "odd.b2frame").stdout
    assert b"\n  \xc3n?[m\xffr      4 bytes\n" in plain and b"\x1b" not in plain


def test_bytes_behind_the_frame_are_ignored(work):
    source = OWN / "core-zstd-shuffle-t4-mixed.b2frame"
    (work / "longer").write_bytes(source.read_bytes() + b"tail" * 999)
    assert cframe("cat", work / "longer").stdout == cframe("cat", source).stdout


@pytest.mark.parametrize(
    "args, why",
    [
        (["cat", "/nonexistent"], b"No such file"),
        (["cat", "/dev/null"], b"is not a regular file"),
        (["cat", "empty"], b"is not a Blosc2 frame, nor a chunk\n"),
        (["info", "shown"], b"No such file or directory; its frame is "),
        (["info", "text"], b"is not a Blosc2 frame, nor a chunk\n"),
        (["info", "short"], b"is not a Blosc2 frame; as a chunk: corrupt: no room for a chunk"),
        (["info", "/"], b"is a directory: name a file in it"),
    ],
)
def test_failures_are_one_line(work, args, why):
    (work / "empty").touch()
    (work / "text").write_text("a text, and no chunk at all")
    (work / "short").write_bytes(b"\5\1")
    (work / "shown.b2frame").touch()
    path = str(work / args[1])
    done = cframe(args[0], path)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith(b"cframe: " + path.encode() + b": ") and why in done.stderr
    assert done.stderr.count(b"\n") == 1


def names_in(json):
    """Those of all objects, but for metalayers, whose names are their own."""
    if isinstance(json, dict):
        inner = (value for name, value in json.items() if name not in ("meta", "vlmeta"))
        return set(json).union(*map(names_in, inner))
    return set().union(*map(names_in, json)) if isinstance(json, list) else set()


def test_man_page_lists_every_name_in_json():
    chunk, array = next((OWN.parent / "blosc1").glob("*.cdata")), next(OWN.glob("*.b2nd"))
    files = [OWN / "meta.b2frame", OWN / "sparse.b2frame", array, chunk]
    printed = [json.loads(cframe("info", path, "--json").stdout) for path in files]
    printed.append(json.loads(cframe("tune", files[0], "--json").stdout))
    manual = (REPO / "docs/cframe.1").read_text()
    (section,) = re.findall(r"^\.SS JSON\n(.*?)^\.SS", manual, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"\\fI(\w+)\\fR", section)) == names_in(printed)


def options_in(text):
    return set(re.findall(r"(?<![\w.-])--?[A-Za-z][\w-]*", text))


def test_help_man_page_and_readme_have_the_same_options():
    manual = (REPO / "docs/cframe.1").read_text().replace("\\-", "-")
    one = re.compile(r"^\.TP\n\.B (\w+)\n(.*?)(?=^\.TP\n\.B \w|^\.SS)", re.MULTILINE | re.DOTALL)
    sections = one.findall(manual)
    assert len(sections) > 8
    for command, text in sections:
        helped = re.findall(
            r"^  -.*?(?=  )", cframe(command, "--help").stdout.decode(), re.MULTILINE
        )
        assert options_in("\n".join(helped)) == options_in(text), command
    used = re.findall(r"cframe (\w+) (--?[a-zA-Z]\w*)", (REPO / "README.md").read_text())
    assert used and all(option in options_in(dict(sections)[command]) for command, option in used)


def test_help_and_man_page_list_every_subcommand():
    done = cframe("--help")
    assert done.returncode == 0
    helped = re.findall(r"^  (\w+) ", done.stdout.decode(), re.MULTILINE)
    text = (REPO / "docs/cframe.1").read_text()
    manual = re.findall(r"^\.B cframe (\w+)", text, re.MULTILINE)
    assert helped == manual and "info" in helped
    for option in ("--help", "--version"):
        assert option in done.stdout.decode() and option in text.replace("\\-", "-")
    assert cframe().returncode == 1 and cframe("cat").returncode == 1
    done = cframe("dog")
    assert done.returncode == 1 and b"no command is called 'dog'" in done.stderr
    assert re.fullmatch(rb"cframe \d+\.\d+\.\d+\n", cframe("--version").stdout)
    assert b"zstd" in cframe("codecs").stdout
