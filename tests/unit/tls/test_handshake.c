/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes: whole and in parts, none at all, too slow, too many. */
#include "on_tls.h"

static const client_options anything = {.version = 0};

/* ---- a client whose bytes the test carries itself ---- */

typedef struct carrier {
	client c;
	BIO *in, *out;
} carrier;

static void carrier_new(carrier *k, const server *at, int version)
{
	client_new(&k->c, at, &(client_options){.version = version});
	k->in = BIO_new(BIO_s_mem());
	k->out = BIO_new(BIO_s_mem());
	SSL_set_bio(k->c.ssl, k->in, k->out);
	SSL_set_connect_state(k->c.ssl);
}

/* What it says next, if anything. */
static size_t carrier_bytes(carrier *k, uint8_t *into, size_t most)
{
	SSL_do_handshake(k->c.ssl);
	ERR_clear_error();
	int n = BIO_read(k->out, into, (int)most);
	return n > 0 ? (size_t)n : 0;
}

/* Takes what the server says, until it has something to say itself. */
static size_t carrier_answer(carrier *k, uint8_t *into, size_t most)
{
	for (;;) {
		uint8_t bytes[4096];
		ssize_t n = recv(k->c.fd, bytes, sizeof(bytes), 0);
		assert_true(n > 0);
		BIO_write(k->in, bytes, (int)n);
		size_t answer = carrier_bytes(k, into, most);
		if (answer > 0)
			return answer;
	}
}

static void carrier_free(carrier *k)
{
	client_free(&k->c);
}

/* ---- in parts ---- */

/* The client leaves after some bytes of its first or second flight. */
static void survives_a_cut_at_every_byte(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	server at = {.mode = ECHO};
	server_start(&at, *state);
	int closed = 0;
	for (int i = 0; i < 4; i++) {
		size_t length = 1;
		for (size_t part = 0; part < length; part++) {
			uint8_t bytes[4096];
			carrier k;
			carrier_new(&k, &at, versions[i / 2]);
			length = carrier_bytes(&k, bytes, sizeof(bytes));
			if (i % 2 == 1) {
				say_bytes(k.c.fd, bytes, length);
				length = carrier_answer(&k, bytes, sizeof(bytes));
			}
			assert_true(length > 50);
			if (part > 0)
				say_bytes(k.c.fd, bytes, part);
			carrier_free(&k);
			/* A reset instead of an end, where it left more unread. */
			CHECK_EVENTUALLY(at.closed == closed + 1);
			closed++;
			assert_true(at.last_why == -ECONNABORTED || at.last_why == -ECONNRESET);
		}
	}
	assert_int_equal(at.ready, 0);
	server_stop(&at);
}

/* Bytes one by one are not steps: a step is a whole record. */
static void takes_bytes_one_by_one(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	for (int i = 0; i < 2; i++) {
		server at = {.mode = ECHO};
		uint8_t bytes[4096];
		carrier k;
		server_start(&at, *state);
		carrier_new(&k, &at, versions[i]);
		size_t length = carrier_bytes(&k, bytes, sizeof(bytes));
		for (size_t j = 0; j < length; j++)
			say_bytes(k.c.fd, bytes + j, 1);
		length = carrier_answer(&k, bytes, sizeof(bytes));
		for (size_t j = 0; j < length; j++)
			say_bytes(k.c.fd, bytes + j, 1);
		CHECK_EVENTUALLY(at.ready == 1);
		assert_in_range(server_stats(&at).completed, 2, 4);
		/* The next bytes are read as usual. */
		SSL_set_bio(k.c.ssl, NULL, NULL);
		SSL_free(k.c.ssl);
		close(k.c.fd);
		SSL_CTX_free(k.c.ctx);
		server_stop(&at);
	}
}

/* A ClientHello cut into records of one byte each: every one is a step, and there are only so many. */
static void a_handshake_in_crumbs_is_refused(void **state)
{
	server at = {.mode = ECHO};
	uint8_t bytes[4096], end[16];
	carrier k;
	server_start(&at, *state);
	carrier_new(&k, &at, 0);
	size_t length = carrier_bytes(&k, bytes, sizeof(bytes));
	for (size_t i = 5; i < length && at.closed == 0; i++) {
		uint8_t crumb[6] = {bytes[0], bytes[1], bytes[2], 0, 1, bytes[i]};
		uint64_t steps = server_stats(&at).completed;
		if (send(k.c.fd, crumb, sizeof(crumb), MSG_NOSIGNAL) < 0)
			break;
		if (i < 5 + 32)
			CHECK_EVENTUALLY(server_stats(&at).completed > steps);
	}
	assert_int_equal(hear_to_end(k.c.fd, end, sizeof(end)), 7);
	assert_memory_equal(end, "\x15\x03\x03\x00\x02\x02\x0a", 7);
	carrier_free(&k);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.last_why, -EPROTO);
	assert_int_equal(server_stats(&at).completed, 32);
	server_stop(&at);
}

/* The server's flight is longer than what may wait to be sent: it goes on as it drains, in further steps. */
static void sends_a_flight_longer_than_its_bound(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	weir_tls_certificate certificate = {certificates.chain, certificates.a_key};
	weir_tls_options options = {.certificates = &certificate, .certificate_count = 1};
	server at = {.mode = ECHO, .output_bytes = 4096};
	server_start_with(&at, *state, &options);
	for (int i = 0; i < 2; i++) {
		client c;
		assert_int_equal(client_connect(&c, &at, &(client_options){.version = versions[i]}), 1);
		client_echo(&c, "hello");
		client_bye(&c);
	}
	assert_true(server_stats(&at).completed > 6);
	server_stop(&at);
}

/* ---- what is no TLS ---- */

static void refuses_what_is_no_tls_without_a_step(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
	} rows[] = {
		{"GET / HTTP/1.1\r\n\r\n", 18},
		{"G", 1},
		{"\x80\x2e\x01\x03\x01", 5},         /* SSL 2 */
		{"\x15\x03\x01\x00\x02\x02\x28", 7}, /* an alert before anything */
		{"\x17\x03\x03\x00\x05hello", 10},   /* data before anything */
		{"\x16\x04\x01", 3},                 /* a version there is not */
		{"\x16\x03\x01\x00\x00", 5},         /* an empty record */
		{"\x16\x03\x01\x41\x01", 5},         /* too long a record */
		{"\x16\x03\x01\xff\xff", 5},
		{"\0\0\0\0\0\0\0\0", 8},
	};
	server at = {.mode = ECHO};
	server_start(&at, *state);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint8_t end[16];
		int fd = dial(&at);
		say_bytes(fd, rows[i].bytes, rows[i].length);
		assert_int_equal(hear_to_end(fd, end, sizeof(end)), 7);
		assert_memory_equal(end, "\x15\x03\x03\x00\x02\x02\x0a", 7);
		close(fd);
		CHECK_EVENTUALLY(at.closed == (int)i + 1);
		assert_int_equal(at.last_why, -EPROTO);
		check_contains(server_text(&at, at.error), "not a TLS record");
	}
	assert_int_equal(server_stats(&at).offered, 0);
	server_stop(&at);
}

/* It looks like a record, but what is in it is no ClientHello. */
static void refuses_nonsense_in_records(void **state)
{
	static const char *const rows[] = {
		"\x16\x03\x01\x00\x04\x02\x00\x00\x00", /* a ServerHello */
		"\x16\x03\x01\x00\x04\x01\x00\x00\x00", /* an empty ClientHello */
		"\x16\x03\x01\x00\x04\xff\xff\xff\xff",
	};
	server at = {.mode = ECHO};
	server_start(&at, *state);
	for (int i = 0; i < 3; i++) {
		uint8_t end[16];
		int fd = dial(&at);
		say_bytes(fd, rows[i], 9);
		assert_int_equal(hear_to_end(fd, end, sizeof(end)), 7);
		assert_int_equal(end[0], 21);
		close(fd);
		CHECK_EVENTUALLY(at.closed == i + 1);
		assert_int_equal(at.last_why, -EPROTO);
	}
	assert_int_equal(server_stats(&at).failed, 3);
	server_stop(&at);
}

/* ---- too slow ---- */

static void may_be_closed_at_any_time(void **state)
{
	server at = {.mode = LATE, .patience_ns = 5 * WEIR_NS_PER_MS};
	uint8_t bytes[4096];
	server_start(&at, *state);
	for (int i = 0; i < 3; i++) {
		carrier k;
		carrier_new(&k, &at, 0);
		size_t length = carrier_bytes(&k, bytes, sizeof(bytes));
		/* Nothing, a part, all but the second flight. */
		size_t part = i == 0 ? 0 : i == 1 ? length / 2 : length;
		if (part > 0)
			say_bytes(k.c.fd, bytes, part);
		hear_to_end(k.c.fd, bytes, sizeof(bytes));
		carrier_free(&k);
		CHECK_EVENTUALLY(at.closed == i + 1);
		assert_int_equal(at.last_why, 0);
	}
	assert_int_equal(at.timeouts, 3);
	assert_int_equal(at.ready, 0);
	server_stop(&at);
}

/* ---- too many ---- */

/* Keeps the loop's thread where it is, until the test says so. */
typedef struct block {
	weir_post post;
	_Atomic bool blocked, go;
} block;

static void block_run(weir_post *post, void *arg)
{
	block *b = arg;
	b->blocked = true;
	while (!b->go)
		check_breathe();
}

static void block_loop(block *b, server *at)
{
	*b = (block){.post = {.run = block_run, .arg = b}};
	weir_loop_post(weir_domain_loop(at->domain, 0), &b->post);
	CHECK_EVENTUALLY(b->blocked);
}

/* A client on the same loop, which says something as soon as it has been answered: how often shows how often the loop went round. */
typedef struct pinger {
	weir_link link;
	weir_post post;
	server *to;
	weir_conn_ops ops;
	_Atomic uint64_t pings;
	_Atomic bool closed, stop;
} pinger;

static void pinger_ready(weir_link *link)
{
	weir_link_write(link, "ping", 4);
}

static void pinger_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	pinger *p = (pinger *)(void *)link;
	p->pings++;
	if (p->stop)
		weir_link_close(link);
	else
		weir_link_write(link, "ping", 4);
}

static void pinger_closed(weir_link *link, int why)
{
	pinger *p = (pinger *)(void *)link;
	weir_tls_session_free(link);
	p->closed = true;
}

static const weir_link_ops pinger_ops = {.ready = pinger_ready, .data = pinger_data, .closed = pinger_closed};

static void pinger_start(weir_post *post, void *arg)
{
	pinger *p = arg;
	weir_conn *conn;
	p->link.ops = &pinger_ops;
	if (weir_tls_connect(&p->link, "a.test", certificates.ca, 0) != 0 ||
	    weir_conn_open(weir_loop_self(), (struct sockaddr *)&p->to->address, sizeof(p->to->address),
			   &weir_tls_conn_ops, NULL, p, &conn) != 0)
		abort();
}

enum { CROWD = 200, ROOM = 16 };

/* What became of one of a crowd: served, or turned away with an alert. */
static bool finish_one(carrier *k, size_t *shed)
{
	uint8_t bytes[4096];
	for (;;) {
		ssize_t n = recv(k->c.fd, bytes, sizeof(bytes), 0);
		if (n <= 0) {
			(*shed)++;
			return false;
		}
		BIO_write(k->in, bytes, (int)n);
		size_t answer = carrier_bytes(k, bytes, sizeof(bytes));
		if (answer > 0 && send(k->c.fd, bytes, answer, MSG_NOSIGNAL) < 0)
			continue;
		if (SSL_is_init_finished(k->c.ssl))
			return true;
	}
}

static void sheds_a_flood_and_serves_the_others(void **state)
{
	server at = {.mode = ECHO, .capacity = ROOM, .turn_ns = 1};
	pinger p = {.to = &at};
	static carrier crowd[CROWD];
	size_t served = 0, shed = 0;
	block b;
	server_start(&at, *state);
	p.post = (weir_post){.run = pinger_start, .arg = &p};
	weir_loop_post(weir_domain_loop(at.domain, 0), &p.post);
	CHECK_EVENTUALLY(p.pings > 3);
	weir_stage_stats before = server_stats(&at);
	block_loop(&b, &at);
	uint64_t pings = p.pings;
	for (int i = 0; i < CROWD; i++) {
		uint8_t bytes[4096];
		carrier_new(&crowd[i], &at, TLS1_2_VERSION);
		size_t length = carrier_bytes(&crowd[i], bytes, sizeof(bytes));
		say_bytes(crowd[i].c.fd, bytes, length);
	}
	b.go = true;
	for (int i = 0; i < CROWD; i++)
		served += finish_one(&crowd[i], &shed);
	uint64_t pings_after = p.pings;
	weir_stage_stats after = server_stats(&at);
	/* One step a turn, and traffic in every turn: a ping and its answer take a few. */
	uint64_t steps = after.completed - before.completed;
	assert_true(steps >= ROOM);
	assert_true(pings_after - pings >= steps / 8);
	assert_int_equal(served + shed, CROWD);
	assert_true(served >= 1 && shed >= 1);
	assert_int_equal(after.shed, after.by_verdict[WEIR_SHED_FULL]);
	assert_int_equal(after.shed, shed);
	assert_int_equal(after.failed, 0);
	assert_int_equal(at.ready, (int)served + 1);
	for (int i = 0; i < CROWD; i++)
		carrier_free(&crowd[i]);
	CHECK_EVENTUALLY(at.closed == CROWD);
	p.stop = true;
	CHECK_EVENTUALLY(p.closed);
	server_stop(&at);
}

/* A client that goes on talking while its step waits is not listened to: what it says stays on its side. */
static void collects_nothing_while_a_step_waits(void **state)
{
	server at = {.mode = ECHO, .capacity = 256, .turn_ns = 1};
	static carrier crowd[40];
	static const uint8_t head[5] = {0x16, 3, 3, 0x03, 0xfb};
	static uint8_t flood[100 * 1024];
	block b;
	server_start(&at, *state);
	for (size_t i = 0; i < sizeof(flood); i += 1024)
		memcpy(flood + i, head, sizeof(head));
	block_loop(&b, &at);
	for (int i = 0; i < 40; i++) {
		uint8_t bytes[4096];
		carrier_new(&crowd[i], &at, 0);
		size_t length = carrier_bytes(&crowd[i], bytes, sizeof(bytes));
		say_bytes(crowd[i].c.fd, bytes, length);
		say_bytes(crowd[i].c.fd, flood, sizeof(flood));
	}
	b.go = true;
	for (int i = 0; i < 40; i++) {
		uint8_t end[16];
		hear_to_end(crowd[i].c.fd, end, sizeof(end));
		carrier_free(&crowd[i]);
	}
	CHECK_EVENTUALLY(at.closed == 40);
	/* By OpenSSL, for what came after the ClientHello, and not for too much of it. */
	assert_int_equal(at.overfull, 0);
	assert_int_equal(at.ready, 0);
	server_stop(&at);
}

/* Those in the queue leave before it is their turn. */
static void forgets_who_has_left(void **state)
{
	server at = {.mode = ECHO, .capacity = 256, .turn_ns = 1};
	static carrier crowd[100];
	block b;
	server_start(&at, *state);
	block_loop(&b, &at);
	for (int i = 0; i < 100; i++) {
		uint8_t bytes[4096];
		carrier_new(&crowd[i], &at, 0);
		size_t length = carrier_bytes(&crowd[i], bytes, sizeof(bytes));
		say_bytes(crowd[i].c.fd, bytes, length);
	}
	b.go = true;
	/* Some steps are waiting by now. */
	CHECK_EVENTUALLY(server_stats(&at).admitted > 20);
	struct linger now = {.l_onoff = 1};
	for (int i = 0; i < 100; i++) {
		setsockopt(crowd[i].c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		carrier_free(&crowd[i]);
	}
	CHECK_EVENTUALLY(at.closed == at.opened && at.closed > 20);
	CHECK_EVENTUALLY(server_stats(&at).in_flight == 0);
	/* It goes on as if nothing had been. */
	client c;
	assert_int_equal(client_connect(&c, &at, &anything), 1);
	client_echo(&c, "hello");
	client_bye(&c);
	server_stop(&at);
}

/* The world stops while steps wait: they are let go of. */
static void stops_with_handshakes_waiting(void **state)
{
	server at = {.mode = ECHO, .capacity = 256, .turn_ns = 1};
	static carrier crowd[50];
	block b;
	server_start(&at, *state);
	block_loop(&b, &at);
	for (int i = 0; i < 50; i++) {
		uint8_t bytes[4096];
		carrier_new(&crowd[i], &at, 0);
		size_t length = carrier_bytes(&crowd[i], bytes, sizeof(bytes));
		say_bytes(crowd[i].c.fd, bytes, length);
	}
	b.go = true;
	CHECK_EVENTUALLY(server_stats(&at).admitted > 5);
	weir_world_stop(at.world, 0, NULL);
	weir_listener_free(&at.listener);
	assert_int_equal(at.opened, at.closed);
	assert_int_equal(weir_world_check(at.world), 0);
	weir_world_free(&at.world);
	weir_tls_unref(at.tls);
	for (int i = 0; i < 50; i++)
		carrier_free(&crowd[i]);
}

/* New settings while old handshakes and sessions go on with theirs. */
static void settings_may_be_replaced(void **state)
{
	server at = {.mode = ECHO};
	uint8_t bytes[4096];
	carrier k;
	client c;
	server_start(&at, *state);
	assert_int_equal(client_connect(&c, &at, &anything), 1);
	client_echo(&c, "hello");
	carrier_new(&k, &at, 0);
	size_t length = carrier_bytes(&k, bytes, sizeof(bytes));
	say_bytes(k.c.fd, bytes, length);
	length = carrier_answer(&k, bytes, sizeof(bytes));
	block b;
	block_loop(&b, &at);
	weir_tls *before = at.tls;
	weir_tls_certificate certificate = {certificates.b, certificates.b_key};
	weir_tls_options options = {.certificates = &certificate, .certificate_count = 1};
	assert_int_equal(weir_tls_new(&options, &at.tls), 0);
	weir_tls_unref(before);
	b.go = true;
	say_bytes(k.c.fd, bytes, length);
	CHECK_EVENTUALLY(at.ready == 2);
	client_echo(&c, "still");
	client other;
	assert_int_equal(client_connect(&other, &at, &anything), 1);
	client_echo(&other, "hello");
	client_bye(&other);
	client_bye(&c);
	carrier_free(&k);
	server_stop(&at);
}

/* ---- out of memory ---- */

/* Each allocation of a connection fails in turn: it costs that connection only. */
static void survives_every_failed_allocation(void **state)
{
	server at = {.mode = ECHO, .output_bytes = 30000};
	server_start(&at, *state);
	bool whole = false;
	for (uint64_t nth = 1; nth < 60; nth++) {
		client c;
		char answer[5];
		weir_mem_fail_after(nth);
		whole = client_connect(&c, &at, &anything) == 1 && SSL_write(c.ssl, "hello", 5) == 5 &&
			SSL_read(c.ssl, answer, 5) == 5;
		weir_mem_fail_after(0);
		ERR_clear_error();
		client_free(&c);
		CHECK_EVENTUALLY(at.closed == at.opened);
	}
	assert_true(whole);
	server_stop(&at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(survives_a_cut_at_every_byte),
		ON_BOTH(takes_bytes_one_by_one),
		ON_BOTH(sends_a_flight_longer_than_its_bound),
		ON_BOTH(a_handshake_in_crumbs_is_refused),
		ON_BOTH(refuses_what_is_no_tls_without_a_step),
		ON_BOTH(refuses_nonsense_in_records),
		ON_BOTH(may_be_closed_at_any_time),
		ON_BOTH(sheds_a_flood_and_serves_the_others),
		ON_BOTH(collects_nothing_while_a_step_waits),
		ON_BOTH(forgets_who_has_left),
		ON_BOTH(stops_with_handshakes_waiting),
		ON_BOTH(settings_may_be_replaced),
		ON_BOTH(survives_every_failed_allocation),
	};
	return cmocka_run_group_tests(tests, certificates_setup, certificates_teardown);
}
