"""The structure that DESIGN.md describes: layers, headers that compile alone, short
functions and lines, small files."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from libmount import REPO

pytestmark = pytest.mark.release

LAYERS = {
    "base": set(),
    "codec": {"base"},
    "frame": {"codec", "base"},
    "fs": {"frame", "codec", "base"},
    "tools": {"frame", "codec", "base"},
}
FUNCTION_LINES, TAGGED_LINES, FILE_LINES, COLUMNS, PARAMETERS = 60, 100, 600, 100, 5
TAG = "long:"  # in the comment of a function with up to TAGGED_LINES: a table or a parser; says why
SHEBANG = b"#!/usr/bin/env python3"


def sources():
    """{path: layer} of the C files of the project."""
    found = {}
    for layer in LAYERS:
        top = REPO / layer if layer == "tools" else REPO / "src" / layer
        for path in sorted(top.rglob("*.[ch]")):
            found[path] = layer
    return found


SOURCES = sources()
# tools/bench stands beside other programs, and needs their headers, which are optional. Tables of
# rows for the includer's macro, and bodies that are included once for each instruction set (B2,
# B7).
FRAGMENTS = ("list.h", "impl.h")
HEADERS = [
    path
    for path in SOURCES
    if path.suffix == ".h"
    and not path.is_relative_to(REPO / "tools/bench")
    and not (path.name.endswith(FRAGMENTS) and SOURCES[path] == "codec")
]


# The C files of the tests obey the limits of the project, though not its layers.
FILES = [*SOURCES, *sorted((REPO / "tests/c").rglob("*.[ch]"))]


def name(path):
    return str(path.relative_to(REPO))


def includes(path):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def test_there_are_layers():
    assert {"base", "codec", "frame", "fs"} <= set(SOURCES.values()) and len(HEADERS) > 10


def wrong_include(path, layer, wanted):
    first = wanted.split("/")[0]
    if "/" in wanted and first in LAYERS:
        return "" if first in {layer, *LAYERS[layer]} else f"{layer} may not include {wanted}"
    beside = (path.parent / wanted).resolve()
    if not beside.exists():
        return f"{wanted}: neither layer/name.h nor a file beside it"
    return "" if layer in str(beside) else f"{wanted} leads out of {layer}"


# One test for all files, which names each that breaks the rule: a test for each file would take the
# tests' own machinery many times as long as the look at it.
def test_includes_go_down():
    found = [
        f"{name(path)}: {wrong}"
        for path, layer in SOURCES.items()
        for wanted in includes(path)
        if (wrong := wrong_include(path, layer, wanted))
    ]
    assert not found


def python_files():
    """The Python of the project, the commands without a suffix included."""
    for path in [*(REPO / "tests").rglob("*.py"), *(REPO / "tools").rglob("*")]:
        if path.suffix == ".py" or (path.is_file() and path.read_bytes()[:22] == SHEBANG):
            yield path


def build_files():
    yield REPO / "meson.build"
    for top in "src", "tests", "tools":
        yield from (REPO / top).rglob("meson.build")


def test_lines_are_short():
    found = [
        f"{name(path)}:{n}"
        for path in [*FILES, *sorted(python_files()), *sorted(build_files())]
        for n, line in enumerate(path.read_text().expandtabs(8).splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert not found


def test_meson_knows_every_test_file():
    tests = REPO / "tests"
    there = {str(path.relative_to(tests)) for path in tests.rglob("test_*.py")}
    folders = re.findall(r"'(\w*)': \[([^]]*)\]", (tests / "meson.build").read_text())
    told = [
        str(Path(folder, f"test_{name}.py"))
        for folder, names in folders
        for name in re.findall(r"'(\w+)'", names)
    ]
    assert sorted(told) == sorted(there)


def test_the_codec_floor_does_no_io():
    """No file, thread, print or getenv below the frame layer, but in parallel.c."""
    banned = re.compile(
        r"\b(fopen|open|openat|pread|pwrite|fprintf|printf|getenv"
        r"|pthread_\w+|log_(?:err|warn|info|debug))\s*\("
    )
    for path, layer in SOURCES.items():
        if layer == "codec" and path.stem != "parallel":
            code = strip_comments(path.read_text())
            found = banned.findall(code)
            assert not found, f"{name(path)}: {found}"


@pytest.mark.parametrize("path", HEADERS, ids=name)
def test_header_compiles_alone(path, tmp_path):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "fuse3"], capture_output=True, text=True
    ).stdout
    unit = tmp_path / "alone.c"
    unit.write_text(f'#include "{path}"\n#include "{path}"\nint alone;\n')
    got = subprocess.run(
        [
            compiler,
            "-std=gnu11",
            "-D_GNU_SOURCE",
            "-D_FILE_OFFSET_BITS=64",
            "-fsyntax-only",
            "-Wall",
            "-I",
            REPO / "src",
            *shlex.split(flags),
            unit,
        ],
        capture_output=True,
        text=True,
    )
    assert got.returncode == 0, got.stderr


@pytest.mark.release
@pytest.mark.watchdog(600)  # 8 s of processor time
def test_the_other_compiler_takes_all_of_it():
    """README names releases of two, of which the build at hand tries one."""
    clang = shutil.which("clang")
    if not clang:
        pytest.skip("no clang")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "fuse3"], capture_output=True, text=True
    ).stdout
    options = ["-std=gnu11", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", '-DVERSION=""', "-Wall"]
    sources = [p for p in SOURCES if p.suffix == ".c" and SOURCES[p] != "tools"]
    sources = [p for p in sources if p.parent.parent.name != "kernels"]  # each has flags
    got = subprocess.run(
        [clang, *options, "-fsyntax-only", "-I", REPO / "src", *shlex.split(flags), *sources],
        capture_output=True,
        text=True,
    )
    assert got.returncode == 0, got.stderr


def strip_comments(text):
    """Comments and string contents blanked, lines kept."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    return re.sub(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
        blank,
        text,
        flags=re.DOTALL,
    )


def functions(path):
    """(name, first line, lines, tagged) of each function body that starts in the first column."""
    raw = path.read_text().splitlines()
    code = strip_comments(path.read_text()).splitlines()
    start = None
    for i, line in enumerate(code):
        if (
            line.startswith("{")
            and i
            and not code[i - 1].rstrip().endswith((";", "=", ","))
            and "(" in "".join(code[max(0, i - 6) : i])
        ):
            start = i
        elif line.startswith("}") and start is not None:
            head = start
            while head and code[head - 1].strip() and not code[head - 1].startswith(("}", "#")):
                head -= 1
            comment, above = [], head
            while above and (
                raw[above - 1].strip().startswith(("*", "/*"))
                or raw[above - 1].strip().endswith("*/")
            ):
                above -= 1
                comment.append(raw[above])
            title = " ".join(code[head:start]).strip()
            yield title, head + 1, i - start - 1, TAG in "".join(comment)
            start = None


def test_the_function_counter_counts():
    """The measure itself: it must see functions, and their lines."""
    seen = [f for path in SOURCES if path.suffix == ".c" for f in functions(path)]
    assert len(seen) > 100 and max(f[2] for f in seen) > 20


def test_functions_are_short():
    found = [
        f"{name(path)}:{line}: {count} lines: {title[:70]}"
        for path in SOURCES
        if path.suffix == ".c"
        for title, line, count, tagged in functions(path)
        if count > (TAGGED_LINES if tagged else FUNCTION_LINES)
    ]
    assert not found


def parameters(title):
    if re.search(r"\(fuse_req_t |\*userdata\)$", title):
        return 0  # of a type that libfuse calls
    inner = title[title.index("(") + 1 :]
    while re.search(r"\([^()]*\)", inner):  # of a parameter that is a function
        inner = re.sub(r"\([^()]*\)", "", inner)
    return inner.count(",") + 1


def test_functions_have_few_parameters():
    found = [
        f"{name(path)}:{line}: {parameters(title)} parameters: {title[:70]}"
        for path in SOURCES
        for title, line, _, _ in functions(path)
        if parameters(title) > PARAMETERS
    ]
    assert not found


def map_folder(path):
    """The folder of docs/MAP.md that tells of a file: those of one instruction set share theirs."""
    folder = path.parent
    return folder.parent if folder.name in ("x86", "arm") else folder


def test_the_map_names_every_file():
    """docs/MAP.md: a section a folder, whose tables name the files in their first column."""
    sections = re.split(r"\n###? (?=src/)", (REPO / "docs/MAP.md").read_text())[1:]
    told = {}
    for section in sections:
        rows = re.findall(r"^\| (`[^|]+) \|", section.partition("\n## ")[0], re.MULTILINE)
        names = re.findall(r"`([\w/]+)`", " ".join(rows))
        folder = section.partition(":")[0]
        assert folder not in told and len(names) == len(set(names)), f"{folder}: one is named twice"
        told[folder] = set(names)
    there = {}
    for path in SOURCES:
        if path.is_relative_to(REPO / "src"):
            stem = str(path.relative_to(map_folder(path)).with_suffix(""))
            there.setdefault(name(map_folder(path)), set()).add(stem)
    assert told == there


def test_the_map_tells_what_other_layers_see():
    """docs/MAP.md, "From the outside": what files of other layers include, but for the bench."""
    text = (REPO / "docs/MAP.md").read_text()
    for layer in "codec", "frame":
        told = re.search(rf"## src/{layer}:.*?From the outside: (.*?)\.\n", text, re.DOTALL)[1]
        seen = {
            wanted.removeprefix(f"{layer}/").removesuffix(".h")
            for path, other in SOURCES.items()
            if other != layer and not path.is_relative_to(REPO / "tools/bench")
            for wanted in includes(path)
            if wanted.startswith(f"{layer}/")
        }
        assert set(re.findall(r"`([\w/]+)`", told)) == seen


def test_files_are_small():
    counts = {name(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert not {path: count for path, count in counts.items() if count > FILE_LINES}


def test_no_machine_paths():
    """The project stands alone: no path of somebody's machine in what git tracks."""
    tracked = subprocess.run(["git", "-C", REPO, "ls-files"], capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for line in tracked.stdout.splitlines():
        path = Path(REPO / line)
        if (
            path.suffix in (".c", ".h", ".py", ".md", ".sh", ".build", ".txt", "")
            and path.is_file()
            and path.name != "test_structure.py"
        ):
            assert not re.search(r"/work/|/tmp/venv", path.read_text(errors="replace")), line
