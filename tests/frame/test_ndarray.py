"""b2nd arrays of the reference, taken apart with ndarray_locate and put together as .npy files."""

import io
import json
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libdata import sha256
from libmount import BUILD, REPO

np = pytest.importorskip("numpy")
blosc2 = pytest.importorskip("blosc2")

NPY = BUILD / "tests/c/frame_npy"
OWN = REPO / "tests/data/frames"


def npy(path, *args):
    done = subprocess.run([NPY, path, *map(str, args)], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index(b"\n") % 64 == 63
    return np.load(io.BytesIO(done.stdout))


@pytest.mark.parametrize(
    "entry",
    [e for e in json.loads((OWN / "manifest.json").read_text()) if e["name"].endswith(".b2nd")],
    ids=lambda e: e["name"],
)
def test_vectors(entry):
    array = npy(OWN / entry["name"])
    assert (
        array.nbytes == entry["array_nbytes"] and sha256(array.tobytes()) == entry["array_sha256"]
    )


DTYPES = [
    "<i4",
    "|u1",
    ">f4",
    "<f8",
    "<c16",
    "<U3",
    "|S5",
    "<M8[ns]",
    "<m8[25s]",
    "|b1",
    "|V10",
    [("a", "<i4"), ("b", "<f8")],
    [("x", "|S3"), ("y", [("p", "<i2"), ("q", ">u4", (2, 3))])],
]


@st.composite
def geometry(draw):
    shape = draw(st.lists(st.integers(1, 13), min_size=1, max_size=4))
    chunks = [draw(st.integers(1, n)) for n in shape]
    blocks = [draw(st.integers(1, n)) for n in chunks]
    return tuple(shape), tuple(chunks), tuple(blocks)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shapes=geometry(),
    dtype=st.sampled_from(DTYPES),
    step=st.integers(1, 40),
    seed=st.integers(0, 1000),
)
def test_random_arrays(work, shapes, dtype, step, seed):
    shape, chunks, blocks = shapes
    dtype = np.dtype(dtype)
    data = np.frombuffer(
        np.random.default_rng(seed).bytes(int(np.prod(shape, dtype=int)) * dtype.itemsize),
        dtype="u1",
    )
    if dtype.kind == "b":
        data = data & 1
    if dtype.kind == "U":
        data = np.array(["ab", "c", "xyz"], dtype="<U3")[
            np.arange(np.prod(shape, dtype=int)) % 3
        ].view("u1")
    array = data.view(dtype).reshape(shape) if shape else data.view(dtype)[0].reshape(())
    path = work / "a.b2nd"
    blosc2.asarray(
        np.ascontiguousarray(array), chunks=chunks, blocks=blocks, urlpath=str(path), mode="w"
    )
    stored = blosc2.open(str(path), mode="r").dtype  # |V10 comes back with a name for its bytes
    for args in ([], [step]):
        got = npy(path, *args)
        assert got.dtype == stored and got.shape == shape and got.tobytes() == array.tobytes()


def test_empty_array(work):
    blosc2.zeros((0, 5), dtype="<f4", urlpath=str(work / "a.b2nd"), mode="w")
    got = npy(work / "a.b2nd")
    assert got.shape == (0, 5) and got.dtype == "<f4"


@pytest.mark.parametrize("fields", [500, 1500])
def test_tables_of_many_columns(work, fields):
    path = work / "a.b2nd"
    array = np.zeros(20, dtype=[(f"c{i}", "<f4") for i in range(fields)])
    array["c7"] = np.arange(20)
    blosc2.asarray(array, urlpath=str(path), mode="w")
    if fields < 1000:
        got = npy(path)
        assert got.dtype == array.dtype and got.tobytes() == array.tobytes()
    else:
        done = subprocess.run([NPY, path], capture_output=True)
        assert done.returncode == 1 and b"not supported: length of the dtype" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "µ",
        "日本語",
        "\U0001f52d",
        "\U00100000",
        "a'b",
        'a"b',
        "a'b\"c",
        "back\\slash",
        "\t\n\r",
        "\x1b\x7f",
        "\u200b",
    ],
    ids=ascii,
)
def test_names_of_columns(work, name):
    """Format 1 of .npy files has ISO 8859-1 only, format 3 UTF-8."""
    array = np.zeros(20, dtype=[(name, "<f4"), ("plain", "|u1")])
    array[name] = np.arange(20)
    path = work / "a.b2nd"
    blosc2.asarray(array, urlpath=str(path), mode="w")
    assert blosc2.open(str(path), mode="r").dtype == array.dtype
    got = npy(path)
    assert got.dtype == array.dtype and got.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "name, stored, other",
    [
        ("µ", "µ".encode(), b"\xc2("),
        ("日", "日".encode(), b"\xed\xa0\x80"),  # a surrogate
        ("\x1b", b"\\x1b", b"\\xzb"),
        ("\u200b", b"\\u200b", b"\\u20 b"),
        ("\U00100000", b"\\U00100000", b"\\U00110000"),
        ("\U000e0001", b"\\U000e0001", b"\\U000e000 "),
        ("\t", b"\\t", b"\\q"),
        ("ab", b"ab", b"a\n"),
    ],
    ids=ascii,
)
def test_names_that_are_none(work, name, stored, other):
    path = work / "a.b2nd"
    array = np.zeros(20, dtype=[(name, "<f4"), ("plain", "|u1")])
    blosc2.asarray(array, urlpath=str(path), mode="w")
    raw = path.read_bytes()
    assert raw.count(b"[('" + stored + b"'") == 1
    path.write_bytes(raw.replace(b"[('" + stored + b"'", b"[('" + other + b"'"))
    done = subprocess.run([NPY, path], capture_output=True)
    assert done.returncode == 1 and b"not supported: dtype" in done.stderr


FIELDS = [(("title", "a"), "<f4"), ("b", "<u2", (2,)), ("c", "|u1")]


@pytest.mark.parametrize(
    "stored, other, fits",
    [
        (b"(2,)", b"(2,)", True),
        (b"(2,)", b" 2  ", True),  # NumPy never writes that, and reads it
        (b"(2,)", b"(2 )", True),
        (b"(2,)", b"(3,)", False),
        (b"(2,)", b"(x,)", None),
        (b"(2,)", b"(,2)", None),
        (b"('title', 'a')", b"('title' ,'a')", True),
        (b"('title', 'a')", b"('title', 'a' ", None),
        (b"('title', 'a')", b"('title', 3 ) ", None),
        (b"'<f4'", b"[[[[[", None),
        (b"'u1'", b"'|?'", True),
        (b"'u1'", b"'?1'", None),
    ],
    ids=ascii,
)
def test_titles_and_repeats_of_columns(work, stored, other, fits):
    """`fits`: the items have that size. If not, they become plain bytes; None: NumPy would not read
    it either."""
    path = work / "a.b2nd"
    array = np.frombuffer(bytes(range(180)), dtype=FIELDS)
    blosc2.asarray(array, urlpath=str(path), mode="w")
    raw = path.read_bytes()
    assert raw.count(stored) == 1
    path.write_bytes(raw.replace(stored, other))
    if fits is None:
        done = subprocess.run([NPY, path], capture_output=True)
        assert done.returncode == 1 and b"not supported: dtype" in done.stderr
        return
    got = npy(path)
    assert got.tobytes() == array.tobytes()
    if fits:
        assert got.dtype.names == ("a", "b", "c") and got.dtype.fields["title"][0] == "<f4"
        assert got.dtype["b"].shape == (2,)
    else:
        assert got.dtype == "|V9"


POINT = np.dtype([("x", "i1"), ("y", ">i4"), ("z", "i1")], align=True)


def made_of(path, dtype, items=7):
    """An array whose dtype is stored as NumPy prints it; the bytes of its only chunk."""
    array = blosc2.zeros((items,), dtype=dtype, urlpath=str(path), mode="w")
    data = np.random.default_rng(1).bytes(items * dtype.itemsize)
    array.schunk.update_data(0, data, copy=True)
    assert str(dtype).encode() in path.read_bytes()
    return data


@pytest.mark.parametrize(
    "dtype",
    [
        POINT,
        {"names": ["a", "b"], "formats": ["<i4", "<f8"], "offsets": [4, 16], "itemsize": 32},
        {"names": ["a"], "formats": [("<i2", (2, 3))], "offsets": [0], "itemsize": 13},
        {
            "names": ["it's", "[]"],
            "formats": ["S3", "<U2"],
            "offsets": [1, 4],
            "titles": ["t}", None],
        },
        [("a", "|i1"), ("b", {"names": ["c"], "formats": ["<f4"], "offsets": [4]}), ("d", "|i1")],
        np.dtype([("a", "i1"), ("p", POINT, (2,)), ("c", "<c16"), ("d", "S3")], align=True),
        np.dtype([("a", "i1"), ("b", [("p", POINT), ("c", "<M8[s]")]), ("f", "f16")], align=True),
    ],
    ids=str,
)
def test_gaps_between_fields(work, dtype):
    """NumPy prints a dictionary for such a type, which it does not read in an .npy file."""
    path = work / "a.b2nd"
    data = made_of(path, np.dtype(dtype))
    stdout = subprocess.run([NPY, path], capture_output=True, check=True).stdout
    assert stdout[-len(data) :] == data
    plain = io.BytesIO()
    np.save(plain, np.zeros(1, blosc2.open(str(path), mode="r").dtype))
    plain.seek(0)
    assert npy(path).dtype == np.load(plain).dtype


@pytest.mark.parametrize(
    "offsets, itemsize",
    [([8, 0], 12), ([0, 2], 8)],
    ids=["another order", "one over the other"],
)
def test_fields_that_no_list_has(work, offsets, itemsize):
    path = work / "a.b2nd"
    dtype = {"names": ["a", "b"], "formats": ["<i4"] * 2, "offsets": offsets, "itemsize": itemsize}
    made_of(path, np.dtype(dtype))
    done = subprocess.run([NPY, path], capture_output=True)
    assert done.returncode == 1 and b"not supported: dtype" in done.stderr


def test_packed_fields_in_an_aligned_dictionary(work):
    """NumPy does not print that they are packed, and refuses to read what it printed."""
    path = work / "a.b2nd"
    packed = np.dtype([("n", "S1"), ("v", "<f8")])
    dtype = {"names": ["k", "r"], "formats": ["<i4", packed], "offsets": [0, 4], "itemsize": 24}
    with pytest.raises(ValueError, match="alignment"):  # after it has made the array
        blosc2.zeros((7,), dtype=np.dtype(dtype | {"aligned": True}), urlpath=str(path), mode="w")
    done = subprocess.run([NPY, path], capture_output=True)
    assert done.returncode == 1 and b"not supported: dtype" in done.stderr


def test_a_dictionary_that_is_none(work):
    """Each change of a byte gives what NumPy reads, or a refusal."""
    path = work / "a.b2nd"
    made_of(path, np.dtype([("a", "i1"), ("p", POINT), (("t", "c"), "<f8")], align=True))
    raw = path.read_bytes()
    at, end = raw.index(b"{'names'"), raw.index(b"True}") + 5
    for i in range(at, end):
        for byte in b"]'9":
            path.write_bytes(raw[:i] + bytes([byte]) + raw[i + 1 :])
            done = subprocess.run([NPY, path], capture_output=True)
            if done.returncode == 0:
                assert np.load(io.BytesIO(done.stdout)).size == 7
            else:
                assert b"not supported: dtype" in done.stderr


def test_a_dictionary_with_more_titles_than_fields(work):
    path = work / "a.b2nd"
    made_of(path, np.dtype([("a", "i1"), ("b", "<f4"), (("t", "c"), "<f8")], align=True))
    raw = path.read_bytes()
    few, many = b"[None, None, 't']", b"['r','s','t','u']"
    assert few in raw and len(few) == len(many)
    path.write_bytes(raw.replace(few, many))
    done = subprocess.run([NPY, path], capture_output=True)
    assert done.returncode == 1 and b"not supported: dtype" in done.stderr


def with_dtype(path, text):
    """The frame with another dtype of the same length in its metalayer."""
    raw = path.read_bytes()
    at = raw.index(b"\xdb\0\0\0\3|u1") + 5
    path.write_bytes(raw[:at] + text + raw[at + 3 :])


@pytest.mark.parametrize(
    "text, dtype",
    [
        (b"|i1", "|i1"),
        (b"<f4", "|V1"),
        (b"|b1", "|b1"),
        (b"<U9", "|V1"),
        (b"|O8", None),
        (b"'+a", None),
        (b"[('", None),
        (b"<f3", None),
        (b"\\x0", None),
    ],
)
def test_odd_dtypes(work, text, dtype):
    """What does not fit the item size becomes plain bytes; what NumPy would not read is refused."""
    path = work / "a.b2nd"
    blosc2.asarray(np.arange(20, dtype="u1"), urlpath=str(path), mode="w")
    with_dtype(path, text)
    if dtype is None:
        done = subprocess.run([NPY, path], capture_output=True)
        assert done.returncode == 1 and b"not supported: dtype" in done.stderr
    else:
        got = npy(path)
        assert got.dtype.str == dtype and got.tobytes() == bytes(range(20))
