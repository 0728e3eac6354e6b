/* SPDX-License-Identifier: Apache-2.0 */
#include "smtp.h"
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

typedef enum smtp_phase { BEFORE, IN_MAIL, IN_RCPT, IN_DATA } smtp_phase;

typedef struct smtp_wire {
	smtp_mail *mail;
	const mail_source *source;
	uint64_t offset;
	smtp_phase phase;
	int recipient; /* the one that was named last */
	int code;      /* of the last answer */
	char answer[ANSWER_MAX + 1];
	char error[CURL_ERROR_SIZE]; /* the library's own, without an answer */
	const int *stopping;
	bool over;   /* what comes now is about the connection */
	bool broken; /* the source could not be read */
} smtp_wire;

static void see_command(smtp_wire *w, const char *text, size_t length)
{
	if (length >= 4 && strncasecmp(text, "MAIL", 4) == 0) {
		w->phase = IN_MAIL;
	} else if (length >= 4 && strncasecmp(text, "RCPT", 4) == 0) {
		w->phase = IN_RCPT;
		w->recipient++;
	} else if (length >= 4 && strncasecmp(text, "DATA", 4) == 0) {
		w->phase = IN_DATA;
	} else if (length >= 4 && strncasecmp(text, "QUIT", 4) == 0) {
		w->over = true;
	}
}

/* The last line of an answer: three digits and a blank. */
static void see_answer(smtp_wire *w, const char *text, size_t length)
{
	if (w->over || length < 4 || text[3] == '-' || strspn(text, "0123456789") < 3)
		return;
	char *line = g_strndup(text, length < ANSWER_MAX ? length : ANSWER_MAX);
	char *clean = mail_text_line(line, ANSWER_MAX);
	snprintf(w->answer, sizeof(w->answer), "%s", clean);
	w->code = atoi(line);
	if (w->phase == IN_RCPT && w->recipient >= 0 && w->recipient < (int)w->mail->count) {
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
	smtp_wire *w = arg;
	int got = w->source->read(w->source, w->offset, to, size * count);
	if (got < 0) {
		w->broken = true;
		return CURL_READFUNC_ABORT;
	}
	w->offset += (uint64_t)got;
	return (size_t)got;
}

static int look(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const smtp_wire *w = arg;
	return w->stopping != NULL && __atomic_load_n(w->stopping, __ATOMIC_RELAXED);
}

/* ---- one try ---- */

static char *url_of(const smtp_options *options)
{
	const char *host = options->host != NULL ? options->host : "localhost";
	return g_strdup_printf("%s/%s", options->url, host); /* the path is the name in EHLO */
}

static void set_options(CURL *handle, const smtp_options *options, smtp_wire *w)
{
	curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
	curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)SMTP_TRY_S);
	curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, (long)BYTES_PER_S);
	curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 60L);
	curl_easy_setopt(handle, CURLOPT_USE_SSL,
			 (long)(options->starttls ? CURLUSESSL_ALL : CURLUSESSL_NONE));
	if (options->ca_file != NULL)
		curl_easy_setopt(handle, CURLOPT_CAINFO, options->ca_file);
	if (options->user != NULL) {
		curl_easy_setopt(handle, CURLOPT_USERNAME, options->user);
		curl_easy_setopt(handle, CURLOPT_PASSWORD,
				 options->password != NULL ? options->password : "");
	}
	curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, w->error);
	curl_easy_setopt(handle, CURLOPT_PROXY, "");
	curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(handle, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
	curl_easy_setopt(handle, CURLOPT_READFUNCTION, read_mail);
	curl_easy_setopt(handle, CURLOPT_READDATA, w);
	curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)w->source->bytes);
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
static void conclude(smtp_wire *w, CURLcode result)
{
	bool refused = w->phase != BEFORE && w->phase != IN_RCPT && w->code >= 500;
	for (unsigned i = 0; i < w->mail->count; i++) {
		int code = w->mail->codes[i];
		bool accepted = code >= 200 && code < 300;
		if (result == CURLE_OK && accepted)
			continue;
		if (code < 400) {
			const char *why = w->code >= 400        ? w->answer
					  : w->error[0] != '\0' ? w->error
								: curl_easy_strerror(result);
			w->mail->codes[i] = refused ? w->code : 0;
			g_free(w->mail->answers[i]);
			w->mail->answers[i] = g_strdup(result == CURLE_OK ? "no answer" : why);
		}
		if (is_ours(w->mail->codes[i]))
			w->mail->codes[i] = 0;
	}
}

static CURLcode perform(const smtp_options *options, smtp_wire *w)
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

int smtp_send(const smtp_options *options, const mail_source *source, smtp_mail *mail, const int *stopping)
{
	smtp_wire w = {.mail = mail, .source = source, .recipient = -1, .stopping = stopping};
	CURLcode result = perform(options, &w);
	if (result == CURLE_ABORTED_BY_CALLBACK && !w.broken)
		return -ECANCELED;
	conclude(&w, result);
	return 0;
}

bool smtp_is_local(const char *url)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	CURLU *parsed = curl_url();
	char *host = NULL;
	bool local = false;
	if (parsed != NULL &&
	    curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
	    curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			local = local || strcasecmp(host, names[i]) == 0;
	curl_free(host);
	curl_url_cleanup(parsed);
	return local;
}

int smtp_init(void)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
		       ? 0
		       : weir_error_set(-EIO, "the mail library cannot be prepared");
}
