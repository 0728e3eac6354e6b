/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One mail is tried in one SMTP transaction with all of its recipients. The library tells what goes over the wire,
 * and from that each recipient gets the answer that the server gave.
 *
 * Order of writes: first the message about a failure, then the queue. After a crash in between, the queue still
 * has the mail, and the message about it is known by its delivery id.
 */
#include "submit.h"
#include "submit_try.h"

#include <curl/curl.h>
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVERY_NS  WEIR_NS_PER_S
#define RETIRE_NS (30 * WEIR_NS_PER_S)
#define ROUND_MAX 100 /* mails of one round, so that an end need not wait for more */

struct submit {
	char *store_url;
	submit_options options; /* with texts of its own */
	weir_domain *pool;
	weir_stage *stage;
	submit_stats stats; /* written by the pool's thread, read by any: atomic */
	int stopping;       /* atomic */
};

int64_t submit_next_s(unsigned tries, int64_t now_s)
{
	int64_t delay = SUBMIT_RETRY_FIRST_S;
	for (unsigned i = 1; i < tries && delay < SUBMIT_RETRY_MAX_S; i++)
		delay *= 2;
	return now_s + (delay < SUBMIT_RETRY_MAX_S ? delay : SUBMIT_RETRY_MAX_S);
}

static void add_one(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- one mail ---- */

/* The store's texts are only there during its call. */
static void take(const store_outgoing *outgoing, void *arg)
{
	submit_mail *mail = arg;
	mail->id = outgoing->id;
	mail->user = outgoing->user;
	mail->tries = outgoing->tries;
	mail->created_s = outgoing->created_s;
	mail->body = outgoing->body;
	mail->sender = g_strndup(outgoing->sender.at, outgoing->sender.length);
	char *lines = g_strndup(outgoing->recipients.at, outgoing->recipients.length);
	mail->recipients = g_strsplit(lines, "\n", -1);
	mail->count = g_strv_length(mail->recipients);
	mail->codes = g_new0(int, mail->count + 1);
	mail->answers = g_new0(char *, mail->count + 1);
	g_free(lines);
}

static void mail_fini(submit_mail *mail)
{
	for (unsigned i = 0; i < mail->count; i++)
		g_free(mail->answers[i]);
	g_free(mail->answers);
	g_free(mail->codes);
	g_strfreev(mail->recipients);
	g_free(mail->sender);
}

static bool is_sent(const submit_mail *mail, unsigned i)
{
	return mail->codes[i] >= 200 && mail->codes[i] < 300;
}

/* For good: the server says so, or it has been tried for long enough. */
static bool is_given_up(const submit_mail *mail, unsigned i, int64_t now_s)
{
	return !is_sent(mail, i) && (mail->codes[i] >= 500 || now_s - mail->created_s >= SUBMIT_GIVE_UP_S);
}

static int settle(store *s, const submit_options *options, submit_mail *mail, int64_t now_s,
		  submit_stats *stats)
{
	GString *left = g_string_new(NULL);
	const char *why = "";
	unsigned sent = 0, given_up = 0;
	for (unsigned i = 0; i < mail->count; i++) {
		if (is_sent(mail, i)) {
			sent++;
		} else if (is_given_up(mail, i, now_s)) {
			mail->codes[i] = mail->codes[i] >= 500 ? mail->codes[i] : 500;
			given_up++;
		} else {
			g_string_append_printf(left, "%s%s", left->len > 0 ? "\n" : "", mail->recipients[i]);
			why = mail->answers[i] != NULL ? mail->answers[i] : "";
		}
	}
	if (sent > 0)
		add_one(&stats->sent);
	int error = given_up > 0 ? submit_bounce(s, options, mail, now_s) : 0;
	if (error == 0 && given_up > 0)
		add_one(&stats->bounced);
	weir_span recipients = {left->str, left->len}, reason = {why, strlen(why)};
	if (error == 0 && left->len == 0) {
		error = store_outgoing_done(s, mail->id);
	} else if (error == 0) {
		add_one(&stats->retries);
		error = store_outgoing_retry(s, mail->id, recipients, reason,
					     submit_next_s(mail->tries, now_s));
	}
	g_string_free(left, TRUE);
	return error;
}

static int round_of(store *s, const submit_options *options, int64_t now_s, submit_stats *stats,
		    const int *stopping)
{
	int tried = 0;
	while (tried < ROUND_MAX && !(stopping != NULL && __atomic_load_n(stopping, __ATOMIC_RELAXED))) {
		submit_mail mail = {0};
		int found = store_outgoing_next(s, now_s, 2 * SUBMIT_TRY_S, take, &mail);
		if (found <= 0)
			return found < 0 ? found : tried;
		int error = submit_try(s, options, &mail, stopping);
		if (error == 0)
			error = settle(s, options, &mail, now_s, stats);
		mail_fini(&mail);
		if (error != 0)
			return error == -ECANCELED ? tried : error;
		tried++;
	}
	return tried;
}

int submit_round(store *s, const submit_options *options, int64_t now_s, submit_stats *stats)
{
	return round_of(s, options, now_s, stats, NULL);
}

/* ---- in a world ---- */

static void *worker_start(void *arg)
{
	store *s = NULL;
	(void)store_open(((submit *)arg)->store_url, &s);
	return s;
}

static void worker_end(void *arg, void *state)
{
	store_close(state);
}

/* Without a database it has nothing to do; the thread has one as soon as it can be opened. */
static void run(void *arg)
{
	submit *s = arg;
	store *db = weir_thread_state();
	store *own = NULL;
	if (db == NULL && store_open(s->store_url, &own) == 0)
		db = own;
	if (db != NULL)
		(void)round_of(db, &s->options, (int64_t)time(NULL), &s->stats, &s->stopping);
	store_close(own);
}

static int start(submit *s, weir_world *world)
{
	weir_domain_options pool = {.name = "submit",
				    .kind = WEIR_ELASTIC,
				    .max_threads = 1,
				    .thread_start = worker_start,
				    .thread_end = worker_end,
				    .thread_arg = s};
	int error = weir_domain_new(world, &pool, &s->pool);
	if (error != 0)
		return error;
	weir_every_options every = {.name = "submit",
				    .every_ns = s->options.every_ns != 0 ? s->options.every_ns : EVERY_NS,
				    .run = run,
				    .arg = s};
	return weir_every(s->pool, &every, &s->stage);
}

int submit_new(weir_world *world, const char *store_url, const submit_options *options, submit **ret_submit)
{
	submit *s = g_new0(submit, 1);
	if (options->url != NULL && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		g_free(s);
		return weir_error_set(-EIO, "the mail library cannot be prepared");
	}
	s->store_url = g_strdup(store_url);
	s->options = *options;
	s->options.url = g_strdup(options->url);
	s->options.user = g_strdup(options->user);
	s->options.password = g_strdup(options->password);
	s->options.spool = g_strdup(options->spool);
	s->options.ca_file = g_strdup(options->ca_file);
	s->options.host = g_strdup(options->host != NULL ? options->host : "localhost");
	int error = options->url != NULL ? start(s, world) : 0;
	if (error != 0) {
		submit_free(&s);
		return error;
	}
	*ret_submit = s;
	return 0;
}

void submit_read_stats(const submit *s, submit_stats *ret_stats)
{
	ret_stats->sent = __atomic_load_n(&s->stats.sent, __ATOMIC_RELAXED);
	ret_stats->retries = __atomic_load_n(&s->stats.retries, __ATOMIC_RELAXED);
	ret_stats->bounced = __atomic_load_n(&s->stats.bounced, __ATOMIC_RELAXED);
}

void submit_free(submit **s)
{
	submit *old = *s;
	if (old == NULL)
		return;
	__atomic_store_n(&old->stopping, 1, __ATOMIC_RELAXED);
	(void)weir_domain_retire(&old->pool, RETIRE_NS);
	const char *texts[] = {old->options.url,     old->options.user, old->options.password,
			       old->options.ca_file, old->options.host, old->options.spool};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		g_free((char *)texts[i]);
	g_free(old->store_url);
	g_free(old);
	*s = NULL;
}
