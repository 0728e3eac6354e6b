/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session is a connection and its talk. At any time it is with one of two: the connection's reactor thread,
 * or a thread of the pool, which has it from an offer until the post. Meanwhile the connection is paused.
 *
 *	reactor: open, data, posted, closed     pool: handle, drop
 *
 * A session whose connection closes while the pool has it is freed when it comes back. All sessions are in a
 * list, for those that cannot come back because the world has stopped.
 */
#include "lmtp.h"
#include "deliver.h"
#include "mail/lmtp_talk.h"
#include "mail/spool.h"
#include "store_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weir/loop.h>
#include <weir/stage.h>

#define CONNECTIONS_MAX 64u
#define THREADS         2u
#define IDLE_NS         (300 * WEIR_NS_PER_S)
#define TRANSACTION_NS  (1800 * WEIR_NS_PER_S)
#define RETIRE_NS       (30 * WEIR_NS_PER_S)

_Static_assert(LMTP_RECIPIENTS_MAX == STORE_RECIPIENTS_MAX, "what is taken can be stored");

typedef struct lmtp_session {
	weir_event event; /* for the pool */
	lmtp_talk talk;
	lmtp *server;
	weir_conn *conn; /* NULL: it is closed */
	weir_loop *loop;
	weir_post post;
	weir_timer timer; /* of the transaction */
	bool working;     /* the pool has it */
	lmtp_step step;   /* what the pool does */
	int spool_fd;     /* -1: the message is in memory */
	int error;        /* what the pool found */
	uint32_t user;
	int results[LMTP_RECIPIENTS_MAX];
	struct lmtp_session *next, **link; /* under the server's lock */
} lmtp_session;

struct lmtp {
	char *store_url, *spool, *host;
	uint64_t bytes_max, transaction_ns;
	weir_domain *pool;
	weir_stage *stage;
	weir_listener *listener;
	lmtp_stats stats; /* atomic */
	pthread_mutex_t lock;
	lmtp_session *sessions;
};

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- on the pool ---- */

static int put_aside(lmtp_session *s)
{
	if (s->spool_fd < 0)
		s->spool_fd = spool_open(s->server->spool);
	return s->spool_fd < 0 ? s->spool_fd : spool_write(s->spool_fd, s->talk.data, s->talk.data_bytes);
}

/* Each user once; returns how many. */
static unsigned places_of(const lmtp_talk *talk, store_place *places)
{
	unsigned places_count = 0;
	for (unsigned i = 0; i < talk->recipients; i++) {
		unsigned at = 0;
		while (at < places_count && places[at].user != talk->users[i])
			at++;
		if (at == places_count)
			places[places_count++] = (store_place){.user = talk->users[i]};
	}
	return places_count;
}

/* All at once; if that fails because of one user, one by one, so that the others get theirs. */
static void store_for_all(store *db, lmtp_session *s, const mail_source *source)
{
	store_place places[LMTP_RECIPIENTS_MAX];
	int errors[LMTP_RECIPIENTS_MAX];
	unsigned places_count = places_of(&s->talk, places);
	deliver_mail deliver;
	int error = deliver_prepare(&deliver, source, (int64_t)time(NULL));
	int all = error == 0 ? store_deliver(db, &deliver.mail, places, places_count) : error;
	for (unsigned i = 0; i < places_count; i++)
		errors[i] =
			error == 0 && all == -ENOENT ? store_deliver(db, &deliver.mail, &places[i], 1) : all;
	if (error == 0)
		deliver_release(&deliver);
	for (unsigned i = 0; i < s->talk.recipients; i++)
		for (unsigned at = 0; at < places_count; at++)
			if (places[at].user == s->talk.users[i])
				s->results[i] = errors[at];
}

static void deliver(store *db, lmtp_session *s)
{
	mail_source source = mail_from_memory(s->talk.data, s->talk.data_bytes);
	int error = db == NULL ? -EIO : 0;
	if (s->spool_fd >= 0) {
		if (error == 0)
			error = put_aside(s) == 0 ? 0 : -EIO;
		source = mail_from_fd(s->spool_fd, s->talk.message_bytes);
	}
	for (unsigned i = 0; i < s->talk.recipients; i++)
		s->results[i] = error;
	if (error == 0)
		store_for_all(db, s, &source);
}

static void work(lmtp_session *s)
{
	store *db = store_of_thread();
	weir_span address = {s->talk.address, strlen(s->talk.address)};
	switch (s->step) {
	case LMTP_FIND:
		s->error = db == NULL ? -EIO : store_user_of_address(db, address, &s->user);
		break;
	case LMTP_SPOOL:
		s->error = put_aside(s);
		break;
	default:
		deliver(db, s);
	}
}

static void handle(weir_stage *stage, weir_event **events, size_t event_count, void *arg)
{
	for (size_t i = 0; i < event_count; i++) {
		lmtp_session *s = (lmtp_session *)events[i];
		weir_loop *loop = s->loop;
		work(s);
		weir_done(&s->event);
		weir_loop_post(loop, &s->post);
	}
}

/* The world stops. If the loop still runs, the peer is told to try again. */
static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	lmtp_session *s = (lmtp_session *)event;
	s->error = -ECANCELED;
	for (unsigned i = 0; i < s->talk.recipients; i++)
		s->results[i] = -ECANCELED;
	weir_loop_post(s->loop, &s->post);
}

/* ---- on the reactor ---- */

static void session_free(lmtp_session *s)
{
	pthread_mutex_lock(&s->server->lock);
	*s->link = s->next;
	if (s->next != NULL)
		s->next->link = s->link;
	pthread_mutex_unlock(&s->server->lock);
	__atomic_fetch_sub(&s->server->stats.connections, 1, __ATOMIC_RELAXED);
	weir_timer_stop(&s->timer);
	if (s->spool_fd >= 0)
		close(s->spool_fd);
	lmtp_talk_end(&s->talk);
	free(s);
}

static void say(void *arg, const char *text, size_t length)
{
	lmtp_session *s = arg;
	if (s->conn != NULL && weir_conn_write(s->conn, text, length) != 0)
		weir_conn_abort(s->conn, -ENOBUFS); /* it does not read its answers */
}

static void expire(weir_timer *timer, void *arg)
{
	lmtp_session *s = arg;
	say(s, "421 4.4.2 this takes too long\r\n", strlen("421 4.4.2 this takes too long\r\n"));
	if (s->conn != NULL)
		weir_conn_close(s->conn);
}

static void close_spool(lmtp_session *s)
{
	if (s->spool_fd >= 0)
		close(s->spool_fd);
	s->spool_fd = -1;
}

static void watch_transaction(lmtp_session *s)
{
	if (!s->talk.in_transaction)
		weir_timer_stop(&s->timer);
	else if (!weir_timer_pending(&s->timer))
		weir_timer_start(s->loop, &s->timer, weir_loop_now(s->loop) + s->server->transaction_ns);
}

static void finish(lmtp_session *s);

/* Goes on with the talk until it waits for the peer or for the pool. */
static void go_on(lmtp_session *s)
{
	while (s->conn != NULL) {
		s->step = lmtp_talk_step(&s->talk);
		if (!s->talk.in_data && s->step == LMTP_WAIT)
			close_spool(s); /* of a message that was too long, or was reset */
		watch_transaction(s);
		if (s->step == LMTP_WAIT)
			break;
		if (s->step == LMTP_QUIT) {
			weir_conn_close(s->conn);
			return;
		}
		weir_event_init(&s->event, 0);
		s->working = true;
		weir_conn_pause(s->conn);
		if (weir_offer(s->server->stage, &s->event) == WEIR_ADMITTED)
			return;
		s->working = false;
		s->error = -EBUSY;
		for (unsigned i = 0; i < s->talk.recipients; i++)
			s->results[i] = -EBUSY;
		finish(s);
	}
	if (s->conn != NULL)
		weir_conn_resume(s->conn);
}

static void count_result(lmtp_stats *stats, int error)
{
	if (error == 0)
		count(&stats->delivered);
	else if (error == -ENOENT || error == -E2BIG)
		count(&stats->refused);
	else
		count(&stats->failed);
}

/* The pool's work is over; its answers go out. */
static void finish(lmtp_session *s)
{
	lmtp_stats *stats = &s->server->stats;
	if (s->step == LMTP_FIND) {
		if (s->error != 0)
			count_result(stats, s->error);
		lmtp_talk_found(&s->talk, s->error, s->user);
	} else if (s->step == LMTP_SPOOL) {
		lmtp_talk_spooled(&s->talk, s->error);
	} else {
		for (unsigned i = 0; i < s->talk.recipients; i++)
			count_result(stats, s->results[i]);
		close_spool(s);
		lmtp_talk_delivered(&s->talk, s->results);
	}
}

static void posted(weir_post *post, void *arg)
{
	lmtp_session *s = arg;
	s->working = false;
	if (s->conn == NULL) {
		session_free(s);
		return;
	}
	finish(s);
	go_on(s);
}

static int opened(weir_conn *conn, void *arg)
{
	lmtp *l = arg;
	lmtp_session *s = calloc(1, sizeof(*s));
	weir_conn_set_user(conn, s);
	if (s == NULL)
		return -ENOMEM;
	s->server = l;
	s->conn = conn;
	s->loop = weir_conn_loop(conn);
	s->spool_fd = -1;
	s->post = (weir_post){.run = posted, .arg = s};
	weir_timer_init(&s->timer, expire, s);
	__atomic_fetch_add(&l->stats.connections, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&l->lock);
	s->next = l->sessions;
	s->link = &l->sessions;
	if (s->next != NULL)
		s->next->link = &s->next;
	l->sessions = s;
	pthread_mutex_unlock(&l->lock);
	s->talk = (lmtp_talk){.host = l->host, .bytes_max = l->bytes_max, .say = say, .arg = s};
	return lmtp_talk_begin(&s->talk);
}

static void arrived(weir_conn *conn, weir_buf *buf)
{
	lmtp_session *s = weir_conn_user(conn);
	if (lmtp_talk_feed(&s->talk, buf->data, buf->length) != 0)
		weir_conn_abort(conn, -ENOBUFS);
	else if (!s->working)
		go_on(s);
}

static void closed(weir_conn *conn, int why)
{
	lmtp_session *s = weir_conn_user(conn);
	if (s == NULL)
		return;
	s->conn = NULL;
	weir_timer_stop(&s->timer);
	if (!s->working)
		session_free(s);
}

/* ---- the server ---- */

static const weir_conn_ops operations = {.open = opened, .data = arrived, .closed = closed};

static int make_pool(lmtp *l, const lmtp_options *options)
{
	uint32_t connections = options->connections_max != 0 ? options->connections_max : CONNECTIONS_MAX;
	int error =
		store_pool_new(weir_domain_world(options->reactor), "lmtp",
			       options->threads != 0 ? options->threads : THREADS, l->store_url, &l->pool);
	if (error != 0)
		return error;
	/* A session offers one event at a time, so there is always room. */
	weir_stage_options stage = {
		.name = "lmtp", .handle = handle, .drop = drop, .arg = l, .capacity = connections};
	error = weir_stage_new(l->pool, &stage, &l->stage);
	if (error != 0)
		return error;
	weir_listen_options listen = {.address = options->address,
				      .address_length = options->address_length,
				      .max_connections = connections,
				      .ops = &operations,
				      .arg = l};
	listen.limits.idle_ns = options->idle_ns != 0 ? options->idle_ns : IDLE_NS;
	return weir_listen(options->reactor, &listen, &l->listener);
}

int lmtp_new(const lmtp_options *options, lmtp **ret_lmtp)
{
	lmtp *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	pthread_mutex_init(&l->lock, NULL);
	l->store_url = strdup(options->store_url);
	l->spool = strdup(options->spool);
	l->host = strdup(options->host);
	l->bytes_max = options->bytes_max > 0 && options->bytes_max < MAIL_SENT_BYTES_MAX
			       ? options->bytes_max
			       : MAIL_SENT_BYTES_MAX;
	l->transaction_ns = options->transaction_ns != 0 ? options->transaction_ns : TRANSACTION_NS;
	bool memory = l->store_url != NULL && l->spool != NULL && l->host != NULL;
	int error = memory ? make_pool(l, options) : weir_error_set(-ENOMEM, "out of memory");
	if (error != 0) {
		lmtp_free(&l);
		return error;
	}
	*ret_lmtp = l;
	return 0;
}

int lmtp_address(const lmtp *l, char *ret_text, size_t size)
{
	return weir_listener_address(l->listener, ret_text, size, NULL);
}

void lmtp_read_stats(const lmtp *l, lmtp_stats *ret_stats)
{
	ret_stats->delivered = __atomic_load_n(&l->stats.delivered, __ATOMIC_RELAXED);
	ret_stats->refused = __atomic_load_n(&l->stats.refused, __ATOMIC_RELAXED);
	ret_stats->failed = __atomic_load_n(&l->stats.failed, __ATOMIC_RELAXED);
	ret_stats->connections = __atomic_load_n(&l->stats.connections, __ATOMIC_RELAXED);
}

static lmtp_session *any_session(lmtp *l)
{
	pthread_mutex_lock(&l->lock);
	lmtp_session *s = l->sessions;
	pthread_mutex_unlock(&l->lock);
	return s;
}

/* Sessions of a running world come back by themselves; those of one that has stopped are nobody's any more. */
static void free_sessions(lmtp *l, bool stopped)
{
	for (lmtp_session *s; (s = any_session(l)) != NULL;) {
		if (stopped)
			session_free(s);
		else
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

void lmtp_free(lmtp **l)
{
	lmtp *server = *l;
	if (server == NULL)
		return;
	if (server->listener != NULL)
		weir_listener_free(&server->listener);
	int result = weir_stage_retire(&server->stage, RETIRE_NS, NULL);
	free_sessions(server, result == -ESHUTDOWN);
	(void)weir_domain_retire(&server->pool, RETIRE_NS);
	pthread_mutex_destroy(&server->lock);
	free(server->store_url);
	free(server->spool);
	free(server->host);
	free(server);
	*l = NULL;
}
