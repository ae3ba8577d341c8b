/*
 * What the file of a frame takes of the disk: room for the next roots is reserved where the disk is
 * nearly full, and free space is given back.
 */
#include "frame/frame_impl.h"

/*
 * The disk is nearly full if it has no room for so many chunks. If it has, the file may grow by one
 * of these shares before the disk is asked again, or by this many bytes.
 */
#define RESERVE_SHARE 64
#define RESERVE_MOST (64ull << 20)

/*
 * So many roots have to fit after the last chunk: one is the disk's, another may be needed before
 * that one's space is free, which may be too short for the third.
 */
#define RESERVE_ROOTS 3

/* True: the disk may have no room for so many bytes many times over. */
static bool is_short(struct frame *f, uint64_t need)
{
	if (f->roomy < need)
		f->roomy = min_u64(io_room(f->io) / RESERVE_SHARE, max_u64(RESERVE_MOST, need));
	if (f->roomy < need)
		return true;
	f->roomy -= need;
	return false;
}

/* False: a commit would free nothing for chunk n, which is tried in any case. */
static bool could_wait(const struct frame *f, uint32_t n)
{
	if (f->index.n < 2)
		return false;
	return frame_waits(f) || (f->space.nlent > 1 && frame_slot(f, n) == SLOT_STORED);
}

/*
 * On a full disk the space of replaced chunks is what the others need, and only a root frees it,
 * which lies after the last chunk. Chunks are written by several threads, which would take all that
 * is left before one of them is told. So none gets a place there without some for the roots.
 */
int frame_disk_reserve(struct frame *f, uint32_t n, const struct frame_place *p)
{
	if (!could_wait(f, n))
		return 0;
	uint64_t roots = RESERVE_ROOTS * frame_root_most(f), end = p->at + p->len;
	bool grows = end > f->firm;
	if ((f->reserved && !grows) || !is_short(f, p->len + roots))
		return 0;
	int rc;
	if (grows) /* with those before it that are not written yet */
		rc = io_reserve(f->io, f->firm, end + roots - f->firm);
	else
		rc = io_reserve(f->io, f->space.end, roots);
	f->reserved |= rc != -EOPNOTSUPP;
	return grows && err_is_full(rc) ? rc : 0;
}

/*
 * The length of the file stays: its end may be garbage, but as long as nothing is synced, slack_at
 * has to see which roots the disk may have there.
 */
void frame_disk_release(struct frame *f)
{
	uint64_t size;
	if (f->reserved && f->state == FRAME_CLEAN && !f->ahead && !space_is_busy(&f->space) &&
	    !frame_is_overtaken(f) && io_size(f->io, &size) == 0 &&
	    io_truncate(f->io, size) == 0)
		f->reserved = false;
}

#define DISK_BLOCK 4096u /* only whole blocks can be punched out */

/*
 * Gaps of at least PUNCH_LEAST bytes are punched out, at most PUNCH_MOST after one sync, if more
 * than this share of the live bytes is free.
 */
#define PUNCH_LEAST (1u << 20)
#define PUNCH_MOST 16
#define PUNCH_SHARE 16

/* For a tight frame, whatever the share: any gap of 8 KiB contains a whole block of 4 KiB. */
#define PUNCH_LEAST_TIGHT (8u << 10)
#define PUNCH_MOST_TIGHT 256

/* A free tail of so many bytes, or of a quarter of the file, is cut off; in a tight frame, any. */
#define CUT_LEAST (64u << 10)
#define CUT_SHARE 4

struct punch {
	struct frame *f;
	int left;
};

static bool punch(void *arg, uint64_t at, uint64_t len, bool *marked)
{
	struct punch *p = arg;
	uint64_t lo = ceil_div(at, DISK_BLOCK) * DISK_BLOCK;
	uint64_t hi = (at + len) / DISK_BLOCK * DISK_BLOCK;
	if (*marked)
		return true;
	if (io_punch(p->f->io, lo, hi - lo) < 0)
		return false;
	*marked = true;
	return --p->left > 0;
}

static void punch_gaps(struct frame *f)
{
	struct punch p = {f, f->tight ? PUNCH_MOST_TIGHT : PUNCH_MOST};
	space_each_free(&f->space, f->tight ? PUNCH_LEAST_TIGHT : PUNCH_LEAST, punch, &p);
}

/* Failure only costs space. */
static void cut_tail(struct frame *f)
{
	if (io_truncate(f->io, f->space.end) == 0)
		f->space.high = f->firm = f->space.end;
}

static bool has_long_tail(const struct frame *f)
{
	uint64_t tail = f->space.high - f->space.end;
	bool large = tail >= CUT_LEAST || tail >= f->space.end / CUT_SHARE;
	return f->changed && !f->unsynced && !f->reserved && tail && (large || f->tight);
}

/*
 * Not if another program has replaced the root, wary or not: the sync before this may have taken
 * long, and what is free in our frame may be in use in the other's.
 */
void frame_disk_trim(struct frame *f)
{
	bool gaps = f->tight || f->space.nfree > frame_space_live(f) / PUNCH_SHARE;
	bool tail = has_long_tail(f);
	if (!(gaps || tail) || frame_compare_root(f) == ROOT_OTHER)
		return;
	if (gaps)
		punch_gaps(f);
	if (tail)
		cut_tail(f);
}

void frame_cut_given_up(struct frame *f)
{
	f->recoverable = false; /* a root with those changes may lack only its header */
	if (f->state != FRAME_CLEAN || !f->writable || f->suspect || f->recovered)
		return;
	f->changed = true;
	IGNORE(frame_sync_root(f));
	f->reserved = true; /* perhaps, before the frame was loaded again */
	frame_disk_release(f);
}
