/* What crash_record.c writes, tests/lib/libcut.py adds to, and crash_replay.c reads. */
#ifndef TESTS_CRASH_TRACE_H
#define TESTS_CRASH_TRACE_H

#include <stdint.h>

enum crash_kind {
	/* a new, empty file has the number `ino`, which another may have had before */
	CRASH_CREATE,
	CRASH_WRITE,    /* at; the bytes follow                                    */
	CRASH_TRUNCATE, /* at: the new size                                        */
	CRASH_PUNCH,    /* at; the length follows, 8 bytes                         */
	CRASH_SYNC,     /* at: 1 if of attributes and names, too (fsync)           */
	CRASH_CONTENT,  /* of the test: from here on the file may have the content that follows */
	CRASH_SYNCED,   /* of the test: an fsync has been acknowledged             */
	CRASH_NAMES_SYNCED, /* of the test: so has one of a directory               */
	/* `ino` (0: none) got or lost a name, and with it `at` (0: none) lost its last one */
	CRASH_LINK,
	CRASH_NAMES_SYNC,   /* of a directory                                      */
	CRASH_ALL_SYNC,     /* of all files and directories                        */
};

struct crash_record {
	uint64_t kind, ino, at, len; /* len: bytes that follow */
};

#endif
