#include "args.h"
#include "say.h"

#include "base/nearest.h"

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

/* True: the word is a prefix of several long names. */
static bool is_ambiguous(const char *word, const struct option *names)
{
	unsigned n = 0;

	if (strncmp(word, "--", 2) != 0)
		return false;
	for (size_t len = strcspn(word + 2, "="); names->name; names++)
		n += strncmp(names->name, word + 2, len) == 0;
	return n > 1;
}

/* NULL: it is not near to any long name. */
static const char *meant_by(const char *word, const struct option *names)
{
	if (strncmp(word, "--", 2) != 0)
		return NULL;
	struct nearest near = nearest_to(view_of(word + 2, strcspn(word + 2, "=")));
	for (; names->name; names++)
		nearest_offer(&near, names->name, names->name);
	return near.meant;
}

static void tell_unknown(const char *command, const char *word, const struct option *names)
{
	const char *meant = meant_by(word, names);

	if (meant)
		tool_say("option '%s': unknown; did you mean '--%s'?", word, meant);
	else
		tool_say("option '%s': unknown; see cframe %s --help", word, command);
}

int args_next(int argc, char **argv, const char *letters, const struct option *names)
{
	static const struct option none[] = {{0}};
	char text[3];

	opterr = 0; /* we print the messages */
	names = names ? names : none;
	int got = getopt_long(argc, argv, letters, names, NULL);
	if (got != ':' && got != '?')
		return got;
	const char *word = refused(argv, names, text);
	const char *why = NULL;
	if (got == ':')
		why = "needs a value";
	else if (optopt && has_val(names, optopt))
		why = "takes no value";
	else if (!optopt && is_ambiguous(word, names))
		why = "is ambiguous";
	if (why)
		tool_say("option '%s': %s; see cframe %s --help", word, why, argv[0]);
	else
		tell_unknown(argv[0], word, names);
	return ARGS_WRONG;
}
