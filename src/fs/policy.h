/*
 * How the chunks of a file are encoded.
 *
 * The reference library counts a super-chunk in items of the header's
 * type_size, which is 1 when the length of the file is not whole items, and
 * then refuses slices that cut an item of a chunk whose own typesize is larger
 * (measured with 3.3.5). So a file whose length is no multiple gets chunks of
 * typesize 1, in which the item size stands in the parameter of the shuffle filter: the same
 * bytes before the codec, but in one stream instead of one an item byte, which
 * costs some ratio. That is why whole items keep the ordinary form.
 */
#ifndef FS_POLICY_H
#define FS_POLICY_H

#include "codec/pipeline.h"

/* Writes the item size into the parameters too, where a reader of the frame header finds it later. */
void policy_note_item(struct pipeline *p);

/* The pipeline of a frame's header with its item size recovered from there. */
struct pipeline policy_recover_item(const struct pipeline *header);

/* The same filters with typesize 1. False: there is no such form (delta), or no need. */
bool policy_bytewise(const struct pipeline *p, struct pipeline *out);

#endif
