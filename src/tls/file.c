/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of files as output of a session: read in pieces of a record, as the connection takes them.
 *
 * A disk must not hold up the loop. Data in the page cache is read at once (RWF_NOWAIT). For other data
 * the kernel is asked to fetch it, and the session comes back a little later. Only if that yields nothing
 * for a quarter of a second, or if the file system cannot tell, does the thread wait for the disk, for 16
 * KB at a time. It then does so for the rest of that part, because further tries would only make it
 * slower.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/mem.h"
#include "tls/priv.h"

/* How far the kernel is asked to read ahead. */
#define AHEAD_BYTES (512 * 1024)
#define TRIES_MOST  64
#define TRY_NS      (WEIR_NS_PER_MS / 4)
#define TRY_MOST_NS (4 * WEIR_NS_PER_MS)
/* What a file counts as in the queue: its remaining length, within these limits. */
#define COUNTS_LEAST 512u
#define COUNTS_MOST  65536u

/* ---- reads ---- */

static int64_t read_real(int fd, void *into, size_t length, uint64_t offset, bool wait)
{
	struct iovec part = {.iov_base = into, .iov_len = length};
	ssize_t got = preadv2(fd, &part, 1, (off_t)offset, wait ? 0 : RWF_NOWAIT);
	if (got < 0 && errno == EOPNOTSUPP && !wait)
		got = preadv2(fd, &part, 1, (off_t)offset, 0);
	if (got >= 0)
		return got;
	return errno == EINTR ? -EAGAIN : -errno;
}

static weir_tls_file_read_fn *read_file = read_real;

void weir_tls_file_set_read(weir_tls_file_read_fn *fn)
{
	read_file = fn != NULL ? fn : read_real;
}

static void come_back(weir_tls_session *s, const weir_tls_item *item)
{
	if (s->file_tries == 0)
		posix_fadvise(item->fd, (off_t)item->offset, AHEAD_BYTES, POSIX_FADV_WILLNEED);
	uint64_t wait_ns = TRY_NS * ++s->file_tries;
	weir_loop *loop = weir_conn_loop(s->link->conn);
	weir_timer_start(loop, &s->file_timer,
			 weir_loop_time(loop) + (wait_ns < TRY_MOST_NS ? wait_ns : TRY_MOST_NS));
}

static void try_again(weir_timer *timer, void *arg)
{
	weir_tls_pump(arg);
}

void weir_tls_file_init(weir_tls_session *s)
{
	weir_timer_init(&s->file_timer, try_again, s);
}

static uint32_t file_counts(const weir_tls_session *s, uint64_t left)
{
	uint32_t most = s->bound / 2 < COUNTS_MOST ? s->bound / 2 : COUNTS_MOST;
	if (left > most)
		return most;
	return left < COUNTS_LEAST ? COUNTS_LEAST : (uint32_t)left;
}

/* Reads the next piece into file_buf. 1; 0: not now; negative: failed. */
static int fetch(weir_tls_session *s, const weir_tls_item *item)
{
	size_t length = item->left < WEIR_TLS_RECORD_BYTES ? (size_t)item->left : WEIR_TLS_RECORD_BYTES;
	bool wait = s->file_tries >= TRIES_MOST;
	weir_buf *buf = weir_buf_pool_take(weir_conn_net(s->link->conn)->reads);
	if (buf == NULL) {
		weir_tls_fail(s, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	int64_t got = read_file(item->fd, buf->data, length, item->offset, wait);
	if (got > 0) {
		if (!wait)
			s->file_tries = 0;
		buf->length = (uint32_t)got;
		s->file_buf = buf;
		s->file_at = 0;
		return 1;
	}
	weir_buf_unref(buf);
	if (got == -EAGAIN) {
		come_back(s, item);
		return 0;
	}
	weir_tls_fail(s, got == 0 ? -EIO : (int)got, "a file is shorter than it was, or cannot be read");
	return -EIO;
}

static void count_done(weir_tls_session *s, weir_tls_item *item, size_t done)
{
	item->offset += done;
	item->left -= done;
	uint32_t counts = item->left > 0 ? file_counts(s, item->left) : 0;
	s->queued -= item->counts - counts;
	item->counts = counts;
	if (item->left == 0)
		s->file_tries = 0;
	s->file_at += (uint32_t)done;
	if (s->file_at < s->file_buf->length)
		return;
	weir_buf_unref(s->file_buf);
	s->file_buf = NULL;
}

int weir_tls_put_file(weir_tls_session *s, weir_tls_item *item)
{
	size_t length = s->retry != 0 ? s->retry : weir_tls_record_room(s);
	if (length == 0 || weir_timer_pending(&s->file_timer))
		return 0;
	int result = s->file_buf != NULL ? 1 : fetch(s, item);
	if (result <= 0)
		return result;
	if (length > s->file_buf->length - s->file_at)
		length = s->file_buf->length - s->file_at;
	int done = weir_tls_put_record(s, s->file_buf->data + s->file_at, length);
	if (done <= 0)
		return done;
	count_done(s, item, (size_t)done);
	return 1;
}

/* ---- owners ---- */

void weir_tls_file_over(weir_tls_session *s, weir_tls_item *item)
{
	item->next = NULL;
	if (s->over_last != NULL)
		s->over_last->next = item;
	else
		s->over = item;
	s->over_last = item;
}

void weir_tls_file_tell(weir_tls_session *s)
{
	while (s->over != NULL) {
		weir_tls_item *item = s->over;
		s->over = item->next;
		if (s->over == NULL)
			s->over_last = NULL;
		if (item->over != NULL)
			item->over(item->arg);
		weir_mem_free(item);
	}
}

int weir_tls_send_file(weir_link *link, int fd, uint64_t offset, size_t length, void (*over)(void *arg),
		       void *arg)
{
	weir_tls_session *s = link->tls;
	if (fd < 0 || length == 0 || offset > INT64_MAX - length)
		return weir_error_set(-EINVAL, "send a file: not a part of one");
	uint32_t counts = file_counts(s, length);
	int error = weir_tls_output_check(s, counts);
	if (error != 0)
		return error;
	weir_tls_item *item = weir_mem_zalloc(sizeof(*item));
	if (item == NULL)
		return -ENOMEM;
	*item = (weir_tls_item){
		.fd = fd, .counts = counts, .offset = offset, .left = length, .over = over, .arg = arg};
	weir_tls_output_append(s, item);
	s->queued += counts;
	weir_tls_output_added(s);
	return 0;
}
