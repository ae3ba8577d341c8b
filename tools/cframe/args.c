#include "args.h"
#include "say.h"

#include <stdbool.h>
#include <string.h>

static bool has_val(const struct option *names, int val)
{
	for (; names->name; names++)
		if (names->val == val)
			return true;
	return false;
}

/* The option that was refused; getopt tells only the letter of a short one. */
static const char *refused(char **argv, const struct option *names, char text[static 3])
{
	const char *word = argv[optind - 1];

	if (!optopt || (strncmp(word, "--", 2) == 0 && has_val(names, optopt)))
		return word;
	text[0] = '-';
	text[1] = (char)optopt;
	text[2] = 0;
	return text;
}

int args_next(int argc, char **argv, const char *letters, const struct option *names)
{
	static const struct option none[] = {{0}};
	char text[3];

	opterr = 0; /* the lines are ours */
	names = names ? names : none;
	int got = getopt_long(argc, argv, letters, names, NULL);
	if (got != ':' && got != '?')
		return got;
	const char *word = refused(argv, names, text);
	bool known = got == '?' && optopt && has_val(names, optopt);
	tool_say("option '%s': %s; see cframe %s --help", word,
		 got == ':' ? "wants a value" : known ? "takes no value" : "unknown", argv[0]);
	return ARGS_WRONG;
}
