#include "fs/session.h"

#include "base/log.h"
#include "fs/backing/claim.h"
#include "fs/keeper.h"
#include "fs/ops/notify.h"
#include "fs/ops/ops.h"
#include "fs/ops/push.h"
#include "fs/ops/wire.h"
#include "fs/recompress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* The thread that waits for a signal, and then ends the mount. */
struct stopper {
	struct fs *fs;
	bool detached; /* after the join: nothing is left to unmount */
	int signals;   /* signalfd */
	pthread_t thread, main;
};

void session_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/*
 * Runs a system program, silently and without our descriptors. -ENOENT: there is no program of that
 * name. -EBUSY: it failed. -EAGAIN: no process could be made.
 */
static int run_program(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0)
		return -rc;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

/*
 * Unmounts by another program: root's umount, or the setuid helper of libfuse. If we called umount2
 * ourselves, the kernel would make us wait for our own replies.
 */
static int unmount(const struct fs *fs, bool lazy)
{
	char *mountpoint = fs->opt.mountpoint;
	char *as_root[] = {"umount", "-i", lazy ? "-l" : "--", mountpoint, NULL};
	char *as_user[] = {"fusermount3", "-u", lazy ? "-z" : "--", mountpoint, NULL};

	return run_program(fs->backing.is_root ? as_root : as_user);
}

/* A line of /proc/self/mountinfo. */
struct mount_line {
	unsigned long long id, parent;
	dev_t dev;
	const char *at; /* with octal escapes; in the line */
};

/* False: there are no more. */
static bool next_mount(FILE *in, char **line, size_t *room, struct mount_line *out)
{
	unsigned maj, min;

	while (getline(line, room, in) >= 0) {
		int at = 0;
		int n = sscanf(*line, "%llu %llu %u:%u %*s %n", &out->id, &out->parent, &maj, &min,
			       &at);
		if (n != 4 || !at)
			continue;
		(*line)[at + (int)strcspn(*line + at, " ")] = 0;
		out->dev = makedev(maj, min);
		out->at = *line + at;
		return true;
	}
	return false;
}

/*
 * UNMOUNTED: somebody has unmounted us, and a copy of the mount keeps it in use. COVERED: somebody
 * has mounted something else over us, which is what an unmount of the mount point would take away.
 */
enum place { MOUNTED, UNMOUNTED, COVERED };

static enum place place_of_mount(const struct fs *fs)
{
	FILE *in = fs->backing.own_dev ? fopen("/proc/self/mountinfo", "re") : NULL;
	unsigned long long own_id = fs->backing.own_mount;
	char *own_line = NULL, *line = NULL;
	size_t own_room = 0, room = 0;
	struct mount_line own, one;
	enum place place = UNMOUNTED;

	if (!in)
		return MOUNTED; /* not known: believed */
	while (place == UNMOUNTED && next_mount(in, &own_line, &own_room, &own))
		if (own.dev == fs->backing.own_dev && (!own_id || own.id == own_id))
			place = MOUNTED;
	rewind(in); /* what was moved here may be listed before us */
	while (place == MOUNTED && next_mount(in, &line, &room, &one))
		if (one.parent == own.id && strcmp(one.at, own.at) == 0)
			place = COVERED;
	free(own_line); /* of getline */
	free(line);
	fclose(in);
	return place;
}

/* The number of requests that the kernel waits for; -1: it does not tell. */
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
 * syncfs starts the write-back of a FUSE mount; since Linux 6.16 it does not wait for it. So we
 * wait until nothing has come for a quarter of a second, or for ten seconds, since somebody may go
 * on writing.
 */
#define LOOK_EVERY_US 50000
#define LOOKS_QUIET 5
#define LOOKS_MAX 200

static void wait_for_writeback(const struct fs *fs)
{
	for (int quiet = 0, i = 0; quiet < LOOKS_QUIET && i < LOOKS_MAX; i++) {
		usleep(LOOK_EVERY_US);
		quiet = requests_waiting(fs) > 0 ? 0 : quiet + 1;
	}
}

/*
 * Ends the mount while we still serve it, since the kernel has data that it has not sent yet. An
 * ordinary unmount makes it send everything. If files are open, a sync does that, and the mount is
 * then detached. All of this is done by other processes: if this one waited for a reply of its own
 * and were killed, nothing could end it any more.
 *
 * If somebody else has unmounted us, or mounted over us, what is in our place is not ours, and is
 * not unmounted. In the second case everything is synced, as there is no path to our mount.
 */
static void stop_serving(struct stopper *s)
{
	struct fs *fs = s->fs;
	char *one[] = {"sync", "-f", fs->opt.mountpoint, NULL}, *all[] = {"sync", NULL};

	enum place place = place_of_mount(fs);
	if (place == MOUNTED && unmount(fs, false) == 0)
		return; /* the loop ends by itself */
	fs->ending = true;
	if (place != UNMOUNTED && run_program(place == MOUNTED ? one : all) < 0)
		log_warn("%s: sync failed: what the kernel has not sent yet may be lost",
			 fs->opt.mountpoint);
	wait_for_writeback(fs);
	if (place == COVERED)
		log_warn("%s: something else is mounted over it, so it stays mounted, without a "
			 "daemon: unmount both; open files end here",
			 fs->opt.mountpoint);
	else
		log_info("%s: still in use: detached; open files end here", fs->opt.mountpoint);
	s->detached = place != MOUNTED || unmount(fs, true) == 0 || place_of_mount(fs) != MOUNTED;
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

/* The descriptor is free for `sync`, which opens the mount point, if all others are in use. */
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

	session_signals(&set);
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

/* "fsname=DIR,subtype=cframefs,...": a comma in the name is escaped for libfuse. */
static int mount_options(const struct fs *fs, struct buf *out)
{
	static const char head[] = "fsname=", tail[] = ",subtype=cframefs,default_permissions";
	bool named = strstr(fs->opt.mount_opts, "fsname=") != NULL;

	if (!named) {
		TRY(buf_append(out, view_of(head, sizeof head - 1)));
		for (const char *c = fs->opt.backing; *c; c++) {
			if (*c == ',' || *c == '\\')
				TRY(buf_append(out, view_of("\\", 1)));
			TRY(buf_append(out, view_of(c, 1)));
		}
	}
	TRY(buf_append(out, view_of(tail + named, sizeof tail - 1 - named)));
	if (fs->opt.mount_opts[0])
		TRY(buf_print(out, ",%s", fs->opt.mount_opts));
	TRY(buf_print(out, ",max_read=%llu", (unsigned long long)fs->opt.max_read));
	return buf_append(out, view_of("", 1));
}

static int session_new(struct fs *fs)
{
	struct buf opts = {0};
	int rc = mount_options(fs, &opts);
	if (rc >= 0) {
		char *argv[] = {"cframefs", "-o", (char *)opts.p, fs->opt.debug ? "-d" : NULL,
				NULL};
		struct fuse_args args = FUSE_ARGS_INIT(fs->opt.debug ? 4 : 3, argv);
		fs->session = fuse_session_new(&args, &ops_table, sizeof ops_table, fs);
		fuse_opt_free_args(&args);
		rc = fs->session ? 0 : -EINVAL;
	}
	buf_free(&opts);
	return rc;
}

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 12)
/* Serves until the mount ends. This libfuse limits the number of idle threads only. */
static int serve(struct fs *fs)
{
	struct fuse_loop_config config = {.clone_fd = 1, .max_idle_threads = fs->threads};

	int rc = fuse_session_loop_mt(fs->session, &config);
	return rc > 0 ? 0 : rc;
}
#else
static int serve(struct fs *fs)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_max_threads(config, fs->threads);
	fuse_loop_cfg_set_idle_threads(config, fs->threads);
	int rc = fuse_session_loop_mt(fs->session, config);
	fuse_loop_cfg_destroy(config);
	return rc > 0 ? 0 : rc; /* a signal number is not a failure */
}
#endif

static void *wait_for_cancel(void *arg)
{
	while (pause() < 0)
		;
	return arg;
}

/*
 * A process that cancels a thread for the first time loads a library for that, and is aborted if it
 * cannot: for example because applications have so many files open that no descriptor is left. So
 * that is done before there are any.
 */
static void learn_to_cancel(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_cancel, NULL) != 0)
		return;
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static void log_no_thread(const struct fs *fs, int rc)
{
	char text[160];

	log_err("%s: a thread of the mount could not be started: %s", fs->opt.mountpoint,
		err_text(rc, text, sizeof text));
}

static int serve_until_stopped(struct fs *fs, bool *detached)
{
	struct stopper s = {.fs = fs, .main = pthread_self()};
	struct sigaction act = {.sa_handler = ignore}; /* no SA_RESTART */
	sigset_t set;

	sigaction(SIGUSR1, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	learn_to_cancel();
	session_signals(&set);
	s.signals = signalfd(-1, &set, SFD_CLOEXEC);
	int rc = s.signals < 0 ? -errno : -pthread_create(&s.thread, NULL, stopper_main, &s);
	if (rc == 0) {
		relief_start(&fs->relief, fs->session);
		rc = serve(fs);
		relief_stop(&fs->relief);
		pthread_cancel(s.thread);
		pthread_join(s.thread, NULL);
	} else {
		log_no_thread(fs, rc);
	}
	close_signals(&s);
	*detached = s.detached;
	return rc;
}

/* Messages of libfuse go to our log. */
static void take_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char line[512];

	int n = vsnprintf(line, sizeof line, fmt, ap);
	while (n > 0 && (size_t)n < sizeof line && line[n - 1] == '\n')
		line[--n] = 0;
	if (level <= FUSE_LOG_ERR)
		log_err("%s", line);
	else if (level <= FUSE_LOG_INFO)
		log_info("%s", line);
	else
		log_debug("%s", line);
}

static void take_hint(enum fuse_log_level level, const char *fmt, va_list ap)
{
	(void)level;
	take_log(FUSE_LOG_DEBUG, fmt, ap);
}

/* libfuse lets us in between from 3.14 to 3.18.2; later only if it was built for that. */
static void attach_wire(struct fs *fs)
{
	char text[160];

	fuse_set_log_func(take_hint);
	int rc = wire_attach(fs);
	fuse_set_log_func(take_log);
	if (rc < 0 && fs->opt.foreground) /* else a word on the terminal at each mount */
		log_info("the kernel will ask before each write: %s",
			 err_text(rc, text, sizeof text));
}

/*
 * Frees libfuse's state of a mount that is gone. By default libfuse unmounts whatever is at that
 * place now, unless the connection has ended; the end of a pipe that nobody reads looks like that.
 */
static void forget_mount(struct fuse_session *se)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == 0) {
		close(ends[0]);
		dup2(ends[1], fuse_session_fd(se));
		close(ends[1]);
	}
	fuse_session_unmount(se);
}

/* Reports a missing device: libfuse would not say what can be done about it. */
static bool has_device(void)
{
	if (faccessat(AT_FDCWD, "/dev/fuse", R_OK | W_OK, AT_EACCESS) == 0)
		return true;
	log_err("/dev/fuse: %m: nothing can be mounted without it (%s); cframe extract and cframe "
		"compress do without a mount",
		errno == EACCES ? "root can open it to all: chmod 666 /dev/fuse"
				: "a container needs it passed in");
	return false;
}

/*
 * libfuse has reported the failure; but if the mount helper is missing, it does not say what that
 * is and which package has it.
 */
static void explain_failed_mount(const struct fs *fs)
{
	char *argv[] = {"fusermount3", "-V", NULL};

	if (!fs->backing.is_root && run_program(argv) == -ENOENT)
		log_err("fusermount3 was not found, which mounts for users: it is in the package "
			"fuse3 of most systems");
}

int session_run(struct fs *fs, void (*ready)(void *), void *ctx)
{
	struct recompress *recompress = NULL;
	bool detached = false;
	char text[160];

	fuse_set_log_func(take_log);
	if (!has_device())
		return -EIO;
	int rc = session_new(fs);
	if (rc < 0)
		return rc; /* libfuse has said why */
	if (fuse_session_mount(fs->session, fs->opt.mountpoint) != 0) {
		explain_failed_mount(fs);
		fuse_session_destroy(fs->session);
		return -EIO;
	}
	attach_wire(fs);
	rc = keeper_start(&fs->keeper, fs, ready, ctx);
	if (rc >= 0)
		rc = notify_start(&fs->notify, fs);
	if (rc >= 0)
		rc = recompress_start(&recompress, fs);
	if (rc < 0)
		log_no_thread(fs, rc);
	else
		rc = serve_until_stopped(fs, &detached);
	claim_tell_unmounted(&fs->backing);
	recompress_stop(recompress);
	notify_stop(fs->notify);
	keeper_stop(fs->keeper);
	fs->keeper = NULL;
	notify_close(fs->notify); /* only now: a commit of the keeper may still tell of a change */
	fs->notify = NULL;
	int commit_rc = keeper_commit_all(fs);
	if (commit_rc < 0)
		log_err("%s: the last commit failed: %s", fs->opt.backing,
			err_text(commit_rc, text, sizeof text));
	if (detached)
		forget_mount(fs->session);
	else
		fuse_session_unmount(fs->session);
	fuse_session_destroy(fs->session);
	return rc < 0 ? rc : commit_rc;
}
