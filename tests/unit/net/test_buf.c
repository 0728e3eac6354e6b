/* SPDX-License-Identifier: Apache-2.0 */
#include "support/on_loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "net/buf.h"
#include "net/output.h"

/* ---- buffers of one's own ---- */

static void a_buffer_lives_until_the_last_reference_goes(void **state)
{
	uint64_t live = weir_mem_live();
	weir_buf *buf = weir_buf_new(100);
	assert_true(buf->capacity >= 100);
	assert_int_equal(buf->length, 0);
	assert_ptr_equal(weir_buf_ref(buf), buf);
	memset(buf->data, 1, 100);
	weir_buf_unref(buf);
	assert_int_equal(buf->data[99], 1);
	weir_buf_unref(buf);
	weir_buf_unref(NULL);
	assert_int_equal(weir_mem_live(), live);
}

static void says_when_there_is_no_memory(void **state)
{
	weir_mem_fail_after(1);
	assert_null(weir_buf_new(100));
	assert_null(weir_buf_new((size_t)UINT32_MAX + 1));
}

/* ---- pools ---- */

static void a_pool_gives_the_same_buffer_again(void **state)
{
	weir_loop *loop = loop_of(state);
	uint64_t live = weir_mem_live();
	weir_buf_pool *pool = weir_buf_pool_new(loop, 1000, 4);
	weir_loop_set_self(loop);
	weir_buf *first = weir_buf_pool_take(pool);
	assert_int_equal(first->capacity, 1000);
	weir_buf_unref(first);
	assert_ptr_equal(weir_buf_pool_take(pool), first);
	weir_buf_unref(first);
	weir_loop_set_self(NULL);
	weir_buf_pool_close(&pool);
	assert_null(pool);
	assert_int_equal(weir_mem_live(), live);
}

static void a_pool_gives_back_half_of_what_it_keeps(void **state)
{
	weir_loop *loop = loop_of(state);
	uint64_t live = weir_mem_live();
	weir_buf_pool *pool = weir_buf_pool_new(loop, 1000, 8);
	weir_buf *bufs[8];
	weir_loop_set_self(loop);
	for (unsigned i = 0; i < 8; i++)
		bufs[i] = weir_buf_pool_take(pool);
	for (unsigned i = 0; i < 7; i++)
		weir_buf_unref(bufs[i]);
	assert_int_equal(weir_mem_live(), live + 9);
	/* Seven, three, one, none; what is in use stays. */
	for (unsigned left = 3;; left /= 2) {
		weir_buf_pool_slim(pool);
		assert_int_equal(weir_mem_live(), live + 2 + left);
		if (left == 0)
			break;
	}
	weir_buf_unref(bufs[7]);
	assert_ptr_equal(weir_buf_pool_take(pool), bufs[7]);
	weir_buf_unref(bufs[7]);
	weir_loop_set_self(NULL);
	weir_buf_pool_close(&pool);
	assert_int_equal(weir_mem_live(), live);
}

static void a_pool_keeps_a_bounded_number(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_buf_pool *pool = weir_buf_pool_new(loop, 1000, 4);
	weir_buf *bufs[10];
	for (int far = 0; far < 2; far++) {
		/* At home, then as from another thread: each list has its bound. */
		weir_loop_set_self(loop);
		for (int i = 0; i < 10; i++)
			bufs[i] = weir_buf_pool_take(pool);
		if (far)
			weir_loop_set_self(NULL);
		uint64_t live = weir_mem_live();
		for (int i = 0; i < 10; i++)
			weir_buf_unref(bufs[i]);
		assert_int_equal(weir_mem_live(), live - 6);
	}
	weir_buf_pool_close(&pool);
}

static void a_buffer_outlives_its_pool(void **state)
{
	weir_loop *loop = loop_of(state);
	uint64_t live = weir_mem_live();
	weir_buf_pool *pool = weir_buf_pool_new(loop, 1000, 4);
	weir_buf *kept = weir_buf_pool_take(pool), *also = weir_buf_pool_take(pool);
	weir_buf_pool_close(&pool);
	memset(kept->data, 1, kept->capacity);
	weir_buf_unref(kept);
	/* The loop's own thread finds its pool closed as well. */
	weir_loop_set_self(loop);
	weir_buf_unref(also);
	weir_loop_set_self(NULL);
	assert_int_equal(weir_mem_live(), live);
}

static void a_pool_says_when_there_is_no_memory(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_mem_fail_after(1);
	assert_null(weir_buf_pool_new(loop, 1000, 4));
	weir_buf_pool *pool = weir_buf_pool_new(loop, 1000, 4);
	weir_mem_fail_after(1);
	assert_null(weir_buf_pool_take(pool));
	weir_buf *buf = weir_buf_pool_take(pool);
	assert_non_null(buf);
	weir_buf_unref(buf);
	weir_buf_pool_close(&pool);
}

/* ---- many threads let go while the owner takes, and closes in the middle ---- */

enum { RELEASERS = 3, HANDED = 3000, SLOTS = 64 };

typedef struct handover {
	_Atomic(weir_buf *) slot[SLOTS];
	atomic_bool over;
} handover;

static void *release_some(void *arg)
{
	handover *h = arg;
	bool last = false;
	for (;;) {
		/* One round after the end has been seen, so that nothing is left. */
		bool over = atomic_load(&h->over);
		for (int i = 0; i < SLOTS; i++)
			weir_buf_unref(atomic_exchange(&h->slot[i], NULL));
		if (last)
			return NULL;
		last = over;
	}
}

static void hand_out(handover *h, weir_buf *buf, int number)
{
	buf->data[0] = (uint8_t)number;
	weir_buf_ref(buf);
	weir_buf_unref(atomic_exchange(&h->slot[number % SLOTS], buf));
	weir_buf_unref(buf);
}

static void other_threads_may_let_go(void **state)
{
	weir_loop *loop = loop_of(state);
	uint64_t live = weir_mem_live();
	static handover h;
	pthread_t threads[RELEASERS];
	atomic_store(&h.over, false);
	weir_buf_pool *pool = weir_buf_pool_new(loop, 64, 16);
	for (int i = 0; i < RELEASERS; i++)
		pthread_create(&threads[i], NULL, release_some, &h);
	weir_loop_set_self(loop);
	for (int i = 0; i < HANDED; i++)
		hand_out(&h, weir_buf_pool_take(pool), i);
	weir_buf_pool_close(&pool);
	weir_loop_set_self(NULL);
	atomic_store(&h.over, true);
	for (int i = 0; i < RELEASERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(weir_mem_live(), live);
}

/* ---- the output queue ---- */

typedef struct queue {
	weir_pool blocks;
	weir_output_source source;
	weir_output output;
} queue;

static void queue_init(queue *q, weir_loop *loop)
{
	*q = (queue){0};
	weir_pool_init(&q->blocks, sizeof(weir_output_block));
	q->source = (weir_output_source){.blocks = &q->blocks,
					 .copies = weir_buf_pool_new(loop, WEIR_BUF_WRITE_BYTES, 4)};
}

static void queue_fini(queue *q)
{
	weir_output_clear(&q->output, &q->source);
	assert_int_equal(q->output.bytes, 0);
	assert_null(q->output.head);
	weir_buf_pool_close(&q->source.copies);
	weir_pool_fini(&q->blocks);
}

/* Takes up to most bytes off the queue as a send would, and returns how many it got. */
static size_t drink(queue *q, uint8_t *into, size_t most)
{
	size_t got = 0;
	if (q->output.head == NULL)
		return 0;
	struct msghdr *message = weir_output_message(q->output.head);
	for (size_t i = 0; i < message->msg_iovlen && got < most; i++) {
		size_t part =
			message->msg_iov[i].iov_len < most - got ? message->msg_iov[i].iov_len : most - got;
		memcpy(into + got, message->msg_iov[i].iov_base, part);
		got += part;
	}
	weir_output_sent(&q->output, &q->source, got);
	return got;
}

/* Copies of all sizes and parts of a shared buffer go in, pieces of all sizes come out: the same bytes. */
static void output_keeps_every_byte_in_order(void **state)
{
	weir_loop *loop = loop_of(state);
	queue q;
	queue_init(&q, loop);
	static uint8_t in[400000], out[400000];
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 7 + i / 251);
	weir_buf *shared = weir_buf_new(sizeof(in));
	memcpy(shared->data, in, sizeof(in));
	size_t fed = 0, got = 0;
	for (size_t step = 1; fed < sizeof(in); step++) {
		size_t length = step * 131 % 9001 + 1;
		if (length > sizeof(in) - fed)
			length = sizeof(in) - fed;
		int error = step % 3 == 0 ? weir_output_add(&q.output, &q.source, shared, fed, length)
					  : weir_output_copy(&q.output, &q.source, in + fed, length);
		assert_int_equal(error, 0);
		fed += length;
		assert_int_equal(q.output.bytes, fed - got);
		got += drink(&q, out + got, step * 977 % 7001);
	}
	while (q.output.bytes > 0)
		got += drink(&q, out + got, 5000);
	assert_int_equal(got, fed);
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(shared->refs, 1);
	weir_buf_unref(shared);
	queue_fini(&q);
}

static void small_copies_share_a_buffer(void **state)
{
	weir_loop *loop = loop_of(state);
	queue q;
	queue_init(&q, loop);
	for (int i = 0; i < 100; i++)
		assert_int_equal(weir_output_copy(&q.output, &q.source, "0123456789", 10), 0);
	assert_int_equal(q.output.bytes, 1000);
	assert_int_equal(q.output.head->end, 1);
	queue_fini(&q);
}

/* Each allocation fails in turn: the write is refused and nothing has changed. */
static void output_takes_all_or_nothing(void **state)
{
	weir_loop *loop = loop_of(state);
	static uint8_t data[6000];
	for (uint64_t nth = 1; nth < 4; nth++) {
		queue q;
		queue_init(&q, loop);
		size_t bytes = 0;
		bool refused = false;
		weir_mem_fail_after(nth);
		for (int i = 0; i < 100; i++) {
			size_t length = i % 2 ? 100 : sizeof(data);
			int error = weir_output_copy(&q.output, &q.source, data, length);
			bytes += error == 0 ? length : 0;
			refused |= error != 0;
			assert_int_equal(q.output.bytes, bytes);
		}
		assert_true(refused);
		static uint8_t out[1000000];
		size_t got = 0;
		while (q.output.bytes > 0)
			got += drink(&q, out, sizeof(out));
		assert_int_equal(got, bytes);
		queue_fini(&q);
	}
	weir_mem_fail_after(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_lives_until_the_last_reference_goes),
		cmocka_unit_test(says_when_there_is_no_memory),
		ON_BOTH(a_pool_gives_the_same_buffer_again),
		ON_BOTH(a_pool_keeps_a_bounded_number),
		ON_BOTH(a_pool_gives_back_half_of_what_it_keeps),
		ON_BOTH(a_buffer_outlives_its_pool),
		ON_BOTH(a_pool_says_when_there_is_no_memory),
		ON_BOTH(other_threads_may_let_go),
		ON_BOTH(output_keeps_every_byte_in_order),
		ON_BOTH(small_copies_share_a_buffer),
		ON_BOTH(output_takes_all_or_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
