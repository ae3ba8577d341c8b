/*
 * Preloaded into the daemon: makes the n-th call on the backing directory fail. A test controls it
 * by a file that both have mapped, named by FAULT_INJECT; without that, nothing happens.
 *
 * `lose`: an fdatasync that fails takes back what was written since the last one that did not, as
 * when the kernel has dropped the pages that it could not write.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * HOW_KILL: the process dies instead, in the middle of a write, unless all of it is in one sector,
 * like a header, which the kernel writes as a whole. HOW_WAIT: the call waits until such calls no
 * longer count, and is made, or until `how` changes, and fails. HOW_WRONG: a read returns a wrong
 * byte. HOW_DONE: the call is made, and fails all the same, as when the answer of a server gets
 * lost.
 */
enum how { HOW_ERROR, HOW_SHORT, HOW_KILL, HOW_WAIT, HOW_WRONG, HOW_DONE };

#define SECTOR 512 /* bytes, of disks */
#define THEN_WAIT 2u

/* Which calls count. */
#define CALL_READ 1u
#define CALL_WRITE 2u
#define CALL_SPACE 4u /* ftruncate, fallocate */
#define CALL_SYNC 8u
/* linkat, unlinkat, renameat2, mkdirat, openat that creates, or of a directory */
#define CALL_NAME 16u
#define CALL_OPEN 32u /* openat of what is there */
#define CALL_FSYNC 64u /* of a file, more than its data */
/* no call: as if the kernel cleared set-id bits itself, and so sent modes in requests */
#define OLD_KERNEL 128u
#define CALL_MEMORY 256u /* the daemon's own, not that of libraries; not in sanitized builds */
#define CALL_STORE 512u /* what the daemon puts into the kernel's page cache by itself */
#define CALL_ACCESS 1024u /* faccessat */
#define CALL_LIST 2048u /* readdir */
#define CALL_STAT 4096u /* fstatat; before glibc 2.33 no function */
/* no call: a process waits before it asks to be told when its parent ends */
#define LATE_GUARD 8192u
#define CALL_XATTR 16384u /* setxattr, fsetxattr */
#define CALL_SYNCFS 32768u
#define CALL_FSTAT 65536u /* fstat, and statx of a descriptor, by the program itself */

/* The same as in tests/lib/libfault.py. */
struct control {
	int64_t left;      /* calls until the one that fails is 1; 0: off */
	uint32_t how, error;
	uint32_t calls;    /* those that count */
	uint32_t forever;  /* all later ones fail too, or, THEN_WAIT, wait as with HOW_WAIT */
	uint32_t lose;
	uint32_t hits;
	char last[32];     /* the call that failed first */
	uint32_t unreadable; /* beside all that: reads fail, with `error` */
};

struct synced {
	struct synced *next;
	dev_t dev;
	ino_t ino;
	uint8_t *bytes;
	size_t n;
};

static struct control *control;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct synced *synced; /* under lock */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static uintptr_t program, program_end; /* where the daemon's code is */

static void find_program(void)
{
	const ElfW(Phdr) *p = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t n = getauxval(AT_PHNUM);
	uintptr_t base = 0;

	for (size_t i = 0; i < n; i++)
		if (p[i].p_type == PT_PHDR)
			base = (uintptr_t)p - p[i].p_vaddr;
	for (size_t i = 0; i < n; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
			program = base + p[i].p_vaddr;
			program_end = program + p[i].p_memsz;
		}
}

static bool is_program(const void *caller)
{
	return (uintptr_t)caller >= program && (uintptr_t)caller < program_end;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULT_INJECT");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		control = NULL;
	close(fd);
	find_program();
	unsetenv("FAULT_INJECT"); /* programs that the daemon runs are left alone */
	unsetenv("LD_PRELOAD");
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static bool is_file(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* True if it shall fail now. */
static bool wait_for(unsigned call)
{
	const volatile struct control *c = control;

	while (c->calls & call && (c->how == HOW_WAIT || c->forever == THEN_WAIT))
		usleep(1000);
	return c->calls & call;
}

/* Is this call the one? */
static bool hit(unsigned call, const char *name)
{
	uint32_t how = control ? control->how : 0;
	bool yes = false, later = false;

	if (!control || !(control->calls & call))
		return false;
	pthread_mutex_lock(&lock);
	if (control->left > 1) {
		control->left--;
	} else if (control->left == 1) {
		yes = true;
		later = control->hits++ > 0;
		if (!later)
			strncpy(control->last, name, sizeof control->last - 1);
		if (!control->forever)
			control->left = 0;
	}
	pthread_mutex_unlock(&lock);
	if (yes && how == HOW_KILL && call != CALL_WRITE)
		die();
	if (yes && (how == HOW_WAIT || (later && control->forever == THEN_WAIT)))
		return wait_for(call);
	return yes;
}

static int fail(void)
{
	errno = (int)control->error;
	return -1;
}

/* The rest of a function that stands for such a call. */
#define MAKE_OR_FAIL(call, name, real)             \
	do {                                       \
		if (!hit(call, name))              \
			return real;               \
		if (control->how == HOW_DONE)      \
			(void)real;                \
		return fail();                     \
	} while (0)

/* What is certainly on the disk. Under lock. */
static struct synced *of_file(const struct stat *st)
{
	struct synced *s = synced;

	while (s && (s->dev != st->st_dev || s->ino != st->st_ino))
		s = s->next;
	if (!s && (s = calloc(1, sizeof *s))) {
		*s = (struct synced){synced, st->st_dev, st->st_ino, NULL, 0};
		synced = s;
	}
	return s;
}

static void remember(int fd)
{
	struct stat st;

	if (!control || !control->lose || fstat(fd, &st) < 0)
		return;
	pthread_mutex_lock(&lock);
	struct synced *s = of_file(&st);
	uint8_t *bytes = s ? realloc(s->bytes, (size_t)st.st_size + 1) : NULL;
	if (bytes) {
		ssize_t n = REAL(pread64)(fd, bytes, (size_t)st.st_size, 0);
		s->bytes = bytes;
		s->n = n > 0 ? (size_t)n : 0;
	}
	pthread_mutex_unlock(&lock);
}

/* A new file may have the number of one that is gone. */
static void forget(int fd)
{
	struct stat st;

	if (!control || !control->lose || fd < 0 || fstat(fd, &st) < 0)
		return;
	pthread_mutex_lock(&lock);
	struct synced *s = of_file(&st);
	if (s)
		s->n = 0;
	pthread_mutex_unlock(&lock);
}

static void lose(int fd)
{
	struct stat st;

	if (!control->lose || fstat(fd, &st) < 0)
		return;
	pthread_mutex_lock(&lock);
	struct synced *s = of_file(&st);
	if (s && (REAL(ftruncate64)(fd, 0) < 0 ||
		  REAL(pwrite64)(fd, s->bytes, s->n, 0) != (ssize_t)s->n))
		abort();
	pthread_mutex_unlock(&lock);
}

/* How the daemon reads requests (wire.c). */
ssize_t readv(int fd, const struct iovec *v, int count)
{
	const size_t flags = sizeof(struct fuse_in_header) + offsetof(struct fuse_init_in, flags);
	const uint32_t killpriv = 1u << 28; /* FUSE_HANDLE_KILLPRIV_V2, since Linux 5.11 */
	struct fuse_in_header h;
	uint32_t word;

	ssize_t n = REAL(readv)(fd, v, count);
	if (!control || !(control->calls & OLD_KERNEL) || n < (ssize_t)(flags + sizeof word) ||
	    v[0].iov_len < flags + sizeof word)
		return n;
	memcpy(&h, v[0].iov_base, sizeof h);
	memcpy(&word, (char *)v[0].iov_base + flags, sizeof word);
	word &= ~killpriv;
	if (h.opcode == FUSE_INIT)
		memcpy((char *)v[0].iov_base + flags, &word, sizeof word);
	return n;
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
	const struct fuse_out_header *h = v[0].iov_base;

	if (v[0].iov_len == sizeof *h && h->unique == 0 && h->error == FUSE_NOTIFY_STORE &&
	    hit(CALL_STORE, "store"))
		return fail();
	return REAL(writev)(fd, v, count);
}

ssize_t pread64(int fd, void *p, size_t n, off_t at)
{
	if (is_file(fd) && control && control->unreadable)
		return fail();
	bool hits = is_file(fd) && hit(CALL_READ, "pread");
	if (hits && control->how == HOW_ERROR)
		return fail();
	if (hits && control->how == HOW_SHORT)
		n = (n + 1) / 2;
	ssize_t got = REAL(pread64)(fd, p, n, at);
	if (hits && control->how == HOW_WRONG && got > 0)
		((uint8_t *)p)[got / 2] ^= 0x55;
	return got;
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
	if (hit(CALL_WRITE, "pwrite")) {
		if (control->how == HOW_DONE)
			(void)REAL(pwrite64)(fd, p, n, at);
		if (control->how == HOW_ERROR || control->how == HOW_DONE)
			return fail();
		if (control->how == HOW_KILL && at / SECTOR == (at + (off_t)n - 1) / SECTOR)
			die();
		n = (n + 1) / 2;
		if (control->how == HOW_KILL && REAL(pwrite64)(fd, p, n, at) <= (ssize_t)n)
			die();
	}
	return REAL(pwrite64)(fd, p, n, at);
}

int ftruncate64(int fd, off_t size)
{
	MAKE_OR_FAIL(CALL_SPACE, "ftruncate", REAL(ftruncate64)(fd, size));
}

int fallocate64(int fd, int mode, off_t at, off_t len)
{
	MAKE_OR_FAIL(CALL_SPACE, "fallocate", REAL(fallocate64)(fd, mode, at, len));
}

int fdatasync(int fd)
{
	if (hit(CALL_SYNC, "fdatasync")) {
		lose(fd);
		return fail();
	}
	int rc = REAL(fdatasync)(fd);
	if (rc == 0)
		remember(fd);
	return rc;
}

int fsync(int fd)
{
	unsigned calls = is_file(fd) ? CALL_SYNC | CALL_FSYNC : CALL_SYNC;
	return hit(calls, "fsync") ? fail() : REAL(fsync)(fd);
}

int syncfs(int fd)
{
	return hit(CALL_SYNC | CALL_SYNCFS, "syncfs") ? fail() : REAL(syncfs)(fd);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
	MAKE_OR_FAIL(CALL_NAME, "linkat", REAL(linkat)(a, from, b, to, flags));
}

int unlinkat(int dir, const char *name, int flags)
{
	MAKE_OR_FAIL(CALL_NAME, "unlinkat", REAL(unlinkat)(dir, name, flags));
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	MAKE_OR_FAIL(CALL_NAME, "renameat2", REAL(renameat2)(a, from, b, to, flags));
}

int setxattr(const char *path, const char *name, const void *value, size_t n, int flags)
{
	MAKE_OR_FAIL(CALL_XATTR, "setxattr", REAL(setxattr)(path, name, value, n, flags));
}

int fsetxattr(int fd, const char *name, const void *value, size_t n, int flags)
{
	MAKE_OR_FAIL(CALL_XATTR, "fsetxattr", REAL(fsetxattr)(fd, name, value, n, flags));
}

int mkdirat(int dir, const char *name, mode_t mode)
{
	MAKE_OR_FAIL(CALL_NAME, "mkdirat", REAL(mkdirat)(dir, name, mode));
}

int faccessat(int dir, const char *name, int mode, int flags)
{
	return hit(CALL_ACCESS, "faccessat") ? fail() : REAL(faccessat)(dir, name, mode, flags);
}

int fstatat64(int dir, const char *name, struct stat64 *st, int flags)
{
	return hit(CALL_STAT, "fstatat") ? fail() : REAL(fstatat64)(dir, name, st, flags);
}

int fstat64(int fd, struct stat64 *st)
{
	bool counts = is_program(__builtin_return_address(0)); /* functions above use it, too */
	return counts && hit(CALL_FSTAT, "fstat") ? fail() : REAL(fstat64)(fd, st);
}

int statx(int dir, const char *name, int flags, unsigned mask, struct statx *st)
{
	bool counts = flags & AT_EMPTY_PATH && is_program(__builtin_return_address(0));
	return counts && hit(CALL_FSTAT, "statx") ? fail()
						  : REAL(statx)(dir, name, flags, mask, st);
}

int prctl(int option, ...)
{
	unsigned long v[4];
	va_list args;

	va_start(args, option);
	for (int i = 0; i < 4; i++)
		v[i] = va_arg(args, unsigned long);
	va_end(args);
	if (option == PR_SET_PDEATHSIG && control && control->calls & LATE_GUARD)
		usleep(300000);
	return REAL(prctl)(option, v[0], v[1], v[2], v[3]);
}

struct dirent64 *readdir64(DIR *dir)
{
	if (!hit(CALL_LIST, "readdir"))
		return REAL(readdir64)(dir);
	(void)fail();
	return NULL;
}

int openat64(int dir, const char *name, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	/* O_TMPFILE has O_DIRECTORY in it */
	if (flags & O_CREAT || (flags & __O_TMPFILE) == __O_TMPFILE) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
		bool hits = hit(CALL_NAME, "openat");
		if (hits && control->how != HOW_DONE)
			return fail();
		int fd = REAL(openat64)(dir, name, flags, mode);
		if (hits && fd >= 0)
			REAL(close)(fd);
		if (hits)
			return fail();
		if (flags & O_EXCL || (flags & __O_TMPFILE) == __O_TMPFILE)
			forget(fd);
		return fd;
	} else if (hit(flags & O_DIRECTORY ? CALL_OPEN | CALL_NAME : CALL_OPEN, "openat")) {
		return fail();
	}
	return REAL(openat64)(dir, name, flags, mode);
}

#ifdef OWN_MEMORY /* sanitizers have theirs */
/* dlsym may need memory itself */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static bool is_out_of_memory(const void *caller)
{
	if (!control || !is_program(caller) || !hit(CALL_MEMORY, "memory"))
		return false;
	errno = ENOMEM;
	return true;
}

/* Nobody calls it by name, but compilers turn realloc(NULL, size) into it. */
void *malloc(size_t size)
{
	return is_out_of_memory(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return is_out_of_memory(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return is_out_of_memory(__builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return is_out_of_memory(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
}
#endif
