#include "fs/session/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET_FD 3 /* the guard's end of the socket, in the guard */
#define ARMED_MS 5000 /* somebody may have sent the guard SIGSTOP: then the mount does without */

/*
 * The signal that the kernel sends the guard. It is a real-time signal, because these queue:
 * somebody else's pending SIGUSR1 would swallow ours.
 */
#define DEATH SIGRTMIN

static int to_guard = -1;     /* the daemon's end of the socket */
static pid_t guard, watched;  /* the guard, and the daemon      */

static volatile sig_atomic_t died; /* in the guard: the daemon has died */

/* Anybody can send the signal; only the kernel tells whether it comes from the daemon. */
static void note_death(int sig, siginfo_t *from, void *context)
{
	(void)sig, (void)context;
	if (from->si_code == SI_USER && from->si_pid == watched)
		died = 1;
}

union one_fd {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/* Receives a descriptor; -1: none was sent, or the other end is closed. */
static int receive(int from)
{
	char byte;
	union one_fd control;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof control};
	int fd = -1;

	if (recvmsg(from, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof fd))
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

/*
 * Waits until the socket is closed, or the daemon's main thread is gone while another keeps it
 * open.
 */
static void watch(const sigset_t *waiting)
{
	struct pollfd p = {.fd = SOCKET_FD, .events = POLLIN};
	int control = -1;

	while (!died) {
		if (ppoll(&p, 1, NULL, waiting) <= 0)
			continue;
		int fd = receive(SOCKET_FD);
		if (fd < 0)
			return;
		control = fd;
	}
	if (control < 0)
		control = receive(SOCKET_FD);
	if (control >= 0 && write(control, "1", 1) < 0)
		return; /* the connection has ended, or permission was withdrawn */
}

/* Closes all other descriptors: a reader of the daemon's output must not wait for us to end. */
static bool keep_only(int fd)
{
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i < SOCKET_FD; i++)
		if (null < 0 || dup2(null, i) < 0)
			return false;
	if (fd != SOCKET_FD && dup2(fd, SOCKET_FD) < 0)
		return false;
	if (syscall(__NR_close_range, SOCKET_FD + 1, ~0u, 0) == 0)
		return true;
	/* Before Linux 5.9. */
	int end = (int)sysconf(_SC_OPEN_MAX);
	for (fd = SOCKET_FD + 1; fd < end; fd++)
		close(fd);
	return end > 0;
}

/*
 * All signals are blocked: when all processes are asked to end, the guard has to be the last. It
 * takes its name before it closes the daemon's output, so that whoever waits for that can tell the
 * two apart.
 */
static void guard_main(int fd)
{
	struct sigaction act = {.sa_sigaction = note_death, .sa_flags = SA_SIGINFO};
	sigset_t waiting;

	sigfillset(&waiting);
	sigdelset(&waiting, DEATH);
	/* setsid: a signal to the daemon's process group does not reach the guard */
	if (prctl(PR_SET_NAME, "cframefs-guard") == 0 && keep_only(fd) && setsid() >= 0 &&
	    chdir("/") == 0 && sigaction(DEATH, &act, NULL) == 0 &&
	    prctl(PR_SET_PDEATHSIG, DEATH) == 0 && getppid() == watched &&
	    send(SOCKET_FD, "", 1, MSG_NOSIGNAL) == 1)
		watch(&waiting);
	_exit(0);
}

void guard_start(void)
{
	sigset_t all, old;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	watched = getpid();
	guard = fork();
	if (guard == 0)
		guard_main(fds[0]);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(fds[0]);
	if (guard < 0)
		close(fds[1]);
	else
		to_guard = fds[1];
}

/*
 * Opens a file of fusectl where that is not mounted: root can do so without a mount point. glibc
 * has wrappers for these calls since 2.36.
 */
static int open_detached(const char *name)
{
	int fd = -1, top = -1;

	int fs = (int)syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		top = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
	close(fs);
	if (top >= 0) {
		fd = openat(top, name, O_WRONLY | O_CLOEXEC);
		close(top);
	}
	return fd;
}

/*
 * True: the guard has announced that it will notice our end. If it asked the kernel for that only
 * after our main thread is gone, while another is not, it would wait for ever. The announcement
 * stays in the socket, for the next call.
 */
static bool is_armed(void)
{
	struct pollfd p = {.fd = to_guard, .events = POLLIN};
	char byte;
	int n;

	while ((n = poll(&p, 1, ARMED_MS)) < 0 && errno == EINTR)
		;
	return n == 1 && recv(to_guard, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

int guard_open(dev_t dev)
{
	char path[64];

	if (to_guard < 0 || !is_armed())
		return -1;
	int n = snprintf(path, sizeof path, "/sys/fs/fuse/connections/");
	snprintf(path + n, sizeof path - (size_t)n, "%u/abort", minor(dev));
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 ? fd : open_detached(path + n);
}

void guard_give(int control)
{
	char byte = 0;
	union one_fd room = {{0}};
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = &room,
			   .msg_controllen = sizeof room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (to_guard < 0)
		return;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof control);
	memcpy(CMSG_DATA(c), &control, sizeof control);
	if (sendmsg(to_guard, &m, MSG_NOSIGNAL) < 0)
		return; /* the guard has ended: we go on without */
}

/* The device number of the connection, from the fdinfo of its descriptor; 0: unknown. */
static dev_t number_of_connection(int device)
{
	char path[40], line[80];
	unsigned number = 0;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", device);
	FILE *in = fopen(path, "re");
	while (in && !number && fgets(line, sizeof line, in))
		(void)sscanf(line, "fuse_connection: %u", &number);
	if (in)
		fclose(in);
	return makedev(0, number);
}

/*
 * A connection keeps its number until it ends: if it has not ended after the file was opened, the
 * file belongs to it.
 */
bool guard_connection(int device)
{
	struct pollfd p = {.fd = device}; /* POLLERR: it has ended */
	dev_t dev = number_of_connection(device);
	int control = dev ? guard_open(dev) : -1;
	bool ours = control >= 0 && poll(&p, 1, 0) == 0;

	if (ours)
		guard_give(control);
	if (control >= 0)
		close(control);
	return ours;
}

void guard_stop(void)
{
	if (to_guard < 0)
		return;
	close(to_guard);
	to_guard = -1;
	/*
	 * Closing the socket ends the guard, unless somebody has stopped it (SIGSTOP): do not wait
	 * for that.
	 */
	if (waitpid(guard, NULL, WNOHANG) != 0)
		return;
	kill(guard, SIGKILL);
	while (waitpid(guard, NULL, 0) < 0 && errno == EINTR)
		;
}
