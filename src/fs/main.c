/*
 * cframefs BACKING MOUNTPOINT. The command line is checked (options.c), the parts of a mount are
 * opened (fs_open), in a child process unless -f was given, and the session serves requests until
 * the end (session.c). The requests themselves start in ops.c.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "codec/versions.h"
#include "fs/background/keeper.h"
#include "fs/background/recompress.h"
#include "fs/backing/claim.h"
#include "fs/backing/mounts.h"
#include "fs/ops/ops.h"
#include "fs/session/guard.h"
#include "fs/session/session.h"
#include "fs/session/stopper.h"
#include "fs/stats.h"

#include <inttypes.h>
#include <linux/magic.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void print_version(void)
{
	printf("cframefs %s\nlibfuse %s\n", VERSION, fuse_pkgversion());
	for (unsigned i = 0; i < versions_count(); i++)
		printf("%s %s\n", versions_at(i).library, versions_at(i).version);
}

static int refuse(const char *what, const char *where, const char *why)
{
	log_tell("%s '%s': %s", what, where, why);
	return -EBUSY;
}

/*
 * Says what the error means for a path. A dead mount is noticed in this way, or when the options
 * are parsed, depending on what the kernel has cached.
 */
static int complain(const char *what, const char *where, int rc)
{
	log_tell("%s '%s': %s", what, where, options_path_error(-rc));
	return rc;
}

#define WAIT_STEPS 300
#define STEP_NS (CLOCK_SECOND / 10)

/*
 * A daemon that was asked to end may still have its mount for a while: a restart means the
 * directory behind it. Meanwhile the mount is not accessed, which would keep it busy.
 */
static void wait_for_old_mount(const struct options *o)
{
	struct statx stx;

	if (o->nonempty || statx(AT_FDCWD, o->mountpoint, AT_STATX_DONT_SYNC, 0, &stx) < 0 ||
	    !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return;
	dev_t dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	for (int i = 0; i < WAIT_STEPS && claim_is_ending(o->backing, dev); i++)
		clock_sleep(STEP_NS);
}

/*
 * Warns of a backing directory inside another mount, such as one that is mounted over itself: the
 * frames would be compressed again, below. That is never what the user wants.
 */
static void tell_mount_of(const struct options *o, dev_t backing)
{
	struct mounts m;
	struct mount_line line;

	if (!mounts_open(&m))
		return;
	if (mounts_find_fuse(&m, backing, &line) &&
	    getxattr(line.at, STATS_XATTR, NULL, 0) >= 0)
		log_tell("backing directory '%s': is in the mount '%s' of another cframefs: what "
			 "is written is compressed twice",
			 o->backing, line.at);
	mounts_close(&m);
}

/*
 * An autofs mount there waits for a mount: ours, if fstab says x-systemd.automount. Only a process
 * of the automounter's group can mount over it, see announce.
 */
static bool has_mount(const char *mountpoint, const struct statx *stx)
{
	struct statfs fs;

	return stx->stx_attributes & STATX_ATTR_MOUNT_ROOT &&
	       (statfs(mountpoint, &fs) < 0 || fs.f_type != AUTOFS_SUPER_MAGIC);
}

static int check_backing(const struct options *o, struct stat *st)
{
	if (stat(o->backing, st) < 0)
		return complain("backing directory", o->backing, -errno);
	if (!S_ISDIR(st->st_mode))
		return complain("backing directory", o->backing, -ENOTDIR);
	if (access(o->backing, R_OK | X_OK) < 0)
		return complain("backing directory", o->backing, -errno);
	if (access("/proc/self/fd", X_OK) < 0)
		return refuse("directory", "/proc", "is not mounted, and cframefs needs it");
	return 0;
}

/* Checks the two directories while problems can still be reported on the terminal. */
static int check_places(const struct options *o)
{
	struct statx stx;
	struct stat st;

	wait_for_old_mount(o);
	TRY(check_backing(o, &st));
	if (statx(AT_FDCWD, o->mountpoint, 0, STATX_BASIC_STATS, &stx) < 0)
		return complain("mount point", o->mountpoint, -errno);
	if (!S_ISDIR(stx.stx_mode))
		return complain("mount point", o->mountpoint, -ENOTDIR);
	if (!o->nonempty && has_mount(o->mountpoint, &stx))
		return refuse("mount point", o->mountpoint,
			      "a file system is mounted there already; umount it first");
	/*
	 * If each were mounted on the other, neither could be unmounted: each would keep the other
	 * busy.
	 */
	if (claim_is_shown(o->mountpoint, st.st_dev))
		return refuse("backing directory", o->backing,
			      "shows the mount point's own files; BACKING comes first");
	tell_mount_of(o, st.st_dev);
	return 0;
}

/* If the mount will refuse all writes, says so, here and in its flags. */
static int judge_writable(struct options *o)
{
	if (o->read_only || access(o->backing, W_OK) == 0)
		return 0;
	if (errno == EROFS) {
		log_tell("backing directory '%s': its file system is read-only, and so is this "
			 "mount (-o ro)",
			 o->backing);
		return options_set_read_only(o);
	}
	log_tell("backing directory '%s': %s: no file can be made or removed in it; its owner can "
		 "allow that (chmod)",
		 o->backing, strerror(errno));
	return 0;
}

/* True: its daemon writes nothing, whatever the kernel would allow. */
static bool is_read_only_for_good(const char *mountpoint)
{
	return removexattr(mountpoint, "user.cframefs.none") < 0 && errno == EROFS;
}

/* `mount -o remount,ro` calls us as if for a new mount; the kernel does the work. */
static int remount(const struct options *o)
{
	static const struct {
		const char *word;
		unsigned long flag;
	} flags[] = {{"ro", MS_RDONLY},	    {"nosuid", MS_NOSUID},     {"nodev", MS_NODEV},
		     {"noexec", MS_NOEXEC}, {"noatime", MS_NOATIME},   {"sync", MS_SYNCHRONOUS},
		     {"dirsync", MS_DIRSYNC}};
	unsigned long set = MS_REMOUNT;
	char *rest = o->mount_opts, *word;

	while ((word = strsep(&rest, ",")))
		for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
			if (strcmp(word, flags[i].word) == 0)
				set |= flags[i].flag;
	if (mount(NULL, o->mountpoint, NULL, set, NULL) < 0)
		return complain("remount", o->mountpoint, -errno);
	if (o->own) /* mount(8) adds those of fstab, which may be no change */
		log_tell("remount '%s': %s stays as it was, like all options of the daemon: "
			 "unmount it, and mount it again",
			 o->mountpoint, o->own);
	if (set & MS_RDONLY || !is_read_only_for_good(o->mountpoint))
		return 0;
	(void)mount(NULL, o->mountpoint, NULL, set | MS_RDONLY, NULL);
	return refuse("remount", o->mountpoint,
		      "was mounted read-only; unmount it, and mount it again without ro");
}

/*
 * Signals from the terminal, which the daemon has not left yet, besides those of the stopper: they
 * would leave a mount without a daemon, or with a stopped one. The parent obeys them.
 */
static struct terminal_signal {
	int sig;
	void (*before)(int);
} terminal_signals[] = {{SIGQUIT, SIG_DFL}, {SIGTSTP, SIG_DFL}, {SIGTTOU, SIG_DFL}};

static void ignore_terminal_signals(void)
{
	for (size_t i = 0; i < sizeof terminal_signals / sizeof *terminal_signals; i++)
		terminal_signals[i].before = signal(terminal_signals[i].sig, SIG_IGN);
}

static void restore_terminal_signals(void)
{
	for (size_t i = 0; i < sizeof terminal_signals / sizeof *terminal_signals; i++)
		signal(terminal_signals[i].sig, terminal_signals[i].before);
}

/* How a daemon tells its parent that the mount answers: a byte through a pipe. */
struct announce {
	int pipe;
	bool foreground;
	const char *mountpoint;
};

static void announce(void *ctx)
{
	struct announce *a = ctx;

	if (a->foreground) {
		log_info("%s: mounted", a->mountpoint);
		return;
	}
	/*
	 * Not earlier: autofs makes everybody wait for the mount except the automounter's process
	 * group, in which mount(8) and we are started. The process that mounts and then accesses
	 * the mount must be in it.
	 */
	setsid();
	restore_terminal_signals();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (write(a->pipe, "", 1) != 1)
		log_warn("nobody waits for the mount");
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	close(a->pipe);
	close(null);
	log_init(log_level(), LOG_SINK_SYSLOG);
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

static int run(const struct options *o, int pipe)
{
	struct announce a = {pipe, o->foreground, o->mountpoint};
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

/*
 * The child becomes the daemon; the parent exits when the mount answers, or with the child's
 * failure.
 */
static int daemonize(const struct options *o)
{
	int fds[2], status;
	char word;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return complain("pipe", o->mountpoint, -errno);
	pid_t pid = fork();
	if (pid < 0)
		return complain("fork", o->mountpoint, -errno);
	if (pid == 0) {
		close(fds[0]);
		ignore_terminal_signals();
		if (chdir("/") < 0)
			_exit(1);
		_exit(run(o, fds[1]) < 0 ? 1 : 0);
	}
	close(fds[1]);
	ssize_t got;
	while ((got = read(fds[0], &word, 1)) < 0 && errno == EINTR)
		;
	if (got == 1)
		return 0;
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return complain("daemon", o->mountpoint, -EIO);
	return -EIO;
}

/* The output may not have been written, for example because the disk is full. */
static int flush_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	log_tell("standard output: %s", strerror(errno));
	return -EIO;
}

/* What is no reason to refuse a mount, but leaves nothing to recompress. */
static int check_frames(const struct options *o)
{
	struct stat st;

	TRY(check_backing(o, &st));
	if (access(o->backing, W_OK) < 0 && errno == EROFS)
		return complain("backing directory", o->backing, -EROFS);
	if (getxattr(o->backing, STATS_XATTR, NULL, 0) >= 0)
		return refuse("backing directory", o->backing,
			      "is the mount point of a cframefs; its frames are in BACKING");
	return 0;
}

static int recompress(const struct options *o)
{
	struct recompress_totals t = {0};
	struct fs fs;

	TRY(check_frames(o));
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
		return remount(o);
	if (o->recompress_all)
		return recompress(o);
	TRY(check_places(o));
	TRY(judge_writable(o));
	return o->foreground ? run(o, -1) : daemonize(o);
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
