#include "fs/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t process_bits(pid_t pid, const char *name)
{
	size_t n = strlen(name);
	uint64_t bits = 0;
	char line[256];

	snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
	FILE *in = fopen(line, "re");
	while (in && !bits && fgets(line, sizeof line, in))
		if (strncmp(line, name, n) == 0)
			bits = strtoull(line + n, NULL, 16);
	if (in)
		fclose(in);
	return bits;
}

bool process_is_named(pid_t pid, const char *program)
{
	char line[64], name[64] = "";

	snprintf(line, sizeof line, "/proc/%d/comm", (int)pid);
	FILE *in = fopen(line, "re");
	if (in && fgets(name, sizeof name, in))
		name[strcspn(name, "\n")] = 0;
	if (in)
		fclose(in);
	return strcmp(name, program) == 0;
}
