#include "fs/cgroup.h"

#include "base/bytes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where systemd, docker and others mount the control groups. */
#define ROOT "/sys/fs/cgroup"
#define ROOT_V1 ROOT "/memory"

static uint64_t limit_in(const char *dir, const char *file)
{
	char path[PATH_MAX + 32], word[32] = "", *end;

	snprintf(path, sizeof path, "%s/%s", dir, file);
	FILE *f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	const char *got = fgets(word, sizeof word, f);
	fclose(f);
	uint64_t limit = got ? strtoull(word, &end, 10) : 0;
	return got && end != word ? limit : UINT64_MAX; /* it may also be the word "max" */
}

/*
 * The lowest limit in `files` of the group and of those above it, up to the mounted root. In a
 * container the group's path may belong to another tree than the mounted one: a file that does not
 * exist sets no limit.
 */
static uint64_t least_limit(const char *root, const char *group, const char *const files[2])
{
	char dir[PATH_MAX];
	uint64_t least = UINT64_MAX;

	if (snprintf(dir, sizeof dir, "%s%s", root, group) >= (int)sizeof dir)
		return least;
	for (;;) {
		for (int i = 0; i < 2 && files[i]; i++)
			least = min_u64(least, limit_in(dir, files[i]));
		char *slash = strrchr(dir, '/');
		if (!slash || slash < dir + strlen(root))
			return least;
		*slash = 0;
	}
}

/* True: the list of controllers, which ends with a colon, contains "memory". */
static bool has_memory(const char *list)
{
	size_t n = strlen("memory");

	for (; *list && *list != ':'; list += strcspn(list, ",:"), list += *list == ',')
		if (strncmp(list, "memory", n) == 0 && (list[n] == ',' || list[n] == ':'))
			return true;
	return false;
}

uint64_t cgroup_memory(void)
{
	static const char *const v1[2] = {"memory.limit_in_bytes", NULL};
	static const char *const v2[2] = {"memory.max", "memory.high"};
	char line[PATH_MAX];
	uint64_t least = UINT64_MAX;
	FILE *f = fopen("/proc/self/cgroup", "re");

	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		const char *list = strchr(line, ':');
		const char *group = list ? strchr(list + 1, ':') : NULL;
		if (!group)
			continue;
		if (group == list + 1)
			least = min_u64(least, least_limit(ROOT, group + 1, v2));
		else if (has_memory(list + 1))
			least = min_u64(least, least_limit(ROOT_V1, group + 1, v1));
	}
	if (f)
		fclose(f);
	return least;
}
