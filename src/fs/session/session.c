#include "fs/session/session.h"

#include "base/log.h"
#include "fs/background/keeper.h"
#include "fs/background/recompress.h"
#include "fs/backing/claim.h"
#include "fs/ops/notify.h"
#include "fs/ops/ops.h"
#include "fs/ops/wire.h"
#include "fs/session/mounted.h"
#include "fs/session/program.h"
#include "fs/session/stopper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* "fsname=DIR,subtype=cframefs,...": a comma in the name is escaped for libfuse. */
static int mount_options(const struct fs *fs, struct buf *out)
{
	if (!strstr(fs->opt.mount_opts, "fsname=")) {
		TRY(buf_print(out, "fsname="));
		for (const char *c = fs->opt.backing; *c; c++) {
			if (*c == ',' || *c == '\\')
				TRY(buf_append(out, view_of("\\", 1)));
			TRY(buf_append(out, view_of(c, 1)));
		}
		TRY(buf_print(out, ","));
	}
	TRY(buf_print(out, "subtype=cframefs,default_permissions"));
	if (fs->opt.mount_opts[0])
		TRY(buf_print(out, ",%s", fs->opt.mount_opts));
	TRY(buf_print(out, ",max_read=%llu", (unsigned long long)fs->opt.max_read));
	return buf_append(out, view_of("", 1));
}

/* A failure has been reported, mostly by libfuse. */
static int session_new(struct fs *fs)
{
	struct buf opts = {0};
	int rc = mount_options(fs, &opts);
	if (rc < 0) {
		log_err("%s: out of memory", fs->opt.mountpoint);
	} else {
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

/* Serves until the mount ends. Before 3.12 libfuse limits only the number of idle threads. */
static int serve(struct fs *fs)
{
#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 12)
	struct fuse_loop_config config = {.clone_fd = 1, .max_idle_threads = fs->threads};

	int rc = fuse_session_loop_mt(fs->session, &config);
#else
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_max_threads(config, fs->threads);
	fuse_loop_cfg_set_idle_threads(config, fs->threads);
	int rc = fuse_session_loop_mt(fs->session, config);
	fuse_loop_cfg_destroy(config);
#endif
	return rc > 0 ? 0 : rc; /* a signal number is not a failure */
}

static void *wait_for_cancel(void *arg)
{
	while (pause() < 0)
		;
	return arg;
}

/*
 * The first pthread_cancel of a process loads a library, and aborts if it cannot, for example
 * because applications have so many files open that no descriptor is left. So do it before there
 * are any.
 */
static void prepare_cancel(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_cancel, NULL) != 0)
		return;
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static void log_no_thread(const struct fs *fs, int rc)
{
	char text[ERR_TEXT_MAX];

	log_err("%s: a thread of the mount could not be started: %s", fs->opt.mountpoint,
		err_text(rc, text));
}

static int serve_until_stopped(struct fs *fs, bool *detached)
{
	struct stopper s;

	signal(SIGPIPE, SIG_IGN);
	prepare_cancel();
	int rc = stopper_start(&s, fs);
	if (rc < 0) {
		log_no_thread(fs, rc);
		return rc;
	}
	relief_start(&fs->relief, fs->session);
	rc = serve(fs);
	relief_stop(&fs->relief);
	*detached = stopper_end(&s);
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

/* libfuse supports custom I/O from 3.14 to 3.18.2; later only if it was built for that. */
static void attach_wire(struct fs *fs)
{
	char text[ERR_TEXT_MAX];

	fuse_set_log_func(take_hint);
	int rc = wire_attach(fs);
	fuse_set_log_func(take_log);
	if (rc < 0 && fs->opt.foreground) /* else each mount would print it on the terminal */
		log_info("the kernel will ask before each write: %s", err_text(rc, text));
}

/*
 * Frees libfuse's state of a mount that is gone. By default libfuse would unmount whatever is
 * mounted there now, unless the connection has ended; the write end of a pipe without readers looks
 * like that.
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

/* Reports a missing device: libfuse would not say what to do about it. */
static bool has_device(void)
{
	if (faccessat(AT_FDCWD, "/dev/fuse", R_OK | W_OK, AT_EACCESS) == 0)
		return true;
	log_err("/dev/fuse: %m: nothing can be mounted without it (%s); cframe extract and cframe "
		"compress need no mount",
		errno == EACCES ? "root can open it to all: chmod 666 /dev/fuse"
				: "a container needs it passed in");
	return false;
}

/*
 * libfuse has reported the failure; but if the mount helper is missing, it does not say what that
 * is and which package contains it.
 */
static void explain_failed_mount(const struct fs *fs)
{
	char *argv[] = {"fusermount3", "-V", NULL};

	if (!fs->backing.is_root && program_run(argv) == -ENOENT)
		log_err("fusermount3, which mounts for users other than root, was not found: most "
			"systems have it in a package fuse3");
}

/* Creates the session and mounts it. Every failure has been reported. */
static int mount_session(struct fs *fs)
{
	if (!has_device())
		return -EIO;
	TRY(session_new(fs));
	if (fuse_session_mount(fs->session, fs->opt.mountpoint) == 0)
		return 0;
	explain_failed_mount(fs);
	fuse_session_destroy(fs->session);
	return -EIO;
}

/* What is done once the mount answers. */
struct answered {
	struct fs *fs;
	void (*ready)(void *);
	void *ctx;
};

/* Called by the keeper. */
static void on_answered(void *arg)
{
	const struct answered *a = arg;

	mounted_begin(a->fs);
	a->ready(a->ctx);
}

/*
 * Starts the other threads, before those that serve: requests rely on them. stop_others stops what
 * was started, even if this fails.
 */
static int start_others(struct fs *fs, struct answered *a, struct recompress **r)
{
	TRY(keeper_start(&fs->keeper, fs, on_answered, a));
	TRY(notify_start(&fs->notify, fs));
	TRY(recompress_start(r, fs));
	return checkpoint_start(fs->checkpoint, fs->opt.commit);
}

static void stop_others(struct fs *fs, struct recompress *r)
{
	checkpoint_stop(fs->checkpoint);
	recompress_stop(r);
	notify_stop(fs->notify);
	keeper_stop(fs->keeper);
	fs->keeper = NULL;
	notify_close(fs->notify); /* only now: the keeper's commits may still use it */
	fs->notify = NULL;
}

int session_run(struct fs *fs, void (*ready)(void *), void *ctx)
{
	struct answered answered = {fs, ready, ctx};
	struct recompress *recompress = NULL;
	bool detached = false;

	fuse_set_log_func(take_log);
	TRY(mount_session(fs));
	attach_wire(fs);
	int rc = start_others(fs, &answered, &recompress);
	if (rc < 0)
		log_no_thread(fs, rc);
	else
		rc = serve_until_stopped(fs, &detached);
	claim_tell_unmounted(&fs->backing);
	stop_others(fs, recompress);
	/* When no other thread works on the files, and before the mount point can be used again. */
	int commit_rc = keeper_commit_all(fs);
	if (detached)
		forget_mount(fs->session);
	else
		fuse_session_unmount(fs->session);
	fuse_session_destroy(fs->session);
	return rc < 0 ? rc : commit_rc;
}
