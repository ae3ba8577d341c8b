#include "fs/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_FD 3 /* in the guard */

static int to_guard = -1;
static pid_t guard;

static volatile sig_atomic_t died;

static void note_death(int sig)
{
	(void)sig;
	died = 1;
}

static bool abort_by_control(dev_t dev)
{
	char path[64];

	snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", minor(dev));
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, "1", 1) == 1;
}

/*
 * For root: a forced unmount aborts first, and then fails here, since the descriptor keeps the mount busy. It has to
 * stay, or programs would write to the directory below it.
 */
static void abort_by_unmount(const char *mountpoint, dev_t dev)
{
	struct statx st;
	char path[32];

	int fd = open(mountpoint, O_PATH | O_CLOEXEC);
	/* Nothing here may ask the daemon. */
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) < 0 ||
	    makedev(st.stx_dev_major, st.stx_dev_minor) != dev)
		return;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	(void)umount2(path, MNT_FORCE);
}

/* Until the pipe is closed, or the daemon's main thread is gone and the pipe is not. */
static void watch(int fd, dev_t *dev)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	sigset_t all;

	sigfillset(&all); /* who asks all our processes to end wants this one to be the last */
	sigdelset(&all, SIGUSR1);
	while (!died) {
		if (ppoll(&p, 1, NULL, &all) > 0 && read(fd, dev, sizeof *dev) != (ssize_t)sizeof *dev)
			return;
	}
}

static void guard_main(int fd, pid_t daemon, const char *mountpoint)
{
	struct sigaction act = {.sa_handler = note_death};
	dev_t dev = 0;

	setsid(); /* a signal to the daemon's group is none to us */
	prctl(PR_SET_NAME, "cframefs-guard");
	sigaction(SIGUSR1, &act, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	int null = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	dup2(fd, PIPE_FD);
	close_range(PIPE_FD + 1, ~0u, 0); /* what the daemon holds must not live on by us */
	if (chdir("/") == 0 && getppid() == daemon)
		watch(PIPE_FD, &dev);
	if (died && dev && !abort_by_control(dev))
		abort_by_unmount(mountpoint, dev);
	_exit(0);
}

void guard_start(const char *mountpoint)
{
	sigset_t usr1, old;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	/* What comes before the guard waits for it is not lost. */
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, &old);
	pid_t daemon = getpid();
	guard = fork();
	if (guard == 0)
		guard_main(fds[0], daemon, mountpoint);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(fds[0]);
	if (guard < 0)
		close(fds[1]);
	else
		to_guard = fds[1];
}

void guard_tell(dev_t dev)
{
	if (to_guard >= 0 && write(to_guard, &dev, sizeof dev) < 0)
		return; /* it has ended: nobody will help */
}

void guard_stop(void)
{
	if (to_guard < 0)
		return;
	close(to_guard);
	to_guard = -1;
	while (waitpid(guard, NULL, 0) < 0 && errno == EINTR)
		;
}
