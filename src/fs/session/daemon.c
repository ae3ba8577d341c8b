#include "fs/session/daemon.h"

#include "base/log.h"
#include "fs/session/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* The parent waits for a byte from a pipe. */
int daemon_start(const struct options *o, int (*run)(const struct options *o, int parent))
{
	int fds[2], status;
	char word;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return refuse_error("pipe", o->mountpoint, -errno);
	pid_t pid = fork();
	if (pid < 0)
		return refuse_error("fork", o->mountpoint, -errno);
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
		return refuse_error("daemon", o->mountpoint, -EIO);
	return -EIO;
}

void daemon_answer(int parent)
{
	/*
	 * Not earlier: autofs makes everybody wait for the mount except the automounter's process
	 * group, in which mount(8) and we are started. The process that mounts and then accesses
	 * the mount must be in it.
	 */
	setsid();
	restore_terminal_signals();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (write(parent, "", 1) != 1)
		log_warn("nobody waits for the mount");
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	close(parent);
	close(null);
	log_init(log_level(), LOG_SINK_SYSLOG);
}
