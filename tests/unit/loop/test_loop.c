/* SPDX-License-Identifier: Apache-2.0 */
#include "support/on_loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop.h"

/* ---- choosing ---- */

static void names_its_backend(void **state)
{
	weir_loop *loop = loop_of(state);
	assert_string_equal(weir_loop_backend(loop), getenv("WEIR_LOOP"));
}

static void refuses_an_unknown_backend(void **state)
{
	weir_loop *loop = NULL;
	setenv("WEIR_LOOP", "kqueue", 1);
	assert_int_equal(weir_loop_new(&loop), -EINVAL);
	assert_null(loop);
	assert_non_null(strstr(weir_error(), "kqueue"));
	assert_non_null(strstr(weir_error(), "epoll"));
	assert_non_null(strstr(weir_error(), "uring"));
}

static void finds_a_backend_by_itself(void **state)
{
	weir_loop *loop = NULL;
	unsetenv("WEIR_LOOP");
	assert_int_equal(weir_loop_new(&loop), 0);
	assert_int_equal(weir_loop_turn(loop, 0), 0);
	weir_loop_free(&loop);
	assert_null(loop);
}

/* Each descriptor it needs missing in turn: an error that says so, and nothing left behind. */
static void reports_missing_descriptors(void **state)
{
	static const char *const backends[] = {"epoll", "uring"};
	struct rlimit before, none;
	getrlimit(RLIMIT_NOFILE, &before);
	for (size_t i = 0; i < 2; i++) {
		setenv("WEIR_LOOP", backends[i], 1);
		uint64_t live = weir_mem_live();
		int lowest = dup(0);
		close(lowest);
		none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
		weir_loop *loop = NULL;
		setrlimit(RLIMIT_NOFILE, &none);
		assert_true(weir_loop_new(&loop) < 0);
		none.rlim_cur++; /* enough for the eventfd, not for the back end */
		setrlimit(RLIMIT_NOFILE, &none);
		assert_true(weir_loop_new(&loop) < 0);
		setrlimit(RLIMIT_NOFILE, &before);
		assert_null(loop);
		assert_true(strlen(weir_error()) > 0);
		assert_int_equal(weir_mem_live(), live);
	}
}

static void survives_failed_allocations(void **state)
{
	weir_loop *loop = NULL;
	weir_mem_fail_after(1);
	assert_int_equal(weir_loop_new(&loop), -ENOMEM);
	assert_null(loop);
}

/* ---- time ---- */

typedef struct seen {
	weir_timer timer;
	weir_loop *loop;
	uint64_t fired_at;
	int *order, number;
} seen;

static void note_timer(weir_timer *timer, void *arg)
{
	seen *s = arg;
	s->fired_at = weir_loop_now(s->loop);
	s->number = (*s->order)++;
	assert_ptr_equal(weir_loop_self(), s->loop);
}

static void fires_timers_in_order_and_never_early(void **state)
{
	weir_loop *loop = loop_of(state);
	enum { COUNT = 50 };
	static seen timers[COUNT];
	int order = 0;
	uint64_t start = weir_clock_ns();
	for (int i = 0; i < COUNT; i++) {
		/* Longest first; far enough apart to be in slots of their own. */
		uint64_t at = start + (uint64_t)(COUNT - i) * 300 * WEIR_NS_PER_US;
		timers[i] = (seen){.loop = loop, .order = &order};
		weir_timer_init(&timers[i].timer, note_timer, &timers[i]);
		assert_int_equal(weir_timer_start(loop, &timers[i].timer, at), 0);
		assert_true(weir_timer_pending(&timers[i].timer));
	}
	turn_until(loop, order == COUNT);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(timers[i].number, COUNT - 1 - i);
		assert_true(timers[i].fired_at >= timers[i].timer.at_ns);
		assert_false(weir_timer_pending(&timers[i].timer));
	}
	assert_null(weir_loop_self());
}

static void does_not_fire_a_stopped_timer(void **state)
{
	weir_loop *loop = loop_of(state);
	int order = 0;
	seen stopped = {.loop = loop, .order = &order, .number = -1}, other = {.loop = loop, .order = &order};
	weir_timer_init(&stopped.timer, note_timer, &stopped);
	weir_timer_init(&other.timer, note_timer, &other);
	weir_timer_start(loop, &stopped.timer, weir_loop_now(loop) + WEIR_NS_PER_MS);
	weir_timer_start(loop, &other.timer, weir_loop_now(loop) + 3 * WEIR_NS_PER_MS);
	weir_timer_stop(&stopped.timer);
	turn_until(loop, order == 1);
	assert_int_equal(stopped.number, -1);
	assert_false(weir_timer_pending(&stopped.timer) || weir_timer_pending(&other.timer));
}

static void wakes_for_a_timer_without_spinning(void **state)
{
	weir_loop *loop = loop_of(state);
	int order = 0;
	seen one = {.loop = loop, .order = &order};
	weir_timer_init(&one.timer, note_timer, &one);
	weir_timer_start(loop, &one.timer, weir_clock_ns() + 20 * WEIR_NS_PER_MS);
	uint64_t turns = weir_loop_turns(loop);
	while (order == 0)
		assert_int_equal(weir_loop_turn(loop, UINT64_MAX), 0);
	/* A few for the wheel's levels; a loop that polls would need thousands. */
	assert_true(weir_loop_turns(loop) - turns < 20);
}

/* ---- posts and wakes ---- */

enum { POSTERS = 4, POSTS = 2000 };

typedef struct numbered {
	weir_post post;
	int thread, number;
} numbered;

typedef struct posting {
	weir_loop *loop;
	int thread;
	numbered *posts;
	int *expected; /* per thread; the loop's */
	int *arrived;
} posting;

static posting postings[POSTERS];

static void arrive(weir_post *post, void *arg)
{
	posting *p = arg;
	numbered *n = (numbered *)(void *)post;
	assert_int_equal(n->number, *p->expected);
	(*p->expected)++;
	(*p->arrived)++;
}

static void *post_many(void *arg)
{
	posting *p = arg;
	for (int i = 0; i < POSTS; i++) {
		p->posts[i] = (numbered){.post = {.run = arrive, .arg = p}, .number = i};
		weir_loop_post(p->loop, &p->posts[i].post);
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void delivers_posts_of_many_threads_in_order(void **state)
{
	weir_loop *loop = loop_of(state);
	int expected[POSTERS] = {0}, arrived = 0;
	pthread_t threads[POSTERS];
	for (int i = 0; i < POSTERS; i++) {
		postings[i] = (posting){.loop = loop,
					.posts = calloc(POSTS, sizeof(numbered)),
					.expected = &expected[i],
					.arrived = &arrived};
		pthread_create(&threads[i], NULL, post_many, &postings[i]);
	}
	/* Without end: only a post may wake it. */
	while (arrived < POSTERS * POSTS)
		assert_int_equal(weir_loop_turn(loop, UINT64_MAX), 0);
	for (int i = 0; i < POSTERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(expected[i], POSTS);
		free(postings[i].posts);
	}
}

static void post_again(weir_post *post, void *arg)
{
	int *left = arg;
	if (--*left > 0)
		weir_loop_post(weir_loop_self(), post);
}

static void runs_a_post_made_by_a_post_in_the_next_turn(void **state)
{
	weir_loop *loop = loop_of(state);
	int left = 3;
	weir_post post = {.run = post_again, .arg = &left};
	weir_loop_post(loop, &post);
	for (int expected = 2; expected >= 0; expected--) {
		/* It must not sleep either while one waits. */
		assert_int_equal(weir_loop_turn(loop, UINT64_MAX), 0);
		assert_int_equal(left, expected);
	}
}

static void note_order(weir_post *post, void *arg)
{
	char **at = arg;
	*(*at)++ = (char)('a' + (int)(post - (weir_post *)(void *)(at + 1)));
}

/* What is left runs in the order it was posted in. */
static void takes_a_post_back(void **state)
{
	weir_loop *loop = loop_of(state);
	char text[8] = "";
	struct {
		char *at;
		weir_post posts[3];
	} all = {.at = text};
	for (int i = 0; i < 3; i++)
		all.posts[i] = (weir_post){.run = note_order, .arg = &all};
	assert_false(weir_loop_unpost(loop, &all.posts[1]));
	for (int i = 0; i < 3; i++)
		weir_loop_post(loop, &all.posts[i]);
	assert_true(weir_loop_unpost(loop, &all.posts[1]));
	assert_false(weir_loop_unpost(loop, &all.posts[1]));
	weir_loop_turn(loop, 0);
	assert_string_equal(text, "ac");
}

static void a_wake_ends_the_next_wait(void **state)
{
	weir_loop *loop = loop_of(state);
	for (int i = 0; i < 3; i++) {
		weir_loop_wake(loop);
		weir_loop_wake(loop);
		assert_int_equal(weir_loop_turn(loop, UINT64_MAX), 0);
	}
}

typedef struct waker {
	weir_loop *loop;
	atomic_int asked, seen; /* a ping-pong: one wake for each turn the loop took notice */
} waker;

static void *wake_many(void *arg)
{
	waker *w = arg;
	for (int i = 1; i <= 500; i++) {
		atomic_store(&w->asked, i);
		weir_loop_wake(w->loop);
		while (atomic_load(&w->seen) < i)
			sched_yield();
	}
	return NULL;
}

static void a_wake_ends_a_sleep(void **state)
{
	waker w = {.loop = loop_of(state)};
	pthread_t thread;
	pthread_create(&thread, NULL, wake_many, &w);
	/* Each wait is endless: a lost wake would hang here. */
	while (atomic_load(&w.seen) < 500) {
		assert_int_equal(weir_loop_turn(w.loop, UINT64_MAX), 0);
		atomic_store(&w.seen, atomic_load(&w.asked));
	}
	pthread_join(thread, NULL);
}

static void an_idle_loop_sleeps(void **state)
{
	weir_loop *loop = loop_of(state);
	turn_some(loop);
	uint64_t turns = weir_loop_turns(loop), until = weir_clock_ns() + 30 * WEIR_NS_PER_MS;
	while (weir_clock_ns() < until)
		assert_int_equal(weir_loop_turn(loop, 15 * WEIR_NS_PER_MS), 0);
	/* Two, and a few that the kernel interrupts while it takes down the ring of an earlier test; spinning would be thousands. */
	assert_true(weir_loop_turns(loop) - turns <= 50);
}

/* ---- deferred work ---- */

typedef struct put_off {
	weir_deferred deferred;
	weir_loop *loop;
	int left;
} put_off;

static void run_put_off(weir_deferred *deferred)
{
	put_off *p = (put_off *)(void *)deferred;
	if (--p->left > 0)
		weir_loop_defer(p->loop, deferred);
}

static void does_not_sleep_on_deferred_work(void **state)
{
	weir_loop *loop = loop_of(state);
	put_off p = {.deferred.run = run_put_off, .loop = loop, .left = 5};
	weir_loop_defer(loop, &p.deferred);
	for (int i = 0; i < 5 && p.left > 1; i++)
		assert_int_equal(weir_loop_turn(loop, UINT64_MAX), 0);
	turn_until(loop, p.left == 0);
}

/* What was put off between two turns may have made work for a stage: the turn that runs it must not wait. */
static void returns_after_work_deferred_between_turns(void **state)
{
	weir_loop *loop = loop_of(state);
	put_off p = {.deferred.run = run_put_off, .loop = loop, .left = 1};
	weir_loop_defer(loop, &p.deferred);
	/* It would wait for ever: then the signal ends the test. */
	alarm(60);
	assert_int_equal(weir_loop_turn(loop, UINT64_MAX), 0);
	alarm(0);
	assert_int_equal(p.left, 0);
}

/* ---- watches ---- */

typedef struct watched {
	weir_watch watch;
	weir_loop *loop;
	int calls;
	uint32_t ready;
	bool stop;
} watched;

static void note_ready(weir_watch *watch, uint32_t ready, void *arg)
{
	watched *w = arg;
	w->calls++;
	w->ready |= ready;
	if (w->stop)
		weir_watch_stop(w->loop, watch);
}

static void watches_until_stopped(void **state)
{
	weir_loop *loop = loop_of(state);
	watched w = {.loop = loop};
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(weir_watch_start(loop, &w.watch, ends[0], WEIR_READABLE, note_ready, &w), 0);
	turn_some(loop);
	assert_int_equal(w.calls, 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	/* Level-triggered: unread bytes are reported again. */
	turn_until(loop, w.calls >= 3);
	assert_int_equal(w.ready, WEIR_READABLE);
	w.stop = true;
	turn_until(loop, w.watch.backend == NULL);
	int calls = w.calls;
	turn_some(loop);
	assert_int_equal(w.calls, calls);
	weir_watch_stop(loop, &w.watch);
	close(ends[0]);
	close(ends[1]);
}

static void a_watch_sees_the_hangup(void **state)
{
	weir_loop *loop = loop_of(state);
	watched w = {.loop = loop, .stop = true};
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(weir_watch_start(loop, &w.watch, ends[0], WEIR_READABLE, note_ready, &w), 0);
	close(ends[1]);
	turn_until(loop, w.calls == 1);
	assert_int_equal(w.ready, WEIR_READABLE | WEIR_HANGUP);
	close(ends[0]);
}

static void a_watch_sees_room_to_write(void **state)
{
	weir_loop *loop = loop_of(state);
	watched w = {.loop = loop, .stop = true};
	int ends[2];
	char full[4096] = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	while (write(ends[0], full, sizeof(full)) > 0)
		;
	assert_int_equal(weir_watch_start(loop, &w.watch, ends[0], WEIR_WRITABLE, note_ready, &w), 0);
	turn_some(loop);
	assert_int_equal(w.calls, 0);
	while (read(ends[1], full, sizeof(full)) > 0)
		;
	turn_until(loop, w.calls == 1);
	assert_int_equal(w.ready, WEIR_WRITABLE);
	close(ends[0]);
	close(ends[1]);
}

typedef struct rival {
	watched self;
	struct rival *other;
} rival;

static rival *survivor;

static void stop_the_other(weir_watch *watch, uint32_t ready, void *arg)
{
	rival *r = arg;
	r->self.calls++;
	weir_watch_stop(r->self.loop, watch);
	weir_watch_stop(r->self.loop, &r->other->self.watch);
	/* The other's memory may go at once. */
	free(r->other);
	survivor = r;
}

static void a_watch_may_stop_another_that_is_ready_too(void **state)
{
	weir_loop *loop = loop_of(state);
	rival *r[2];
	int ends[2], more[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(more), 0);
	for (int i = 0; i < 2; i++)
		r[i] = calloc(1, sizeof(**r));
	for (int i = 0; i < 2; i++) {
		r[i]->self.loop = loop;
		r[i]->other = r[1 - i];
		weir_watch_start(loop, &r[i]->self.watch, i ? ends[0] : more[0], WEIR_READABLE,
				 stop_the_other, r[i]);
	}
	turn_some(loop);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(write(more[1], "x", 1), 1);
	/* One of the two frees the other; which one is not said. */
	survivor = NULL;
	turn_until(loop, survivor != NULL);
	turn_some(loop);
	assert_int_equal(survivor->self.calls, 1);
	free(survivor);
	for (int i = 0; i < 2; i++) {
		close(i ? ends[0] : more[0]);
		close(i ? ends[1] : more[1]);
	}
}

static void refuses_to_watch_what_is_not_open(void **state)
{
	weir_loop *loop = loop_of(state);
	watched w = {.loop = loop};
	int fd = dup(0);
	close(fd);
	assert_int_equal(weir_watch_start(loop, &w.watch, fd, WEIR_READABLE, note_ready, &w), -EBADF);
	assert_true(strlen(weir_error()) > 0);
	weir_mem_fail_after(1);
	assert_int_equal(weir_watch_start(loop, &w.watch, 0, WEIR_READABLE, note_ready, &w), -ENOMEM);
	weir_mem_fail_after(0);
}

/* ---- signals ---- */

static void note_signal(weir_signal *signal, int signo, void *arg)
{
	int *heard = arg;
	assert_int_equal(signo, SIGUSR1);
	(*heard)++;
}

static void hears_signals(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_signal signal;
	int heard = 0;
	assert_int_equal(weir_signal_start(loop, &signal, SIGUSR1, note_signal, &heard), 0);
	turn_some(loop);
	assert_int_equal(heard, 0);
	for (int i = 1; i <= 3; i++) {
		kill(getpid(), SIGUSR1);
		turn_until(loop, heard == i);
	}
	weir_signal_stop(loop, &signal);
	weir_signal_stop(loop, &signal);
	turn_some(loop);
	assert_int_equal(heard, 3);
}

static void refuses_signals_that_do_not_exist(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_signal signal;
	assert_int_equal(weir_signal_start(loop, &signal, 1000, note_signal, NULL), -EINVAL);
	assert_int_equal(weir_signal_block(1000), -EINVAL);
	assert_non_null(strstr(weir_error(), "1000"));
}

/* ---- threads ---- */

static void *turn_elsewhere(void *arg)
{
	weir_loop *loop = arg;
	weir_loop_set_self(loop);
	for (int i = 0; i < 3; i++)
		if (weir_loop_turn(loop, 0) != 0)
			return NULL;
	return weir_loop_self();
}

static void may_be_made_on_another_thread_than_it_runs(void **state)
{
	weir_loop *loop = loop_of(state);
	watched w = {.loop = loop};
	int ends[2];
	void *turned;
	pthread_t thread;
	assert_int_equal(pipe(ends), 0);
	weir_watch_start(loop, &w.watch, ends[0], WEIR_READABLE, note_ready, &w);
	assert_int_equal(write(ends[1], "x", 1), 1);
	pthread_create(&thread, NULL, turn_elsewhere, loop);
	pthread_join(thread, &turned);
	assert_ptr_equal(turned, loop);
	assert_true(w.calls > 0);
	weir_watch_stop(loop, &w.watch);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_an_unknown_backend),
		cmocka_unit_test(finds_a_backend_by_itself),
		cmocka_unit_test(reports_missing_descriptors),
		cmocka_unit_test(survives_failed_allocations),
		ON_BOTH(names_its_backend),
		ON_BOTH(fires_timers_in_order_and_never_early),
		ON_BOTH(does_not_fire_a_stopped_timer),
		ON_BOTH(wakes_for_a_timer_without_spinning),
		ON_BOTH(delivers_posts_of_many_threads_in_order),
		ON_BOTH(runs_a_post_made_by_a_post_in_the_next_turn),
		ON_BOTH(takes_a_post_back),
		ON_BOTH(a_wake_ends_the_next_wait),
		ON_BOTH(a_wake_ends_a_sleep),
		ON_BOTH(an_idle_loop_sleeps),
		ON_BOTH(does_not_sleep_on_deferred_work),
		ON_BOTH(returns_after_work_deferred_between_turns),
		ON_BOTH(watches_until_stopped),
		ON_BOTH(a_watch_sees_the_hangup),
		ON_BOTH(a_watch_sees_room_to_write),
		ON_BOTH(a_watch_may_stop_another_that_is_ready_too),
		ON_BOTH(refuses_to_watch_what_is_not_open),
		ON_BOTH(hears_signals),
		ON_BOTH(refuses_signals_that_do_not_exist),
		ON_BOTH(may_be_made_on_another_thread_than_it_runs),
	};
	weir_signal_block(SIGUSR1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
