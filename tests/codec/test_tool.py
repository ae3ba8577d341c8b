"""The text form of pipelines."""

import pytest

from libcodec import EINVAL, Refused


@pytest.mark.parametrize(
    "text, normal",
    [
        ("zstd", "zstd:1"),
        ("zstd:9", "zstd:9"),
        ("store", "store"),
        ("shuffle:4+zstd:3", "shuffle:4+zstd:3"),
        ("bitshuffle:2+lz4", "bitshuffle:2+lz4:5"),
        ("shuffle:8+bytedelta+zstd:1", "shuffle:8+bytedelta+zstd:1"),
        ("truncprec:-10+shuffle:4+zstd:1", "truncprec:-10+shuffle:4+zstd:1"),
        ("shuffle+lz4hc:9", "shuffle+lz4hc:9"),
        ("inttrunc:12+none:4+zlib:6", "inttrunc:12+none:4+zlib:6"),
        ("delta:8+shuffle+blosclz:5", "delta:8+shuffle+blosclz:5"),
        ("shuffle:300+zstd:1", "shuffle:300+zstd:1"),
        ("zstd:0", "store"),
        ("delta:8+shuffle:8+lz4:5", "delta:8+shuffle+lz4:5"),
    ],
)
def test_text_has_a_normal_form(codec_tool, text, normal):
    assert codec_tool.normal(text) == normal
    assert codec_tool.normal(normal) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "zstd:",
        "zstd:10",
        "store:3",
        "zstd:-1",
        "zstd:x",
        "zst",
        "shuffle:4",
        "shuffle:0+zstd",
        "shuffle:4+",
        "+zstd",
        "shuffle:999999999999+zstd",
        "truncprec+zstd",
        "truncprec:10+zstd",
        "truncprec:0+shuffle:4+zstd",
        "truncprec:200+shuffle:4+zstd",
        "inttrunc:40+none:4+zstd",
        "delta+delta+zstd",
        "shuffle:4+shuffle:4+shuffle:4+delta+shuffle:4+zstd",
        "bytedelta-old+zstd",
        "+".join(["shuffle:4"] * 7 + ["zstd"]),
        "shuffle:4+bitshuffle:8+zstd",
        "shuffle:4+none:2+zstd",
        "shuffle:+4+zstd",
        "shuffle: 4+zstd",
        "zstd:1:2",
        "zstd 1",
    ],
)
def test_text_that_means_nothing_is_refused(codec_tool, text):
    with pytest.raises(Refused) as refused:
        codec_tool.normal(text)
    assert refused.value.rc == EINVAL and refused.value.why


def test_blocksize_must_hold_whole_items(codec_tool):
    with pytest.raises(Refused):
        codec_tool.encode("shuffle:8+zstd", b"x" * 100, blocksize=1001)


def test_no_dictionary_where_the_codec_has_none(codec_tool):
    with pytest.raises(Refused):
        codec_tool.encode("zlib", b"x" * 100, use_dict=True)
