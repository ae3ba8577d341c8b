/*
 * The tuner for tests. Requests on stdin, each a head of 8 little-endian uint32:
 * op, aim, candidate, item, length of head, length of sample, length of the base's text, 0; then
 * those bytes. Op c chooses; op n takes candidate number `candidate`. The answer is int32 rc, the
 * lengths of a line of words and of a chunk (uint32 each), the line, and the sample encoded.
 *
 * Head and sample lie in allocations of exactly their size, so that a sanitizer sees an
 * access outside.
 */
#include "codec/chunk.h"
#include "codec/tune/tune.h"
#include "exact.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct request {
	uint32_t op, aim, candidate, item, nhead, nsample, nbase, spare;
};

static uint8_t *get(uint32_t n)
{
	uint8_t *p = exact(n);
	if (n && fread(p, 1, n, stdin) != n)
		exit(1);
	return p;
}

struct choice {
	struct pipeline p;
	char line[512]; /* of the answer */
};

/* The bytes of a file: a sample, perhaps after a head, which is then a chunk of its own. */
struct file {
	struct view head, sample;
};

static int choose_for(struct scratch *s, const struct tune_goal *goal, const struct file *f,
		      struct pipeline *p, struct tune_report *r)
{
	struct tune_input head = {f->head, 0}, sample = {f->sample, f->head.n};
	int rc = f->head.n ? tune_choose(s, goal, &head, p, r) : 0;
	return rc < 0 ? rc : tune_choose(s, goal, &sample, p, r);
}

static int choose(struct scratch *s, const struct request *rq, const struct tune_goal *goal,
		  const struct file *f, struct choice *c)
{
	struct pipeline *p = &c->p;
	struct tune_report r = {0};
	char text[PIPELINE_TEXT_MAX];
	int rc = 0;
	if (rq->op == 'n')
		rc = tune_candidate(goal, rq->item, rq->candidate, p) ? 0 : -ENOENT;
	else
		rc = choose_for(s, goal, f, p, &r);
	if (rc < 0)
		return rc;
	if (pipeline_check(p, NULL) < 0)
		abort();
	pipeline_format(p, text);
	snprintf(c->line, sizeof c->line, "%s %u %u %s %u %u %u %u", text, p->split_mode,
		 p->blocksize, r.hint.format ? r.hint.format : "-", r.hint.item, r.period,
		 r.permille, r.ntried);
	return 0;
}

static void answer(struct scratch *s, const struct request *rq)
{
	struct tune_goal goal = {.aim = (enum tune_aim)rq->aim};
	uint8_t *head = get(rq->nhead), *sample = get(rq->nsample);
	char *base = (char *)get(rq->nbase), text[200] = "";
	struct buf out = {0};
	struct choice c = {.line = ""};

	pipeline_default(&goal.base);
	goal.free_codec = goal.free_blocksize = !rq->nbase;
	snprintf(text, sizeof text, "%.*s", (int)rq->nbase, base);
	if (rq->nbase && pipeline_parse(&goal.base, text, NULL) < 0)
		abort();
	struct file f = {view_of(head, rq->nhead), view_of(sample, rq->nsample)};
	int32_t rc = choose(s, rq, &goal, &f, &c);
	if (!rc && rq->nsample)
		rc = chunk_encode(s, &c.p, f.sample, &out);
	uint32_t lengths[2] = {(uint32_t)strlen(c.line), (uint32_t)out.n};
	fwrite(&rc, sizeof rc, 1, stdout);
	fwrite(lengths, sizeof lengths, 1, stdout);
	fwrite(c.line, 1, lengths[0], stdout);
	fwrite(out.p ? out.p : (uint8_t *)c.line, 1, out.n, stdout);
	fflush(stdout);
	buf_free(&out);
	free(head);
	free(sample);
	free(base);
}

int main(void)
{
	struct request rq;
	struct scratch *s;
	if (scratch_open(&s) < 0)
		return 1;
	while (fread(&rq, sizeof rq, 1, stdin) == 1)
		answer(s, &rq);
	scratch_close(s);
	return 0;
}
