#include "findings.h"
#include "progress.h"
#include "say.h"

#include <inttypes.h>
#include <stdio.h>

/* A file of a few bytes may have millions of chunks, all of them broken. */
#define MOST 1000

struct finding {
	uint32_t at;
	char line[];
};

void findings_init(struct findings *f)
{
	*f = (struct findings){.list = {0}};
	pthread_mutex_init(&f->lock, NULL);
}

void findings_deinit(struct findings *f)
{
	findings_clear(f);
	buf_free(&f->list);
	pthread_mutex_destroy(&f->lock);
}

static struct finding **all(const struct findings *f, size_t *n)
{
	*n = f->list.n / sizeof(struct finding *);
	return (struct finding **)(void *)f->list.p;
}

static struct finding *finding_new(uint32_t at, const char *line)
{
	size_t len = strlen(line) + 1;
	struct finding *new = mem_zalloc(sizeof *new + len);

	if (new) {
		new->at = at;
		memcpy(new->line, line, len);
	}
	return new;
}

/* Makes room for a line about chunk `at`. False: there are enough lines before it. */
static bool make_room(struct findings *f, uint32_t at)
{
	size_t n;
	struct finding **list = all(f, &n);

	if (n < MOST || at == FINDING_OF_ALL)
		return true;
	if (list[n - 1]->at <= at)
		return false;
	mem_free(list[n - 1]);
	f->list.n -= sizeof list[0];
	f->more++;
	return true;
}

/* Insertion sort, since lines arrive almost in order. */
static bool insert(struct findings *f, uint32_t at, const char *line)
{
	size_t i, n;
	struct finding *new = make_room(f, at) ? finding_new(at, line) : NULL;

	if (!new || buf_append(&f->list, view_of(&new, sizeof new)) < 0) {
		mem_free(new);
		return false;
	}
	struct finding **list = all(f, &n);
	for (i = n - 1; i > 0 && list[i - 1]->at > at; i--)
		list[i] = list[i - 1];
	list[i] = new;
	return true;
}

void findings_add(struct findings *f, uint32_t at, const char *line)
{
	pthread_mutex_lock(&f->lock);
	if (!insert(f, at, line))
		f->more++;
	pthread_mutex_unlock(&f->lock);
}

bool findings_any(const struct findings *f)
{
	return f->list.n || f->more;
}

void findings_clear(struct findings *f)
{
	size_t n;
	struct finding **list = all(f, &n);

	for (size_t i = 0; i < n; i++)
		mem_free(list[i]);
	f->list.n = 0;
	f->more = 0;
}

void findings_print(const struct findings *f, const char *name)
{
	size_t n;
	struct finding **list = all(f, &n);

	progress_hold();
	for (size_t i = 0; i < n; i++) {
		tool_print_path(name);
		printf(": ");
		tool_print_line(list[i]->line);
		putchar('\n');
	}
	if (f->more) {
		tool_print_path(name);
		printf(": %" PRIu64 " problem%s that %s not listed\n", f->more,
		       f->more == 1 ? "" : "s", f->more == 1 ? "is" : "are");
	}
	progress_go_on();
}
