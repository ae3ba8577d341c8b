/*
 * The encoder of zstd/fast.h is built for more than one instruction set; ZSTD_FAST_BUILD is the
 * suffix for the names of such a build. Its files include this first.
 */
#ifndef CODEC_ZSTD_BUILD_H
#define CODEC_ZSTD_BUILD_H

#ifdef ZSTD_FAST_BUILD
#define JOINED(name, end) name##end
#define WITH_END(name, end) JOINED(name, end)
#define zstd_fast WITH_END(zstd_fast, ZSTD_FAST_BUILD)
#define zstd_find_single WITH_END(zstd_find_single, ZSTD_FAST_BUILD)
#define zstd_find_double WITH_END(zstd_find_double, ZSTD_FAST_BUILD)
#define zstd_estimate WITH_END(zstd_estimate, ZSTD_FAST_BUILD)
#define zstd_count_sequences WITH_END(zstd_count_sequences, ZSTD_FAST_BUILD)
#define zstd_forget WITH_END(zstd_forget, ZSTD_FAST_BUILD)
#define zstd_find WITH_END(zstd_find, ZSTD_FAST_BUILD)
#define zstd_plan_sequences WITH_END(zstd_plan_sequences, ZSTD_FAST_BUILD)
#define zstd_build_tree WITH_END(zstd_build_tree, ZSTD_FAST_BUILD)
#define zstd_put_tree WITH_END(zstd_put_tree, ZSTD_FAST_BUILD)
#define zstd_count_literals WITH_END(zstd_count_literals, ZSTD_FAST_BUILD)
#define zstd_put_literals WITH_END(zstd_put_literals, ZSTD_FAST_BUILD)
#define zstd_put_sequences WITH_END(zstd_put_sequences, ZSTD_FAST_BUILD)
#define zstd_put_stream WITH_END(zstd_put_stream, ZSTD_FAST_BUILD)
#define zstd_put_codes WITH_END(zstd_put_codes, ZSTD_FAST_BUILD)
#define fse_share WITH_END(fse_share, ZSTD_FAST_BUILD)
#define fse_build WITH_END(fse_build, ZSTD_FAST_BUILD)
#define fse_build_one WITH_END(fse_build_one, ZSTD_FAST_BUILD)
#define fse_put_description WITH_END(fse_put_description, ZSTD_FAST_BUILD)
#endif

#endif
