#include "codec/scratch.h"
#include "codec/kernels/cpu.h"
#include "codec/scratch_impl.h"

#include <assert.h>

#define WORK_KEEP (1u << 20)

/* Enough for a chunk of default size. More is not kept, since there may be two dozen threads. */
#define STAGE_KEEP ((1u << 20) + (64u << 10))

int scratch_open_cpu(struct scratch **out, unsigned cpu)
{
	struct scratch *s = mem_zalloc(sizeof *s);
	*out = s;
	if (!s)
		return -ENOMEM;
	kernels_init(&s->kernels, cpu & cpu_features());
	s->most = UINT64_MAX;
	return 0;
}

int scratch_open(struct scratch **out)
{
	return scratch_open_cpu(out, ~0u);
}

void scratch_close(struct scratch *s)
{
	if (!s)
		return;
	for (unsigned id = 0; id < CODEC_IDS; id++)
		if (s->state[id])
			codec_by_id(id)->state_free(s->state[id]);
	buf_free(&s->work[0]);
	buf_free(&s->work[1]);
	buf_free(&s->stage);
	buf_free(&s->dict);
	buf_free(&s->trial);
	mem_free(s);
}

uint64_t scratch_bound(struct scratch *s, uint64_t most)
{
	uint64_t before = s->most;
	s->most = most;
	s->wanted = 0;
	return before;
}

int scratch_ask(struct scratch *s, uint64_t bytes)
{
	if (bytes <= s->most)
		return 0;
	s->wanted = bytes;
	return -E2BIG;
}

uint64_t scratch_wanted(const struct scratch *s)
{
	return s->wanted;
}

int scratch_stage(struct scratch *s, size_t n, struct span *out)
{
	TRY(buf_reserve_fresh(&s->stage, n ? n : 1));
	*out = span_of(s->stage.p, n);
	return 0;
}

void scratch_trim(struct scratch *s)
{
	buf_trim(&s->stage, STAGE_KEEP);
}

int scratch_work(struct scratch *s, unsigned steps, size_t n)
{
	TRY(buf_reserve_fresh(&s->work[0], n));
	return steps > 1 ? buf_reserve_fresh(&s->work[1], n) : 0;
}

void scratch_done(struct scratch *s)
{
	buf_trim(&s->work[0], WORK_KEEP);
	buf_trim(&s->work[1], WORK_KEEP);
	buf_trim(&s->trial, WORK_KEEP);
	for (unsigned id = 0; id < CODEC_IDS; id++)
		if (s->state[id] && codec_by_id(id)->state_trim)
			codec_by_id(id)->state_trim(s->state[id]);
}

int scratch_state(struct scratch *s, const struct codec *codec, void **state)
{
	assert(codec->id < CODEC_IDS);
	if (!s->state[codec->id])
		TRY(codec->state_new(&s->state[codec->id], &s->kernels));
	*state = s->state[codec->id];
	return 0;
}
