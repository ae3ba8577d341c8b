/*
 * One row per codec: CODEC(name). The file <name>.c defines codec_<name>. No include guard:
 * included wherever the list is walked.
 */
CODEC(blosclz)
CODEC(lz4)
CODEC(lz4hc)
CODEC(zlib)
CODEC(zstd)
