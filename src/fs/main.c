/*
 * cframefs BACKING MOUNTPOINT. The command line is checked (options.c, places.c), the parts of a
 * mount are opened (fs_open), in a child process unless -f was given (daemon.c), and the session
 * serves requests until the end (session.c). The requests themselves start in ops.c.
 */
#include "base/fd.h"
#include "base/log.h"
#include "codec/versions.h"
#include "fs/background/keeper.h"
#include "fs/background/recompress.h"
#include "fs/ops/ops.h"
#include "fs/session/daemon.h"
#include "fs/session/guard.h"
#include "fs/session/places.h"
#include "fs/session/remount.h"
#include "fs/session/session.h"
#include "fs/session/stopper.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>

static void print_version(void)
{
	printf("cframefs %s\nlibfuse %s\n", VERSION, fuse_pkgversion());
	for (unsigned i = 0; i < versions_count(); i++)
		printf("%s %s\n", versions_at(i).library, versions_at(i).version);
}

/*
 * Blocks the stopper's signals in all threads to come: one thread of the session waits for them.
 * SIGXFSZ is ignored: a write beyond the file size limit (ulimit -f) then fails with EFBIG, which
 * the user of the file gets. So are two signals that batch systems send to a whole job shortly
 * before its time is up: its programs may be about to write their state to the mount.
 */
static void block_signals(void)
{
	sigset_t set;

	signal(SIGXFSZ, SIG_IGN);
	signal(SIGUSR1, SIG_IGN); /* until the stopper uses it */
	signal(SIGUSR2, SIG_IGN);
	stopper_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void prepare(const struct options *o)
{
	block_signals();
	/*
	 * Few arenas, and large blocks are returned to the system, so that memory stays within the
	 * options.
	 */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, 1 << 20);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_TRIM_THRESHOLD, 4 << 20);
	umask(0); /* the kernel has applied the caller's */
	log_init(o->debug ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, LOG_SINK_STDERR);
}

/* Who is told that the mount answers. */
struct audience {
	int parent; /* daemon.h; -1: there is none */
	const char *mountpoint;
};

static void announce(void *ctx)
{
	const struct audience *a = ctx;

	if (a->parent < 0)
		log_info("%s: mounted", a->mountpoint);
	else
		daemon_answer(a->parent);
}

static int run(const struct options *o, int parent)
{
	struct audience a = {parent, o->mountpoint};
	struct fs fs;

	prepare(o);
	fs_init(&fs, o);
	guard_start();
	int rc = fs_open(&fs);
	if (rc >= 0)
		rc = session_run(&fs, announce, &a);
	fs_close(&fs);
	guard_stop();
	return rc;
}

/* The output may not have been written, for example because the disk is full. */
static int flush_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	log_tell("standard output: %s", strerror(errno));
	return -EIO;
}

static int recompress(const struct options *o)
{
	struct recompress_totals t = {0};
	struct fs fs;

	TRY(places_check_frames(o));
	prepare(o);
	fs_init(&fs, o);
	int rc = fs_open(&fs);
	if (rc >= 0) {
		recompress_all(&fs, stopper_is_asked, &t);
		rc = keeper_commit_all(&fs);
	}
	fs_close(&fs);
	if (rc < 0)
		return rc;
	printf("%" PRIu64 " file%s: %" PRIu64 " -> %" PRIu64 " (%.1f %%)\n", t.files,
	       t.files == 1 ? "" : "s", t.before, t.after,
	       t.before ? 100 * (double)t.after / (double)t.before : 100);
	if (t.stopped)
		log_tell("stopped before all files were done: run it again to go on");
	TRY(flush_output());
	return t.failed || t.stopped ? -EIO : 0;
}

static int obey(struct options *o)
{
	if (o->help || o->version) {
		if (o->help)
			options_help();
		else
			print_version();
		return flush_output();
	}
	if (o->remount)
		return remount_set_flags(o);
	if (o->recompress_all)
		return recompress(o);
	TRY(places_check(o));
	TRY(places_judge_writable(o));
	return o->foreground ? run(o, -1) : daemon_start(o, run);
}

int main(int argc, char **argv)
{
	struct options o;

	fd_open_stdio();
	signal(SIGCHLD, SIG_DFL); /* if our parent ignored it, waitpid would fail */
	int rc = options_parse(&o, argc, argv);
	if (rc >= 0)
		rc = obey(&o);
	options_free(&o);
	return rc < 0 ? 1 : 0;
}
