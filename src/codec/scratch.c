#include "codec/scratch.h"
#include "codec/kernels/cpu.h"
#include "codec/scratch_impl.h"

#include <assert.h>

#define WORK_KEEP (2u << 20)

int scratch_open_cpu(struct scratch **out, unsigned cpu)
{
	struct scratch *s = mem_zalloc(sizeof *s);
	*out = s;
	if (!s)
		return -ENOMEM;
	kernels_init(&s->kernels, cpu & cpu_features());
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
	buf_free(&s->dict);
	buf_free(&s->trial);
	mem_free(s);
}

int scratch_work(struct scratch *s, size_t n)
{
	TRY(buf_reserve_fresh(&s->work[0], n));
	return buf_reserve_fresh(&s->work[1], n);
}

void scratch_done(struct scratch *s)
{
	if (s->work[0].cap <= WORK_KEEP)
		return;
	buf_free(&s->work[0]);
	buf_free(&s->work[1]);
}

int scratch_state(struct scratch *s, const struct codec *codec, void **state)
{
	assert(codec->id < CODEC_IDS);
	if (!s->state[codec->id])
		TRY(codec->state_new(&s->state[codec->id], &s->kernels));
	*state = s->state[codec->id];
	return 0;
}
