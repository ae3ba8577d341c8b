#include "frame/io/hash.h"

int io_hash_add(struct XXH3_state_s *state, struct io *io, uint64_t at, uint64_t len)
{
	struct buf b = {0};
	int rc = buf_reserve(&b, min_u64(len, IO_STEP));
	for (uint64_t end = at + len; rc == 0 && at < end; at += b.n) {
		b.n = min_u64(end - at, IO_STEP);
		rc = io_pread(io, at, buf_span(&b));
		if (rc == 0)
			sum64_add(state, buf_view(&b));
	}
	buf_free(&b);
	return rc;
}

int io_hash(struct io *io, uint64_t at, uint64_t len, uint64_t *hash)
{
	struct XXH3_state_s *state = sum64_begin();
	if (!state)
		return -ENOMEM;
	int rc = io_hash_add(state, io, at, len);
	*hash = sum64_end(state);
	return rc;
}
