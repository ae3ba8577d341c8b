#include "args.h"
#include "cframe.h"

#include "codec/codec.h"
#include "codec/filter.h"

#include <stdio.h>

int codecs_main(int argc, char **argv)
{
	const struct codec *c;
	const struct filter *f;
	if (args_next(argc, argv, "", NULL) == ARGS_WRONG)
		return 1;
	if (argc != optind)
		return tool_usage(argv[0]);
	for (size_t i = 0; (c = codec_at(i)); i++)
		printf("codec   %3u  %-14s %s\n", c->id, c->name, c->what);
	for (size_t i = 0; (f = filter_at(i)); i++)
		printf("filter  %3u  %-14s %s\n", f->id, f->name, f->what);
	return 0;
}
