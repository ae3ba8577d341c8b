/*
 * cframefs BACKING MOUNTPOINT. The command line is checked (options.c), the parts of a mount are
 * opened (fs_open), in a child process unless -f was given, and the session serves requests until
 * the end (session.c). The requests themselves start in ops.c.
 */
#include "base/log.h"
#include "base/meter.h"
#include "codec/versions.h"
#include "fs/cgroup.h"
#include "fs/dirty/workspace.h"
#include "fs/guard.h"
#include "fs/intent/replay.h"
#include "fs/ops/ops.h"
#include "fs/session.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_version(void)
{
	printf("cframefs %s\nlibfuse %s\n", VERSION, fuse_pkgversion());
	for (unsigned i = 0; i < versions_count(); i++)
		printf("%s %s\n", versions_at(i).library, versions_at(i).version);
}

static int refuse(const char *what, const char *where, const char *why)
{
	fprintf(stderr, "cframefs: %s '%s': %s\n", what, where, why);
	return -EBUSY;
}

static int complain(const char *what, const char *where, int rc)
{
	/* A dead mount shows itself here or before (judge_paths), by what the kernel has cached. */
	refuse(what, where, rc == -ENOTCONN ? OPTIONS_NO_DAEMON : strerror(-rc));
	return rc;
}

#define WAIT_STEPS 300 /* of 100 ms */

/*
 * A daemon that was asked to end may have its mount there for a while: whoever restarts it means
 * the place behind it. Nobody touches the mount meanwhile, which would keep it busy.
 */
static void wait_for_old_mount(const struct options *o)
{
	struct statx stx;

	if (o->nonempty || statx(AT_FDCWD, o->mountpoint, AT_STATX_DONT_SYNC, 0, &stx) < 0 ||
	    !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return;
	dev_t dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	for (int i = 0; i < WAIT_STEPS && backing_is_ending(o->backing, dev); i++)
		usleep(100 * 1000);
}

/* Finds what is wrong with the two directories while we can still complain on the terminal. */
static int check_places(const struct options *o)
{
	struct statx stx;
	struct stat st;

	wait_for_old_mount(o);
	if (stat(o->backing, &st) < 0)
		return complain("backing directory", o->backing, -errno);
	if (!S_ISDIR(st.st_mode))
		return complain("backing directory", o->backing, -ENOTDIR);
	if (access(o->backing, R_OK | X_OK) < 0)
		return complain("backing directory", o->backing, -errno);
	if (statx(AT_FDCWD, o->mountpoint, 0, STATX_BASIC_STATS, &stx) < 0)
		return complain("mount point", o->mountpoint, -errno);
	if (!S_ISDIR(stx.stx_mode))
		return complain("mount point", o->mountpoint, -ENOTDIR);
	if (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT && !o->nonempty)
		return refuse("mount point", o->mountpoint,
			      "a file system is mounted there already; umount it first");
	if (access("/proc/self/fd", X_OK) < 0)
		return refuse("proc", "/proc", "is needed, and not mounted");
	return 0;
}

/* mount -o remount,ro calls us like a new mount; the kernel does the work. */
static int remount(const struct options *o)
{
	static const struct {
		const char *word;
		unsigned long flag;
	} flags[] = {{"ro", MS_RDONLY},	    {"nosuid", MS_NOSUID},     {"nodev", MS_NODEV},
		     {"noexec", MS_NOEXEC}, {"noatime", MS_NOATIME},   {"sync", MS_SYNCHRONOUS},
		     {"dirsync", MS_DIRSYNC}, {"nodiratime", MS_NODIRATIME}};
	unsigned long set = MS_REMOUNT;
	char *rest = o->mount_opts, *word;

	while ((word = strsep(&rest, ",")))
		for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
			if (strcmp(word, flags[i].word) == 0)
				set |= flags[i].flag;
	if (mount(NULL, o->mountpoint, NULL, set, NULL) < 0)
		return complain("remount", o->mountpoint, -errno);
	return 0;
}

/* Memory of spare buffers for chunks, beside -o dirty_max. The keeper frees what is not used. */
#define SPARE_MOST (16u << 20)

static int lock_backing(struct fs *fs)
{
	char holder[PATH_MAX], why[PATH_MAX + 80];

	int rc = backing_lock(&fs->backing, fs->opt.read_only, holder);
	if (rc != -EBUSY)
		return rc;
	snprintf(why, sizeof why, "another cframefs %shas it mounted%s%s%s",
		 fs->opt.read_only ? "that writes " : "", holder[0] ? " at '" : "", holder,
		 holder[0] ? "'" : "");
	refuse("backing directory", fs->opt.backing, why);
	return rc;
}

/* That serve requests. */
#define THREADS 16

/* Each of these takes so much of a limited address space at most. */
#define SPACE_SHARE 8
#define SMALL_STACK (1u << 20)
#define THREAD (2u << 20) /* with the buffers for its requests */

/* False: there is room for what the options say. */
static bool cut(struct options *o, uint64_t cache, uint64_t dirty_max)
{
	if (o->cache <= cache && o->dirty_max <= dirty_max)
		return false;
	o->cache = min_u64(o->cache, cache);
	o->dirty_max = min_u64(o->dirty_max, dirty_max);
	options_set_chunksize_most(o);
	return true;
}

/*
 * Where the address space is limited, cache, dirty data and the stacks of thirty threads may be
 * more than there is: then what waits to be stored takes the memory for storing it, for ever.
 */
static void fit_into_space(struct fs *fs)
{
	struct options *o = &fs->opt;
	struct rlimit lim;
	pthread_attr_t attr;

	if (getrlimit(RLIMIT_AS, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY)
		return;
	uint64_t share = max_u64(lim.rlim_cur / SPACE_SHARE, 1 << 20);
	fs->threads = (unsigned)max_u64(min_u64(fs->threads, share / (2 * THREAD)), 4);
	if (cut(o, share, share))
		log_info("address space is limited to %llu MiB: cache %llu, dirty_max %llu",
			 (unsigned long long)lim.rlim_cur >> 20, (unsigned long long)o->cache >> 20,
			 (unsigned long long)o->dirty_max >> 20);
	if (pthread_attr_init(&attr) != 0)
		return;
	if (pthread_attr_setstacksize(&attr, SMALL_STACK) == 0)
		(void)pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
}

/* Where options ask for too much the cache takes so much at most, and dirty data half of that. */
#define MEMORY_SHARE 4
#define MEMORY_BESIDE (64u << 20) /* what the daemon takes beside both: README, "Limits" */

/*
 * In a container whose memory is less than the options say, the kernel ends who takes it. Options
 * that fit are the user's own affair.
 */
static void fit_into_memory(struct options *o)
{
	uint64_t limit = cgroup_memory(), share = max_u64(limit / MEMORY_SHARE, 2 << 20);

	if (o->cache <= limit && o->dirty_max <= limit - o->cache &&
	    limit - o->cache - o->dirty_max >= MEMORY_BESIDE)
		return;
	if (cut(o, share, share / 2))
		log_info("memory is limited to %llu MiB: cache %llu, dirty_max %llu",
			 (unsigned long long)limit >> 20, (unsigned long long)o->cache >> 20,
			 (unsigned long long)o->dirty_max >> 20);
}

/* After a failure fs_close closes what has been opened so far. */
static int fs_open(struct fs *fs)
{
	unsigned max_fds = (unsigned)min_u64(backing_raise_nofile() / 4, 1 << 16);

	TRY(workspace_init());
	TRY(backing_open(&fs->backing, fs->opt.backing));
	TRY(lock_backing(fs));
	TRY(probes_open(&fs->probes));
	TRY(inodes_open(&fs->inodes, &fs->backing, max_fds));
	TRY(cache_open(&fs->cache, fs->opt.cache));
	TRY(large_open(&fs->large, fs->cache));
	TRY(budget_open(&fs->budget, fs->opt.dirty_max, (unsigned)fs->opt.workers));
	TRY(spare_open(&fs->spare, min_u64(fs->opt.dirty_max / 4, SPARE_MOST)));
	TRY(pool_open(&fs->pool, (unsigned)fs->opt.workers));
	TRY(replay(fs));
	if (fs->opt.intent && fs->opt.commit > 0 && !fs->opt.read_only)
		TRY(intent_open(&fs->intent, &fs->backing, fs->opt.intent));
	return 0;
}

static void fs_close(struct fs *fs)
{
	if (fs->pool)
		ops_close_all(fs);
	(void)intent_settle(fs->intent);
	intent_close(fs->intent);
	pool_close(fs->pool);
	budget_close(fs->budget);
	spare_close(fs->spare);
	inodes_close(fs->inodes);
	large_close(fs->large);
	cache_close(fs->cache);
	probes_close(fs->probes);
	backing_close(&fs->backing);
	workspace_end();
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
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (write(a->pipe, "", 1) != 1)
		log_warn("nobody waits for the mount");
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	close(a->pipe);
	close(null);
	log_init(log_level(), LOG_SINK_SYSLOG);
}

/* In all threads to come: one thread of the session waits for these signals. */
static void block_signals(void)
{
	sigset_t set;

	session_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int run(const struct options *o, int pipe)
{
	block_signals();
	/* Few arenas, and large blocks go back to the system: memory is what the options say. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, 1 << 20);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_TRIM_THRESHOLD, 4 << 20);
	umask(0); /* the kernel has applied the caller's */
	log_init(o->debug ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, LOG_SINK_STDERR);

	struct fs fs = {.opt = *o,
			.began = meter_now(),
			.absent.lock = PTHREAD_MUTEX_INITIALIZER,
			.seeks = {.lock = PTHREAD_MUTEX_INITIALIZER,
				  .writing = PTHREAD_MUTEX_INITIALIZER},
			.threads = THREADS};
	struct announce a = {pipe, o->foreground, o->mountpoint};
	fs.backing.root = fs.backing.proc = fs.backing.lock = -1;
	fit_into_space(&fs);
	fit_into_memory(&fs.opt);
	guard_start();
	int rc = fs_open(&fs);
	if (rc >= 0)
		rc = session_run(&fs, announce, &a);
	else if (rc != -EBUSY) /* who found that has said why */
		complain("start", o->backing, rc);
	fs_close(&fs);
	guard_stop();
	return rc;
}

/* The child becomes the daemon; the parent leaves when the mount answers, or with its failure. */
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
		setsid();
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

/*
 * Makes sure that descriptors 0 to 2 are open, so that no file of ours gets one of these numbers.
 */
static void open_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

int main(int argc, char **argv)
{
	struct options o;

	open_stdio();
	int rc = options_parse(&o, argc, argv);
	if (rc >= 0 && o.help) {
		options_help();
	} else if (rc >= 0 && o.version) {
		print_version();
	} else if (rc >= 0 && o.remount) {
		rc = remount(&o);
	} else {
		if (rc >= 0)
			rc = check_places(&o);
		if (rc >= 0)
			rc = o.foreground ? run(&o, -1) : daemonize(&o);
	}
	options_free(&o);
	return rc < 0 ? 1 : 0;
}
