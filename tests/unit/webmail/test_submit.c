/* SPDX-License-Identifier: Apache-2.0 */
/* Against a small SMTP server on loopback that answers by the recipient's name. */
#include "on_store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <mail/compose.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <webmail/deliver.h>
#include <webmail/submit.h>

#define NOW_S 1700000000

/* ---- the server ---- */

typedef struct smtp_server {
	pthread_t thread;
	int listener;
	char url[60];
	char mail_answer[60], data_answer[60]; /* "": 250 */
	bool hangs_up;                         /* in the data */
	/* What it saw, under the lock. */
	pthread_mutex_t lock;
	unsigned connections, mails;
	char recipients[500], last[4000], hello[100];
} smtp_server;

static void answer(FILE *out, const char *line)
{
	fprintf(out, "%s\r\n", line);
	fflush(out);
}

static void take_data(smtp_server *server, FILE *in, FILE *out)
{
	char line[2000];
	size_t at = 0;
	answer(out, "354 go on");
	while (fgets(line, sizeof(line), in) != NULL && strcmp(line, ".\r\n") != 0)
		if (at + strlen(line) < sizeof(server->last))
			at += (size_t)sprintf(server->last + at, "%s", line[0] == '.' ? line + 1 : line);
	server->mails += server->data_answer[0] == '\0';
	answer(out, server->data_answer[0] != '\0' ? server->data_answer : "250 ok");
}

static const char *answer_rcpt(smtp_server *server, const char *line)
{
	if (strstr(line, "never") != NULL)
		return "550 5.1.1 no such\x01 user";
	if (strstr(line, "later") != NULL)
		return "451 4.3.0 later";
	strncat(server->recipients, line, sizeof(server->recipients) - strlen(server->recipients) - 1);
	return "250 ok";
}

/* False: the connection is over. */
static bool serve_line(smtp_server *server, const char *line, FILE *in, FILE *out)
{
	if (strncmp(line, "EHLO", 4) == 0) {
		snprintf(server->hello, sizeof(server->hello), "%.90s", line);
		answer(out, "250-server\r\n250-8BITMIME\r\n250 SIZE 1000000");
	} else if (strncmp(line, "MAIL", 4) == 0) {
		answer(out, server->mail_answer[0] != '\0' ? server->mail_answer : "250 ok");
	} else if (strncmp(line, "RCPT", 4) == 0) {
		answer(out, answer_rcpt(server, line));
	} else if (strncmp(line, "DATA", 4) == 0) {
		if (server->hangs_up)
			return false;
		take_data(server, in, out);
	} else if (strncmp(line, "QUIT", 4) == 0) {
		answer(out, "221 bye");
		return false;
	} else {
		answer(out, "500 what");
	}
	return true;
}

static void *serve(void *arg)
{
	smtp_server *server = arg;
	for (int fd; (fd = accept(server->listener, NULL, NULL)) >= 0;) {
		FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
		char line[2000];
		pthread_mutex_lock(&server->lock);
		server->connections++;
		answer(out, "220 server");
		while (fgets(line, sizeof(line), in) != NULL && serve_line(server, line, in, out)) {
		}
		pthread_mutex_unlock(&server->lock);
		fclose(in);
		fclose(out);
	}
	return NULL;
}

static void server_start(smtp_server *server)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	*server = (smtp_server){.listener = socket(AF_INET, SOCK_STREAM, 0)};
	pthread_mutex_init(&server->lock, NULL);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(server->listener, 10), 0);
	getsockname(server->listener, (struct sockaddr *)&at, &length);
	snprintf(server->url, sizeof(server->url), "smtp://127.0.0.1:%u", ntohs(at.sin_port));
	pthread_create(&server->thread, NULL, serve, server);
}

static void server_stop(smtp_server *server)
{
	shutdown(server->listener, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	close(server->listener);
	pthread_mutex_destroy(&server->lock);
}

/* ---- mail ---- */

static void send_to(on_store *on, const char *to)
{
	compose_form form = {.from = "ann@example.org",
			     .to = to,
			     .subject = "out",
			     .text = "one\n.\n..two\n",
			     .now_s = NOW_S};
	compose_message message;
	deliver_mail mail;
	uint32_t id;
	assert_int_equal(compose_build(&form, on->folder, &message), 0);
	assert_int_equal(deliver_prepare(&mail, &message.source, NOW_S), 0);
	weir_span sender = {message.sender, strlen(message.sender)};
	weir_span recipients = {message.recipients, strlen(message.recipients)};
	assert_int_equal(store_send(on->s, on->ann, &mail.mail, sender, recipients, 0, &id), 0);
	deliver_release(&mail);
	compose_message_fini(&message);
}

static submit_options options_of(on_store *on, const smtp_server *server)
{
	return (submit_options){.smtp = {.url = server->url, .host = "web.example.org"},
				.spool = on->folder,
				.every_ns = 5 * WEIR_NS_PER_MS};
}

static on_messages inbox(on_store *on)
{
	on_messages messages = {0};
	store_list list = {.folder = on_store_role(on->s, on->ann, STORE_INBOX), .count = 50};
	assert_true(store_messages(on->s, on->ann, &list, on_message, &messages) >= 0);
	return messages;
}

static char *text_of(on_store *on, uint32_t message)
{
	store_body body;
	mail_view *view;
	assert_int_equal(store_body_open(on->s, on->ann, message, &body), 0);
	mail_source source = store_body_source(&body);
	assert_int_equal(mail_open(&source, &(mail_view_options){.text_only = true}, &view), 0);
	char *text = strdup(view->text);
	mail_view_free(&view);
	return text;
}

typedef struct seen_queue {
	unsigned count;
	char recipients[200], error[300];
	int64_t next_s;
} seen_queue;

static void see(const store_outgoing *outgoing, void *arg)
{
	seen_queue *seen = arg;
	seen->count++;
	seen->next_s = outgoing->next_s;
	snprintf(seen->recipients, 200, "%.*s", (int)outgoing->recipients.length, outgoing->recipients.at);
	snprintf(seen->error, 300, "%.*s", (int)outgoing->error.length, outgoing->error.at);
}

static seen_queue queue(on_store *on)
{
	seen_queue seen = {0};
	assert_true(store_outgoing_list(on->s, on->ann, see, &seen) >= 0);
	return seen;
}

/* ---- tests ---- */

static void test_mail_is_sent_once(void **state)
{
	on_store *on = *state;
	smtp_server server;
	server_start(&server);
	submit_options options = options_of(on, &server);
	submit_stats stats = {0};
	send_to(on, "bob@example.org, carl@example.org");
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 1);
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 0);
	server_stop(&server);
	assert_int_equal(server.mails, 1);
	check_contains(server.recipients, "RCPT TO:<bob@example.org>");
	check_contains(server.recipients, "RCPT TO:<carl@example.org>");
	check_contains(server.hello, "web.example.org");
	check_contains(server.last, "\r\none\r\n.\r\n..two\r\n");
	check_contains(server.last, "Subject: out\r\n");
	assert_int_equal(stats.sent, 1);
	assert_int_equal(queue(on).count, 0);
	assert_int_equal(inbox(on).count, 0);
}

static void test_each_recipient_has_its_own_answer(void **state)
{
	on_store *on = *state;
	smtp_server server;
	server_start(&server);
	submit_options options = options_of(on, &server);
	submit_stats stats = {0};
	send_to(on, "bob@example.org, never@example.org, later@example.org");
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 1);
	seen_queue waiting = queue(on);
	assert_int_equal(waiting.count, 1);
	assert_string_equal(waiting.recipients, "later@example.org");
	check_contains(waiting.error, "451");
	assert_int_equal(waiting.next_s, NOW_S + SUBMIT_RETRY_FIRST_S);
	on_messages messages = inbox(on);
	assert_int_equal(messages.count, 1);
	char *text = text_of(on, messages.rows[0].id);
	check_contains(text, "never@example.org");
	check_contains(text, "550 5.1.1");
	assert_null(strstr(text, "later@"));
	free(text);
	/* Two days later it is given up. */
	assert_int_equal(submit_round(on->s, &options, NOW_S + SUBMIT_GIVE_UP_S + 100000, &stats), 1);
	assert_int_equal(queue(on).count, 0);
	messages = inbox(on);
	assert_int_equal(messages.count, 2);
	server_stop(&server);
	assert_int_equal(server.mails, 1);
	assert_int_equal(stats.sent, 1);
	assert_int_equal(stats.bounced, 2);
	assert_int_equal(stats.retries, 1);
	on_store_check(on->s);
}

/* All of one try: what the server says to MAIL and to the data. */
static void check_answers(on_store *on, const char *mail_answer, const char *data_answer, bool bounced)
{
	smtp_server server;
	server_start(&server);
	snprintf(server.mail_answer, sizeof(server.mail_answer), "%s", mail_answer);
	snprintf(server.data_answer, sizeof(server.data_answer), "%s", data_answer);
	submit_options options = options_of(on, &server);
	submit_stats stats = {0};
	unsigned before = inbox(on).count;
	send_to(on, "bob@example.org");
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 1);
	server_stop(&server);
	assert_int_equal(stats.sent, 0);
	assert_int_equal(queue(on).count, bounced ? 0 : 1);
	assert_int_equal(inbox(on).count, before + bounced);
	if (!bounced)
		assert_int_equal(submit_round(on->s, &options, NOW_S + SUBMIT_GIVE_UP_S + 1, &stats), 1);
}

static void test_answers_to_the_mail(void **state)
{
	on_store *on = *state;
	check_answers(on, "", "554 5.6.0 refused", true);
	check_answers(on, "552 5.3.4 too long", "", true);
	check_answers(on, "", "451 4.3.0 later", false);
	check_answers(on, "421 4.3.0 later", "", false);
	check_answers(on, "530 5.7.0 authentication required", "", false);
}

static void test_a_server_that_is_not_there(void **state)
{
	on_store *on = *state;
	smtp_server server;
	server_start(&server);
	server_stop(&server);
	submit_options options = options_of(on, &server);
	submit_stats stats = {0};
	send_to(on, "bob@example.org");
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 1);
	assert_int_equal(queue(on).count, 1);
	assert_true(strlen(queue(on).error) > 0);
	assert_int_equal(inbox(on).count, 0);
}

static void test_a_server_that_hangs_up(void **state)
{
	on_store *on = *state;
	smtp_server server;
	server_start(&server);
	server.hangs_up = true;
	submit_options options = options_of(on, &server);
	submit_stats stats = {0};
	send_to(on, "bob@example.org");
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 1);
	assert_int_equal(queue(on).count, 1);
	assert_int_equal(stats.retries, 1);
	server_stop(&server);
}

static void test_tls_can_be_required(void **state)
{
	on_store *on = *state;
	smtp_server server;
	server_start(&server);
	submit_options options = options_of(on, &server);
	options.smtp.starttls = true;
	submit_stats stats = {0};
	send_to(on, "bob@example.org");
	assert_int_equal(submit_round(on->s, &options, NOW_S, &stats), 1);
	server_stop(&server);
	assert_int_equal(server.mails, 0);
	assert_int_equal(queue(on).count, 1);
}

static void test_which_hosts_are_this_machine(void **state)
{
	static const char *const here[] = {"smtp://localhost", "smtp://LocalHost:25", "smtp://127.0.0.1:25",
					   "smtp://[::1]:25"};
	static const char *const elsewhere[] = {
		"smtp://127.example.org",       "smtp://localhost.example.org:25", "smtp://mail.localhost",
		"smtp://localhost:25@10.1.1.1", "smtp://example.org/localhost",    "nonsense"};
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		if (!smtp_is_local(here[i]))
			fail_msg("%s is here", here[i]);
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (smtp_is_local(elsewhere[i]))
			fail_msg("%s is elsewhere", elsewhere[i]);
}

static void test_waiting_grows(void **state)
{
	assert_int_equal(submit_next_s(1, 1000), 1000 + SUBMIT_RETRY_FIRST_S);
	assert_int_equal(submit_next_s(2, 1000), 1000 + 2 * SUBMIT_RETRY_FIRST_S);
	assert_int_equal(submit_next_s(5, 1000), 1000 + 16 * SUBMIT_RETRY_FIRST_S);
	assert_int_equal(submit_next_s(4000000000u, 1000), 1000 + SUBMIT_RETRY_MAX_S);
}

static void test_in_a_world(void **state)
{
	on_store *on = *state;
	smtp_server server;
	weir_world *world;
	submit *s;
	submit_stats stats = {0};
	server_start(&server);
	submit_options options = options_of(on, &server);
	assert_int_equal(weir_world_new(NULL, &world), 0);
	weir_domain *reactor;
	assert_int_equal(
		weir_domain_new(world, &(weir_domain_options){.name = "reactor", .threads = 1}, &reactor), 0);
	assert_int_equal(weir_world_start(world), 0);
	assert_int_equal(submit_new(world, on->url, &options, &s), 0);
	send_to(on, "bob@example.org");
	CHECK_EVENTUALLY((submit_read_stats(s, &stats), stats.sent == 1));
	submit_free(&s);
	assert_null(s);
	weir_world_stop(world, 10 * WEIR_NS_PER_S, NULL);
	weir_world_free(&world);
	server_stop(&server);
	assert_int_equal(queue(on).count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mail_is_sent_once),
		cmocka_unit_test(test_each_recipient_has_its_own_answer),
		cmocka_unit_test(test_answers_to_the_mail),
		cmocka_unit_test(test_a_server_that_is_not_there),
		cmocka_unit_test(test_a_server_that_hangs_up),
		cmocka_unit_test(test_tls_can_be_required),
		cmocka_unit_test(test_which_hosts_are_this_machine),
		cmocka_unit_test(test_waiting_grows),
		cmocka_unit_test(test_in_a_world),
	};
	mail_init();
	return on_store_run_sqlite(__FILE__, tests, sizeof(tests) / sizeof(*tests));
}
