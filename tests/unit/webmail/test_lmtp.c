/* SPDX-License-Identifier: Apache-2.0 */
/* The LMTP server on loopback, before a real store. */
#include "on_store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <mail/mail.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <webmail/lmtp.h>

typedef struct lmtp_rig {
	on_store *on;
	weir_world *world;
	weir_domain *reactor;
	lmtp *server;
	unsigned port;
} lmtp_rig;

static void rig_start(lmtp_rig *rig, on_store *on, lmtp_options options)
{
	char text[100];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	*rig = (lmtp_rig){.on = on};
	assert_int_equal(weir_world_new(NULL, &rig->world), 0);
	assert_int_equal(weir_domain_new(rig->world, &(weir_domain_options){.name = "reactor", .threads = 2},
					 &rig->reactor),
			 0);
	assert_int_equal(weir_world_start(rig->world), 0);
	options.reactor = rig->reactor;
	options.address = (struct sockaddr *)&at;
	options.address_length = sizeof(at);
	options.store_url = options.store_url != NULL ? options.store_url : on->url;
	options.spool = options.spool != NULL ? options.spool : on->folder;
	options.host = "box";
	assert_int_equal(lmtp_new(&options, &rig->server), 0);
	assert_int_equal(lmtp_address(rig->server, text, sizeof(text)), 0);
	rig->port = (unsigned)atoi(strrchr(text, ':') + 1);
}

static void rig_stop(lmtp_rig *rig)
{
	lmtp_free(&rig->server);
	assert_null(rig->server);
	assert_int_equal(weir_world_stop(rig->world, 30 * WEIR_NS_PER_S, NULL), 0);
	weir_world_free(&rig->world);
}

/* ---- a client ---- */

static FILE *connected(const lmtp_rig *rig)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)rig->port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval patience = {.tv_sec = 60};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fdopen(fd, "r");
}

static void tell_bytes(FILE *client, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t done = send(fileno(client), text, length, MSG_NOSIGNAL);
		assert_true(done > 0);
		text += done;
		length -= (size_t)done;
	}
}

static void tell(FILE *client, const char *text)
{
	tell_bytes(client, text, strlen(text));
}

/* The last line of the next answer; "": the end. */
static const char *hear(FILE *client)
{
	static char line[1000];
	do {
		line[0] = '\0';
		while (fgets(line, sizeof(line), client) == NULL) {
			if (errno != EINTR || feof(client))
				return "";
			clearerr(client); /* a read with a time-out is not begun again by itself */
		}
	} while (line[3] == '-');
	return line;
}

static void expect(FILE *client, const char *codes)
{
	for (; *codes != '\0'; codes += 3 + (codes[3] == ' ')) {
		const char *line = hear(client);
		if (strncmp(line, codes, 3) != 0)
			fail_msg("expected %.3s, got: %s", codes, line);
	}
}

static unsigned count_of(on_store *on, uint32_t user)
{
	store_folder folder;
	assert_int_equal(store_folder_of(on->s, user, STORE_INBOX, &folder), 0);
	return folder.total;
}

static uint32_t newest(on_store *on, uint32_t user)
{
	on_messages messages = {0};
	store_list list = {.folder = on_store_role(on->s, user, STORE_INBOX), .count = 1};
	assert_int_equal(store_messages(on->s, user, &list, on_message, &messages), 1);
	return messages.rows[0].id;
}

#define TO_BOTH \
	"MAIL FROM:<x@example.org>\r\nRCPT TO:<ann@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\n"

/* ---- tests ---- */

static void test_delivery(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){0});
	FILE *client = connected(&rig);
	/* One user twice, by two addresses; one that is not there; all at once. */
	tell(client, "LHLO me\r\nMAIL FROM:<x@example.org>\r\nRCPT TO:<ann@example.org>\r\nRCPT "
		     "TO:<no@example.org>\r\n"
		     "RCPT TO:<ann+tag@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\nSubject: "
		     "one\r\n\r\ntext\r\n.\r\nQUIT\r\n");
	expect(client, "220 250 250 250 550 250 250 354 250 250 250 221");
	assert_string_equal(hear(client), "");
	fclose(client);
	assert_int_equal(count_of(rig.on, rig.on->ann), 1);
	assert_int_equal(count_of(rig.on, rig.on->bob), 1);
	lmtp_stats stats;
	lmtp_read_stats(rig.server, &stats);
	assert_int_equal(stats.delivered, 3);
	assert_int_equal(stats.refused, 1);
	on_store_check(rig.on->s);
	rig_stop(&rig);
}

static void test_the_same_again_is_stored_once(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){0});
	for (int i = 0; i < 3; i++) {
		FILE *client = connected(&rig);
		tell(client, "LHLO me\r\n" TO_BOTH "Message-ID: <1@x>\r\n\r\ntext\r\n.\r\n");
		expect(client, "220 250 250 250 250 354 250 250");
		fclose(client);
	}
	assert_int_equal(count_of(rig.on, rig.on->ann), 1);
	rig_stop(&rig);
}

static void test_a_long_message(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){0});
	size_t lines = 50000;
	char *text = malloc(lines * 100 + 1);
	for (size_t i = 0; i < lines; i++)
		snprintf(text + i * 100, 101, "%098zu\r\n", i);
	FILE *client = connected(&rig);
	tell(client, "LHLO me\r\n" TO_BOTH "Subject: long\r\n\r\n");
	tell_bytes(client, text, lines * 100);
	tell(client, ".\r\n");
	expect(client, "220 250 250 250 250 354 250 250");
	fclose(client);
	store_body body;
	char *stored = malloc(lines * 100 + 1000);
	assert_int_equal(store_body_open(rig.on->s, rig.on->bob, newest(rig.on, rig.on->bob), &body), 0);
	size_t got = 0;
	int64_t piece;
	while ((piece = store_body_read(&body, got, stored + got, 100000)) > 0)
		got += (size_t)piece;
	assert_int_equal(got, strlen("Return-Path: <x@example.org>\r\nSubject: long\r\n\r\n") + lines * 100);
	assert_memory_equal(stored + got - lines * 100, text, lines * 100);
	free(stored);
	free(text);
	rig_stop(&rig);
}

static void test_what_is_refused(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){.bytes_max = 100000});
	FILE *client = connected(&rig);
	tell(client, "LHLO me\r\nMAIL FROM:<> SIZE=100001\r\n");
	expect(client, "220 250 552");
	tell(client, TO_BOTH "Content-Type: multipart/mixed; boundary=a\r\n\r\n");
	for (int i = 0; i < 5000; i++)
		tell(client, "--a\r\n");
	tell(client, ".\r\n");
	expect(client, "250 250 250 354 554 554");
	tell(client, TO_BOTH);
	for (int i = 0; i < 2000; i++)
		tell(client,
		     "a line of a message that is too long in the end, as there are so many of them\r\n");
	tell(client, ".\r\n" TO_BOTH ".\r\n");
	expect(client, "250 250 250 354 552 552 250 250 250 354 250 250");
	fclose(client);
	rig_stop(&rig);
}

static void test_no_database_and_no_disk(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){.store_url = "sqlite:/no/such/folder/x.db"});
	FILE *client = connected(&rig);
	tell(client, "LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<ann@example.org>\r\nDATA\r\n");
	expect(client, "220 250 250 451 503");
	fclose(client);
	rig_stop(&rig);
	rig_start(&rig, *state, (lmtp_options){.spool = "/no/such/folder"});
	client = connected(&rig);
	tell(client, "LHLO me\r\n" TO_BOTH);
	for (int i = 0; i < 4000; i++)
		tell(client, "a line of a message that is too long for the memory, and there is no other "
			     "place for it\r\n");
	tell(client, ".\r\nNOOP\r\n");
	expect(client, "220 250 250 250 250 354 451 451 250");
	fclose(client);
	assert_int_equal(count_of(rig.on, rig.on->ann), 0);
	rig_stop(&rig);
}

static void test_a_user_that_goes_meanwhile(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){0});
	FILE *client = connected(&rig);
	tell(client, "LHLO me\r\n" TO_BOTH);
	expect(client, "220 250 250 250 250 354");
	assert_int_equal(store_user_remove(rig.on->s, rig.on->bob), 0);
	tell(client, "Subject: x\r\n\r\n.\r\n");
	expect(client, "250 550");
	fclose(client);
	assert_int_equal(count_of(rig.on, rig.on->ann), 1);
	rig_stop(&rig);
}

static void test_time_is_bounded(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){.idle_ns = 50 * WEIR_NS_PER_MS});
	FILE *client = connected(&rig);
	expect(client, "220");
	assert_string_equal(hear(client), ""); /* the end, and not the client's own time-out */
	fclose(client);
	rig_stop(&rig);
	rig_start(&rig, *state, (lmtp_options){.transaction_ns = 50 * WEIR_NS_PER_MS});
	client = connected(&rig);
	tell(client, "LHLO me\r\nMAIL FROM:<>\r\n");
	expect(client, "220 250 250 421");
	assert_string_equal(hear(client), "");
	fclose(client);
	rig_stop(&rig);
}

/* Ends with connections in every state, also while something is being stored. */
static void test_ends_at_any_time(void **state)
{
	for (int round = 0; round < 6; round++) {
		lmtp_rig rig;
		rig_start(&rig, *state, (lmtp_options){0});
		FILE *clients[8];
		for (int i = 0; i < 8; i++) {
			char text[300];
			clients[i] = connected(&rig);
			snprintf(text, sizeof(text), "LHLO me\r\n%s%sSubject: %d %d\r\n\r\n%s",
				 i % 4 > 0 ? TO_BOTH : "", i % 4 > 1 ? "" : "NOOP\r\n", round, i,
				 i % 4 > 2 ? ".\r\n" : "");
			tell(clients[i], text);
		}
		if (round % 2 == 0)
			expect(clients[3], "220 250 250");
		if (round < 3) {
			rig_stop(&rig);
		} else {
			weir_world_stop(rig.world, 30 * WEIR_NS_PER_S, NULL);
			lmtp_free(&rig.server);
			weir_world_free(&rig.world);
		}
		for (int i = 0; i < 8; i++)
			fclose(clients[i]);
	}
	on_store_check(((on_store *)*state)->s);
}

static void test_many_at_once(void **state)
{
	lmtp_rig rig;
	rig_start(&rig, *state, (lmtp_options){.threads = 4});
	FILE *clients[20];
	for (int i = 0; i < 20; i++) {
		char text[400];
		clients[i] = connected(&rig);
		snprintf(text, sizeof(text),
			 "LHLO me\r\n" TO_BOTH "Subject: %d\r\n\r\n.\r\n" TO_BOTH
			 "Subject: %d\r\n\r\n.\r\nQUIT\r\n",
			 i, i + 100);
		tell(clients[i], text);
	}
	for (int i = 0; i < 20; i++) {
		expect(clients[i], "220 250 250 250 250 354 250 250 250 250 250 354 250 250 221");
		fclose(clients[i]);
	}
	assert_int_equal(count_of(rig.on, rig.on->ann), 40);
	assert_int_equal(count_of(rig.on, rig.on->bob), 40);
	on_store_check(rig.on->s);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delivery),
		cmocka_unit_test(test_the_same_again_is_stored_once),
		cmocka_unit_test(test_a_long_message),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_no_database_and_no_disk),
		cmocka_unit_test(test_a_user_that_goes_meanwhile),
		cmocka_unit_test(test_time_is_bounded),
		cmocka_unit_test(test_ends_at_any_time),
		cmocka_unit_test(test_many_at_once),
	};
	mail_init();
	return on_store_run_sqlite(__FILE__, tests, sizeof(tests) / sizeof(*tests));
}
