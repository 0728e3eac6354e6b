/* SPDX-License-Identifier: Apache-2.0 */
#include "submit_try.h"
#include "compose.h"
#include "deliver.h"
#include "mail_text.h"

#include <curl/curl.h>
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_S   30
#define ANSWER_MAX  300u /* bytes of a server's line that are kept */
#define BYTES_PER_S 10   /* slower than this for a minute is a failure */

/* ---- what goes over the wire ---- */

typedef enum submit_phase { SUBMIT_BEFORE, SUBMIT_MAIL, SUBMIT_RCPT, SUBMIT_DATA } submit_phase;

typedef struct submit_wire {
	submit_mail *mail;
	deliver_body body;
	uint64_t offset;
	submit_phase phase;
	int recipient; /* the one that was named last */
	int code;      /* of the last answer */
	char answer[ANSWER_MAX + 1];
	const int *stopping;
	bool over;   /* what comes now is about the connection */
	bool broken; /* the store could not be read */
} submit_wire;

static void see_command(submit_wire *w, const char *text, size_t length)
{
	if (length >= 4 && strncasecmp(text, "MAIL", 4) == 0) {
		w->phase = SUBMIT_MAIL;
	} else if (length >= 4 && strncasecmp(text, "RCPT", 4) == 0) {
		w->phase = SUBMIT_RCPT;
		w->recipient++;
	} else if (length >= 4 && strncasecmp(text, "DATA", 4) == 0) {
		w->phase = SUBMIT_DATA;
	} else if (length >= 4 && strncasecmp(text, "QUIT", 4) == 0) {
		w->over = true;
	}
}

/* The last line of an answer: three digits and a blank. */
static void see_answer(submit_wire *w, const char *text, size_t length)
{
	if (w->over || length < 4 || text[3] == '-' || strspn(text, "0123456789") < 3)
		return;
	char *line = g_strndup(text, length < ANSWER_MAX ? length : ANSWER_MAX);
	char *clean = mail_text_line(line, ANSWER_MAX);
	snprintf(w->answer, sizeof(w->answer), "%s", clean);
	w->code = atoi(line);
	if (w->phase == SUBMIT_RCPT && w->recipient >= 0 && w->recipient < (int)w->mail->count) {
		w->mail->codes[w->recipient] = w->code;
		g_free(w->mail->answers[w->recipient]);
		w->mail->answers[w->recipient] = g_strdup(clean);
	}
	g_free(clean);
	g_free(line);
}

static int see(CURL *handle, curl_infotype type, char *text, size_t length, void *arg)
{
	if (type == CURLINFO_HEADER_OUT)
		see_command(arg, text, length);
	else if (type == CURLINFO_HEADER_IN)
		see_answer(arg, text, length);
	return 0;
}

static size_t read_mail(char *to, size_t size, size_t count, void *arg)
{
	submit_wire *w = arg;
	int got = w->body.source.read(&w->body.source, w->offset, to, size * count);
	if (got < 0) {
		w->broken = true;
		return CURL_READFUNC_ABORT;
	}
	w->offset += (uint64_t)got;
	return (size_t)got;
}

static int look(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const submit_wire *w = arg;
	return w->stopping != NULL && __atomic_load_n(w->stopping, __ATOMIC_RELAXED);
}

/* ---- one try ---- */

static char *url_of(const submit_options *options)
{
	const char *host = options->host != NULL ? options->host : "localhost";
	return g_strdup_printf("%s/%s", options->url, host); /* the path is the name in EHLO */
}

static void set_options(CURL *handle, const submit_options *options, submit_wire *w)
{
	curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
	curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)SUBMIT_TRY_S);
	curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, (long)BYTES_PER_S);
	curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 60L);
	curl_easy_setopt(handle, CURLOPT_USE_SSL,
			 (long)(options->tls_required ? CURLUSESSL_ALL : CURLUSESSL_TRY));
	if (options->ca_file != NULL)
		curl_easy_setopt(handle, CURLOPT_CAINFO, options->ca_file);
	if (options->user != NULL) {
		curl_easy_setopt(handle, CURLOPT_USERNAME, options->user);
		curl_easy_setopt(handle, CURLOPT_PASSWORD,
				 options->password != NULL ? options->password : "");
	}
	curl_easy_setopt(handle, CURLOPT_PROXY, "");
	curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(handle, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
	curl_easy_setopt(handle, CURLOPT_READFUNCTION, read_mail);
	curl_easy_setopt(handle, CURLOPT_READDATA, w);
	curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)w->body.source.bytes);
	curl_easy_setopt(handle, CURLOPT_VERBOSE, 1L);
	curl_easy_setopt(handle, CURLOPT_DEBUGFUNCTION, see);
	curl_easy_setopt(handle, CURLOPT_DEBUGDATA, w);
	curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, look);
	curl_easy_setopt(handle, CURLOPT_XFERINFODATA, w);
}

/* A refusal that the operator can mend, by another password or TLS, is not the recipient's. */
static bool is_ours(int code)
{
	return code == 530 || code == 534 || code == 535 || code == 538;
}

/* Those whose RCPT was accepted share what became of the mail; nobody has it unless the server took it. */
static void conclude(submit_wire *w, CURLcode result)
{
	bool refused = w->phase != SUBMIT_BEFORE && w->phase != SUBMIT_RCPT && w->code >= 500;
	for (unsigned i = 0; i < w->mail->count; i++) {
		int code = w->mail->codes[i];
		bool accepted = code >= 200 && code < 300;
		if (result == CURLE_OK && accepted)
			continue;
		if (code < 400) {
			const char *why = w->code >= 400 ? w->answer : curl_easy_strerror(result);
			w->mail->codes[i] = refused ? w->code : 0;
			g_free(w->mail->answers[i]);
			w->mail->answers[i] = g_strdup(result == CURLE_OK ? "no answer" : why);
		}
		if (is_ours(w->mail->codes[i]))
			w->mail->codes[i] = 0;
	}
}

static CURLcode perform(const submit_options *options, submit_wire *w)
{
	CURL *handle = curl_easy_init();
	if (handle == NULL)
		return CURLE_OUT_OF_MEMORY;
	struct curl_slist *recipients = NULL;
	for (unsigned i = 0; i < w->mail->count; i++) {
		char *quoted = g_strdup_printf("<%s>", w->mail->recipients[i]);
		recipients = curl_slist_append(recipients, quoted);
		g_free(quoted);
	}
	char *url = url_of(options), *sender = g_strdup_printf("<%s>", w->mail->sender);
	set_options(handle, options, w);
	curl_easy_setopt(handle, CURLOPT_URL, url);
	curl_easy_setopt(handle, CURLOPT_MAIL_FROM, sender);
	curl_easy_setopt(handle, CURLOPT_MAIL_RCPT, recipients);
	CURLcode result = curl_easy_perform(handle);
	curl_easy_cleanup(handle);
	curl_slist_free_all(recipients);
	g_free(sender);
	g_free(url);
	return result;
}

int submit_try(store *s, const submit_options *options, submit_mail *mail, const int *stopping)
{
	submit_wire w = {.mail = mail, .recipient = -1, .stopping = stopping};
	int error = deliver_body_init(&w.body, s, &mail->body);
	if (error != 0)
		return error;
	CURLcode result = perform(options, &w);
	deliver_body_fini(&w.body);
	if (result == CURLE_ABORTED_BY_CALLBACK && !w.broken)
		return -ECANCELED;
	conclude(&w, result);
	return 0;
}

/* ---- the message about a failure ---- */

static char *bounce_text(const submit_mail *mail)
{
	GString *text = g_string_new("Your message could not be delivered to:\n\n");
	for (unsigned i = 0; i < mail->count; i++) {
		if (mail->codes[i] < 500)
			continue;
		g_string_append_printf(text, "    %s\n", mail->recipients[i]);
		if (mail->answers[i] != NULL)
			g_string_append_printf(text, "        %s\n", mail->answers[i]);
	}
	g_string_append(text, "\nIt was given up, and will not be tried again. The beginning of your message "
			      "is attached.\n");
	return g_string_free(text, FALSE);
}

static char *bounce_id(const submit_mail *mail)
{
	GString *id = g_string_new(NULL);
	g_string_append_printf(id, "bounce:%" G_GUINT64_FORMAT, (guint64)mail->id);
	for (unsigned i = 0; i < mail->count; i++)
		if (mail->codes[i] >= 500)
			g_string_append_printf(id, ":%s", mail->recipients[i]);
	char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, id->str, -1);
	g_string_free(id, TRUE);
	return hash;
}

static int read_beginning(store *s, const submit_mail *mail, char *to, size_t *ret_bytes)
{
	int64_t got = store_body_read(s, &mail->body, 0, to, SUBMIT_BOUNCE_BYTES);
	*ret_bytes = got > 0 ? (size_t)got : 0;
	return got < 0 ? (int)got : 0;
}

static int bounce_with(store *s, const submit_options *options, const submit_mail *mail, int64_t now_s,
		       const mail_source *beginning)
{
	char *text = bounce_text(mail), *id = bounce_id(mail);
	char *from = g_strdup_printf("Mail delivery <postmaster@%s>",
				     options->host != NULL ? options->host : "localhost");
	compose_file original = {.name = "original.txt", .type = "text/plain", .content = beginning};
	compose_form form = {.from = from,
			     .to = mail->sender,
			     .subject = "Your message was not delivered",
			     .text = text,
			     .message_id = NULL,
			     .files = &original,
			     .file_count = 1,
			     .now_s = now_s};
	compose_message message;
	deliver_mail deliver;
	int error = compose_build(&form, options->spool, &message);
	if (error == 0) {
		error = deliver_prepare(&deliver, &message.source, now_s);
		if (error == 0) {
			weir_span delivery = {id, strlen(id)};
			store_place place = {.user = mail->user};
			deliver.mail.delivery = &delivery;
			error = store_deliver(s, &deliver.mail, &place, 1);
			deliver_release(&deliver);
		}
		compose_message_fini(&message);
	}
	g_free(from);
	g_free(id);
	g_free(text);
	return error;
}

int submit_bounce(store *s, const submit_options *options, const submit_mail *mail, int64_t now_s)
{
	size_t bytes;
	char *beginning = g_malloc(SUBMIT_BOUNCE_BYTES);
	int error = read_beginning(s, mail, beginning, &bytes);
	if (error == 0) {
		mail_source source = mail_from_memory(beginning, bytes);
		error = bounce_with(s, options, mail, now_s, &source);
	}
	g_free(beginning);
	return error == -ENOENT ? 0 : error; /* the user is gone: nobody is left to be told */
}
