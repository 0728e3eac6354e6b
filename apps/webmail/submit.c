/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order of writes: first the message about a failure, then the queue. After a crash in between, the queue still
 * has the mail, and the message about it is known by its delivery id.
 */
#include "submit.h"
#include "deliver.h"
#include "mail/compose.h"
#include "store_pool.h"

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

/* A mail of the queue. */
typedef struct submit_mail {
	uint64_t id;
	uint32_t user;
	unsigned tries;
	int64_t created_s;
	store_body body;
	smtp_mail envelope;
} submit_mail;

/* The store's texts are only there during its call. */
static void take(const store_outgoing *outgoing, void *arg)
{
	char *lines = g_strndup(outgoing->recipients.at, outgoing->recipients.length);
	smtp_mail envelope = {.sender = g_strndup(outgoing->sender.at, outgoing->sender.length),
			      .recipients = g_strsplit(lines, "\n", -1)};
	envelope.count = g_strv_length(envelope.recipients);
	envelope.codes = g_new0(int, envelope.count + 1);
	envelope.answers = g_new0(char *, envelope.count + 1);
	*(submit_mail *)arg = (submit_mail){.id = outgoing->id,
					    .user = outgoing->user,
					    .tries = outgoing->tries,
					    .created_s = outgoing->created_s,
					    .body = outgoing->body,
					    .envelope = envelope};
	g_free(lines);
}

static void mail_fini(submit_mail *mail)
{
	for (unsigned i = 0; i < mail->envelope.count; i++)
		g_free(mail->envelope.answers[i]);
	g_free(mail->envelope.answers);
	g_free(mail->envelope.codes);
	g_strfreev(mail->envelope.recipients);
	g_free(mail->envelope.sender);
}

/* ---- the message about a failure ---- */

/* The same for the same mail and recipients, so that a repetition is stored once. */
static char *bounce_id(const submit_mail *mail)
{
	GString *id = g_string_new(NULL);
	g_string_append_printf(id, "bounce:%" G_GUINT64_FORMAT, (guint64)mail->id);
	for (unsigned i = 0; i < mail->envelope.count; i++)
		if (mail->envelope.codes[i] >= 500)
			g_string_append_printf(id, ":%s", mail->envelope.recipients[i]);
	return g_string_free(id, FALSE);
}

static int store_bounce(store *s, const submit_mail *mail, const mail_source *message, int64_t now_s)
{
	char *id = bounce_id(mail);
	weir_span delivery = {id, strlen(id)};
	store_place place = {.user = mail->user};
	deliver_mail deliver;
	int error = deliver_prepare(&deliver, message, now_s);
	if (error == 0) {
		deliver.mail.delivery = &delivery;
		error = store_deliver(s, &deliver.mail, &place, 1);
		deliver_release(&deliver);
	}
	g_free(id);
	return error;
}

/* Puts a message about the recipients with codes of 500 and more into the user's inbox, once. */
static int bounce(store *s, const submit_options *options, const submit_mail *mail, int64_t now_s)
{
	compose_message message;
	char *beginning = g_malloc(SUBMIT_BOUNCE_BYTES);
	int64_t bytes = store_body_read(&mail->body, 0, beginning, SUBMIT_BOUNCE_BYTES);
	mail_source source = mail_from_memory(beginning, bytes > 0 ? (size_t)bytes : 0);
	int error = bytes < 0 ? (int)bytes
			      : compose_bounce(&mail->envelope, options->smtp.host, &source, now_s,
					       options->spool, &message);
	if (error == 0) {
		error = store_bounce(s, mail, &message.source, now_s);
		compose_message_fini(&message);
	}
	g_free(beginning);
	return error == -ENOENT ? 0 : error; /* the user is gone: nobody is left to be told */
}

/* ---- what became of it ---- */

static bool is_sent(int code)
{
	return code >= 200 && code < 300;
}

/* A recipient is given up for good if the server says so, or if it has been tried for long enough. */
static int settle(store *s, const submit_options *options, submit_mail *mail, int64_t now_s,
		  submit_stats *stats)
{
	smtp_mail *envelope = &mail->envelope;
	bool over = now_s - mail->created_s >= SUBMIT_GIVE_UP_S;
	GString *left = g_string_new(NULL);
	const char *why = "";
	unsigned sent = 0, given_up = 0;
	for (unsigned i = 0; i < envelope->count; i++) {
		if (is_sent(envelope->codes[i])) {
			sent++;
		} else if (over || envelope->codes[i] >= 500) {
			envelope->codes[i] = envelope->codes[i] >= 500 ? envelope->codes[i] : 500;
			given_up++;
		} else {
			g_string_append_printf(left, "%s%s", left->len > 0 ? "\n" : "",
					       envelope->recipients[i]);
			why = envelope->answers[i] != NULL ? envelope->answers[i] : "";
		}
	}
	if (sent > 0)
		add_one(&stats->sent);
	int error = given_up > 0 ? bounce(s, options, mail, now_s) : 0;
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
	while (tried < ROUND_MAX && !__atomic_load_n(stopping, __ATOMIC_RELAXED)) {
		submit_mail mail = {0};
		int found = store_outgoing_next(s, now_s, 2 * SMTP_TRY_S, take, &mail);
		if (found <= 0)
			return found < 0 ? found : tried;
		mail_source body = store_body_source(&mail.body);
		int error = smtp_send(&options->smtp, &body, &mail.envelope, stopping);
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
	static const int never = 0;
	return round_of(s, options, now_s, stats, &never);
}

/* ---- in a world ---- */

static void run(void *arg)
{
	submit *s = arg;
	store *db = store_of_thread();
	if (db != NULL)
		(void)round_of(db, &s->options, (int64_t)time(NULL), &s->stats, &s->stopping);
}

static int start(submit *s, weir_world *world)
{
	int error = store_pool_new(world, "submit", 1, s->store_url, &s->pool);
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
	const smtp_options *smtp = &options->smtp;
	s->store_url = g_strdup(store_url);
	s->options = *options;
	s->options.spool = g_strdup(options->spool);
	s->options.smtp.url = g_strdup(smtp->url);
	s->options.smtp.user = g_strdup(smtp->user);
	s->options.smtp.password = g_strdup(smtp->password);
	s->options.smtp.ca_file = g_strdup(smtp->ca_file);
	s->options.smtp.host = g_strdup(smtp->host);
	int error = smtp->url != NULL ? smtp_init() : 0;
	if (error == 0 && smtp->url != NULL)
		error = start(s, world);
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
	const smtp_options *smtp = &old->options.smtp;
	const char *texts[] = {smtp->url,  smtp->user,         smtp->password, smtp->ca_file,
			       smtp->host, old->options.spool, old->store_url};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		g_free((char *)texts[i]);
	g_free(old);
	*s = NULL;
}
