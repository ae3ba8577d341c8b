#include "open.h"

#include "frame/names.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t magic[] = "\xa8" "b2frame"; /* with its NUL */

int tool_is_frame(struct io *io)
{
	uint8_t head[1 + sizeof magic];
	uint64_t size;
	TRY(io_size(io, &size));
	if (size < sizeof head)
		return 0;
	TRY(io_pread(io, 0, span_of(head, sizeof head)));
	return memcmp(head + 1, magic, sizeof magic) == 0;
}

bool tool_is_sparse(const char *directory)
{
	struct frame_info info;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is = fd >= 0 && frame_probe_sparse(fd, &info) >= 0;
	err_clear(); /* not the reason for a later failure */
	if (fd >= 0)
		close(fd);
	return is;
}

int tool_open_fd(int dir, const char *file, mode_t *type)
{
	struct stat st = {0};
	int fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* FIFOs: no wait */
	if (fd < 0)
		return -errno;
	int rc = fstat(fd, &st) < 0 ? -errno : fd;
	*type = st.st_mode & S_IFMT;
	if (rc >= 0 && *type != S_IFREG && *type != S_IFDIR)
		rc = -ESPIPE;
	if (rc < 0)
		close(fd);
	return rc;
}

int tool_open(int dir, const char *file, struct frame **frame, struct io **io)
{
	mode_t type;
	*frame = NULL;
	*io = NULL;
	int fd = tool_open_fd(dir, file, &type);
	TRY(fd);
	if (type == S_IFDIR) {
		if (faccessat(fd, NAMES_SPARSE_INDEX, F_OK, 0) == 0)
			return frame_open_sparse_take(frame, fd);
		close(fd);
		return -EISDIR;
	}
	struct io *opened;
	TRY(io_file_open_take(&opened, fd));
	int rc = tool_is_frame(opened);
	if (rc > 0)
		return frame_open_take(frame, opened);
	if (rc == 0)
		*io = opened;
	else
		io_close(opened);
	return rc;
}
