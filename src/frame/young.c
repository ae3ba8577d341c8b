#include "frame/young.h"

static struct young_run run_at(const uint8_t *p)
{
	uint64_t first = get_le32(p);
	return (struct young_run){first, first + get_le32(p + 4)};
}

static void put_run(uint8_t *p, uint32_t first, uint32_t count)
{
	put_le32(p, first);
	put_le32(p + 4, count);
}

/* True: the last run contained chunk n, or was extended to. Files are mostly written in order. */
static bool extend_last(struct buf *runs, uint32_t n)
{
	if (runs->n == 0)
		return false;
	uint8_t *last = runs->p + runs->n - YOUNG_RUN_BYTES;
	struct young_run run = run_at(last);
	if (n < run.first || n > run.end)
		return false;
	if (n == run.end)
		put_run(last, (uint32_t)run.first, n - (uint32_t)run.first + 1);
	return true;
}

void young_add(struct young *y, uint32_t n, uint32_t len, uint32_t epoch)
{
	uint8_t run[YOUNG_RUN_BYTES];
	bool first = y->runs.n == 0 && !y->many;
	if (first || epoch < y->since)
		y->since = epoch;
	y->bytes += len;
	if (y->many || extend_last(&y->runs, n))
		return;
	put_run(run, n, 1);
	if (y->runs.n / YOUNG_RUN_BYTES >= YOUNG_MAX_RUNS ||
	    buf_append(&y->runs, view_of(run, sizeof run)) < 0)
		y->many = true;
}

void young_clear(struct young *y)
{
	y->runs.n = 0;
	y->bytes = 0;
	y->many = y->bare = false;
}

void young_deinit(struct young *y)
{
	buf_free(&y->runs);
	young_clear(y);
}

bool young_next(struct view *runs, struct young_run *run)
{
	if (runs->n < YOUNG_RUN_BYTES)
		return false;
	*run = run_at(runs->p);
	*runs = view_from(*runs, YOUNG_RUN_BYTES);
	return true;
}
