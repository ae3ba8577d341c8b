#include "fs/session/stopper.h"

#include "base/clock.h"
#include "base/log.h"
#include "fs/backing/claim.h"
#include "fs/backing/mounts.h"
#include "fs/ops/notify.h"
#include "fs/ops/ops.h"
#include "fs/ops/push.h"
#include "fs/session/program.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool is_ignored(int sig)
{
	struct sigaction act;
	return sigaction(sig, NULL, &act) == 0 && act.sa_handler == SIG_IGN;
}

void stopper_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	if (!is_ignored(SIGHUP))
		sigaddset(set, SIGHUP);
}

bool stopper_is_asked(void)
{
	sigset_t pending, ending;

	stopper_signals(&ending);
	sigpending(&pending);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&ending, sig) == 1 && sigismember(&pending, sig) == 1 &&
		    !is_ignored(sig))
			return true;
	return false;
}

enum unmount { UNLESS_IN_USE, DETACH };

/*
 * Unmounts by another program: root's umount, or the setuid helper of libfuse. If we called umount2
 * ourselves, the kernel would make us wait for our own replies.
 */
static int unmount(const struct fs *fs, enum unmount how)
{
	char *mountpoint = fs->opt.mountpoint;
	char *as_root[] = {"umount", "-i", how == DETACH ? "-l" : "--", mountpoint, NULL};
	char *as_user[] = {"fusermount3", "-u", how == DETACH ? "-z" : "--", mountpoint, NULL};

	return program_run(fs->backing.is_root ? as_root : as_user);
}

/*
 * UNMOUNTED: we were unmounted by somebody else, and a copy of the mount keeps it in use. COVERED:
 * something else was mounted over us, which is what unmounting the mount point would remove.
 */
enum place { MOUNTED, UNMOUNTED, COVERED };

static enum place place_of_mount(const struct fs *fs)
{
	uint64_t own_id = fs->backing.own_mount;
	enum place place = UNMOUNTED;
	struct mount_line own, one;
	struct buf at = {0}; /* our mount point */
	struct mounts m;

	if (!fs->backing.own_dev || !mounts_open(&m))
		return MOUNTED; /* not known: assume so */
	while (place == UNMOUNTED && mounts_next(&m, &own))
		if (own.dev == fs->backing.own_dev && (!own_id || own.id == own_id))
			place = MOUNTED;
	/* Not with a second reader: there may be no descriptor left for it (close_signals). */
	if (place == MOUNTED && buf_append(&at, view_of(own.at, strlen(own.at) + 1)) >= 0) {
		mounts_rewind(&m); /* a mount that was moved here may be listed before us */
		while (place == MOUNTED && mounts_next(&m, &one))
			if (one.parent == own.id && strcmp(one.at, (char *)at.p) == 0)
				place = COVERED;
	}
	buf_free(&at);
	mounts_close(&m);
	return place;
}

/* The number of requests that the kernel waits for; -1: not known. */
static int requests_waiting(const struct fs *fs)
{
	char path[64];
	int n = -1;

	snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/waiting",
		 minor(fs->backing.own_dev));
	FILE *in = fopen(path, "re");
	if (in) {
		if (fscanf(in, "%d", &n) != 1)
			n = -1;
		fclose(in);
	}
	return n;
}

/*
 * syncfs starts the writeback of a FUSE mount; since Linux 6.16 it does not wait for it. So we wait
 * until no request has come for a quarter of a second; at most ten seconds, since a program may go
 * on writing.
 */
#define LOOK_EVERY_NS (CLOCK_SECOND / 20)
#define LOOKS_QUIET 5
#define LOOKS_MAX 200

static void wait_for_writeback(const struct fs *fs)
{
	for (int quiet = 0, i = 0; quiet < LOOKS_QUIET && i < LOOKS_MAX; i++) {
		clock_sleep(LOOK_EVERY_NS);
		quiet = requests_waiting(fs) > 0 ? 0 : quiet + 1;
	}
}

/*
 * Ends the mount while we still serve it, since the kernel has data that it has not sent yet. An
 * ordinary unmount makes it send everything. If files are open, a sync does that, and the mount is
 * then detached. All of this is done by other processes: if this one were killed while it waited
 * for a reply of its own, nothing could end it.
 *
 * If we were unmounted by somebody else, or mounted over, what is in our place is not ours, and is
 * not unmounted. If mounted over, everything is synced, as there is no path to our mount.
 */
static void stop_serving(struct stopper *s)
{
	struct fs *fs = s->fs;
	char *one[] = {"sync", "-f", fs->opt.mountpoint, NULL}, *all[] = {"sync", NULL};

	enum place place = place_of_mount(fs);
	if (place == MOUNTED && unmount(fs, UNLESS_IN_USE) == 0)
		return; /* the loop ends by itself */
	fs->ending = true;
	if (place != UNMOUNTED && program_run(place == MOUNTED ? one : all) < 0)
		log_warn("%s: sync failed: what the kernel has not sent yet may be lost",
			 fs->opt.mountpoint);
	wait_for_writeback(fs);
	if (place == COVERED)
		log_warn("%s: something else is mounted over it, so it stays mounted, without a "
			 "daemon: unmount both; open files end here",
			 fs->opt.mountpoint);
	else
		log_info("%s: still in use: detached; open files end here", fs->opt.mountpoint);
	s->detached = place != MOUNTED || unmount(fs, DETACH) == 0 || place_of_mount(fs) != MOUNTED;
	notify_stop(fs->notify); /* all three may be waiting for replies of ours */
	seek_queue_end(&fs->seeks);
	push_end(fs);
	fuse_session_exit(fs->session);
	pthread_kill(s->main, SIGUSR1); /* interrupts its wait */
}

/*
 * Waits until a signal is pending, and leaves it pending: another daemon may look for it (claim.c).
 */
static void wait_for_signal(const struct stopper *s)
{
	struct pollfd one = {.fd = s->signals, .events = POLLIN};

	while (poll(&one, 1, -1) < 0 && errno == EINTR)
		;
}

/* Frees a descriptor for `sync`, which opens the mount point, in case all others are in use. */
static void close_signals(struct stopper *s)
{
	if (s->signals >= 0)
		close(s->signals);
	s->signals = -1;
}

static void *stopper_main(void *arg)
{
	struct stopper *s = arg;
	sigset_t set;
	int sig;

	stopper_signals(&set);
	wait_for_signal(s);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	claim_tell_ending(&s->fs->backing);
	if (sigwait(&set, &sig) == 0) {
		close_signals(s);
		log_info("signal %d: flushing and unmounting", sig);
		stop_serving(s);
	}
	return NULL;
}

static void ignore(int sig)
{
	(void)sig;
}

int stopper_start(struct stopper *s, struct fs *fs)
{
	struct sigaction act = {.sa_handler = ignore}; /* no SA_RESTART */
	sigset_t set;

	*s = (struct stopper){.fs = fs, .main = pthread_self()};
	sigaction(SIGUSR1, &act, NULL);
	stopper_signals(&set);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (s->signals < 0)
		return -errno;
	int rc = -pthread_create(&s->thread, NULL, stopper_main, s);
	if (rc < 0)
		close_signals(s);
	return rc;
}

bool stopper_end(struct stopper *s)
{
	pthread_cancel(s->thread);
	pthread_join(s->thread, NULL);
	close_signals(s);
	return s->detached;
}
