/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes through a session: bounds, pushing back, files, and how it ends. */
#include "on_tls.h"

static const client_options anything = {.version = 0};
static const client_options version[] = {{.version = TLS1_2_VERSION}, {.version = TLS1_3_VERSION}};

static void connect_to(client *c, server *at, const client_options *options)
{
	assert_int_equal(client_connect(c, at, options), 1);
}

/* Reads a pattern to its end; returns its length. */
static size_t hear_pattern(client *c)
{
	size_t got = 0;
	static uint8_t piece[65536];
	for (;;) {
		int n = SSL_read(c->ssl, piece, sizeof(piece));
		if (n <= 0)
			return got;
		for (int i = 0; i < n; i++)
			if (piece[i] != pattern_byte(got + (size_t)i))
				fail_msg("byte %zu is wrong", got + (size_t)i);
		got += (size_t)n;
	}
}

/* ---- bulk ---- */

/* What is encrypted counts with what surrounds it: 22 bytes and more a record, the smallest of which have 1400; and tickets. */
static size_t most_for(size_t bound)
{
	return bound + bound / 32 + 1000;
}

static void sends_bulk_to_a_slow_reader(void **state)
{
	enum { AMOUNT = 6000000, BOUND = 100000 };
	for (int i = 0; i < 2; i++) {
		server at = {.mode = SEND, .amount = AMOUNT, .output_bytes = BOUND, .narrow = true};
		client c;
		client_options options = {.version = version[i].version, .small_buffers = true};
		server_start(&at, *state);
		connect_to(&c, &at, &options);
		/* It stops when its bound is met, until somebody reads. */
		CHECK_EVENTUALLY(at.refused >= 1);
		assert_int_equal(hear_pattern(&c), AMOUNT);
		assert_int_equal(SSL_get_error(c.ssl, 0), SSL_ERROR_ZERO_RETURN);
		client_free(&c);
		CHECK_EVENTUALLY(at.closed == 1);
		assert_int_equal(at.last_why, 0);
		assert_true(at.drains >= 1);
		assert_true(at.most_waiting > BOUND / 2 && at.most_waiting <= most_for(BOUND));
		server_stop(&at);
	}
}

/* Every bound works, also one below a record or the least there is. */
static void keeps_to_any_bound(void **state)
{
	static const uint32_t bounds[] = {1, 4096, 5000, 16384, 20001, 50000, 400000};
	for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		enum { AMOUNT = 700001 };
		server at = {.mode = CHUNKED, .amount = AMOUNT, .output_bytes = bounds[i]};
		client c;
		if (bounds[i] == 1)
			at.output_bytes = 4096; /* it is raised to that */
		uint32_t bound = at.output_bytes;
		server_start(&at, *state);
		connect_to(&c, &at, &anything);
		if (bound < 20000) {
			/* The protocol of these tests writes up to 20000 at once: more than there will ever be room for. */
			CHECK_EVENTUALLY(at.drains >= 3);
			client_free(&c);
		} else {
			assert_int_equal(hear_pattern(&c), AMOUNT);
			client_free(&c);
		}
		server_stop(&at);
		assert_true(at.most_waiting <= most_for(bound));
	}
}

typedef struct uploader {
	client *c;
	size_t amount;
} uploader;

static void *upload(void *arg)
{
	uploader *u = arg;
	static uint8_t piece[30000];
	for (size_t done = 0; done < u->amount;) {
		size_t length = u->amount - done < sizeof(piece) ? u->amount - done : sizeof(piece);
		for (size_t i = 0; i < length; i++)
			piece[i] = pattern_byte(done + i);
		int n = SSL_write(u->c->ssl, piece, (int)length);
		if (n <= 0)
			return NULL;
		done += (size_t)n;
	}
	return u;
}

/*
 * Two threads on one SSL of a client are not allowed, so the echo is taken by a second look: the first part is written while nobody reads, until the server has
 * paused; then the rest is written by as much as is read.
 */
static void pushes_back_on_who_does_not_read(void **state)
{
	enum { BOUND = 60000 };
	server at = {.mode = ECHO, .output_bytes = BOUND, .narrow = true};
	client c;
	client_options options = {.small_buffers = true};
	size_t said = 0, heard = 0;
	static uint8_t piece[16000], answer[16000];
	server_start(&at, *state);
	connect_to(&c, &at, &options);
	fcntl(c.fd, F_SETFL, O_NONBLOCK);
	SSL_set_mode(c.ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	bool reading = false;
	unsigned rounds = 0;
	while (heard < 3000000 && ++rounds < 4000000) {
		for (size_t i = 0; i < sizeof(piece); i++)
			piece[i] = pattern_byte(said + i);
		int n = said < 3000000 ? SSL_write(c.ssl, piece, sizeof(piece)) : 0;
		said += n > 0 ? (size_t)n : 0;
		reading = reading || at.paused > 0;
		int got = reading ? SSL_read(c.ssl, answer, sizeof(answer)) : 0;
		for (int i = 0; i < got; i++)
			if (answer[i] != pattern_byte(heard + (size_t)i))
				fail_msg("byte %zu is wrong", heard + (size_t)i);
		heard += got > 0 ? (size_t)got : 0;
		if (n <= 0 && got <= 0)
			check_breathe();
	}
	assert_true(heard >= 3000000);
	assert_true(at.paused > 0);
	assert_int_equal(at.data_while_paused, 0);
	assert_true(at.most_waiting <= most_for(BOUND));
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	server_stop(&at);
}

static void receives_bulk(void **state)
{
	server at = {.mode = SILENT};
	client c;
	uploader u = {.c = &c, .amount = 5000000};
	server_start(&at, *state);
	connect_to(&c, &at, &anything);
	assert_non_null(upload(&u));
	CHECK_EVENTUALLY(at.bytes == u.amount);
	client_bye(&c);
	server_stop(&at);
}

/* ---- outside of the link's own calls ---- */

static void write_some(weir_post *post, void *arg)
{
	peer *p = arg;
	for (int i = 0; i < 10; i++)
		if (weir_link_write(&p->link, "one", 3) != 0)
			abort();
}

static void write_and_flush(weir_post *post, void *arg)
{
	peer *p = arg;
	if (weir_link_write(&p->link, "two", 3) != 0)
		abort();
	weir_link_flush(&p->link);
	/* It is with the kernel. */
	if (strcmp(p->at->backend, "epoll") == 0 && weir_link_output(&p->link) != 0)
		abort();
}

/* What is written in one turn goes out at its end, as one record. */
static void sends_what_is_written_between_calls(void **state)
{
	server at = {.mode = TOLD};
	client c;
	char answer[64];
	server_start(&at, *state);
	connect_to(&c, &at, &anything);
	CHECK_EVENTUALLY(at.holder != NULL);
	weir_post post = {.run = write_some, .arg = at.holder};
	weir_loop_post(weir_domain_loop(at.domain, 0), &post);
	assert_int_equal(SSL_read(c.ssl, answer, sizeof(answer)), 30);
	weir_post second = {.run = write_and_flush, .arg = at.holder};
	weir_loop_post(weir_domain_loop(at.domain, 0), &second);
	client_hear(&c, answer, 3);
	assert_memory_equal(answer, "two", 3);
	client_bye(&c);
	server_stop(&at);
}

/* ---- pausing ---- */

/* Several records come at once; a pause in the first call stops the others, until somebody resumes. */
static void tells_nothing_while_paused(void **state)
{
	server at = {.mode = HOLD};
	client c;
	static char much[16000];
	server_start(&at, *state);
	connect_to(&c, &at, &anything);
	for (int i = 0; i < 20; i++)
		client_say(&c, much, sizeof(much));
	CHECK_EVENTUALLY(at.paused == 1);
	for (int i = 0; i < 20; i++)
		client_say(&c, much, 10);
	/* Turns go by: others are served. */
	client other;
	connect_to(&other, &at, &anything);
	client_say(&other, "x", 1);
	size_t before = at.bytes;
	client_bye(&other);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.data_while_paused, 0);
	assert_true(before <= 16384 + 1);
	weir_loop_post(weir_domain_loop(at.domain, 0), &at.holder->post);
	CHECK_EVENTUALLY(at.bytes == 20 * sizeof(much) + 20 * 10 + 1);
	client_bye(&c);
	server_stop(&at);
}

/* ---- files ---- */

static int make_file(size_t length)
{
	FILE *file = tmpfile();
	assert_non_null(file);
	for (size_t i = 0; i < length; i++)
		fputc(pattern_byte(i), file);
	fflush(file);
	int fd = dup(fileno(file));
	fclose(file);
	return fd;
}

static void check_file_comes(client *c, size_t length)
{
	char word[4];
	uint8_t *all = malloc(length);
	client_hear(c, word, 4);
	assert_memory_equal(word, "head", 4);
	client_hear(c, all, length);
	for (size_t i = 0; i < length; i++)
		if (all[i] != pattern_byte(i))
			fail_msg("byte %zu is wrong", i);
	client_hear(c, word, 4);
	assert_memory_equal(word, "tail", 4);
	assert_int_equal(SSL_read(c->ssl, word, 4), 0);
	assert_int_equal(SSL_get_error(c->ssl, 0), SSL_ERROR_ZERO_RETURN);
	free(all);
}

static void sends_files(void **state)
{
	static const size_t lengths[] = {1, 1000, 16384, 3000000};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		server at = {.mode = SEND_FILE, .amount = lengths[i], .file = make_file(lengths[i])};
		client c;
		server_start(&at, *state);
		connect_to(&c, &at, &version[i % 2]);
		check_file_comes(&c, lengths[i]);
		client_free(&c);
		CHECK_EVENTUALLY(at.closed == 1);
		server_stop(&at);
		assert_int_equal(at.overs, 1);
		assert_int_equal(at.last_why, 0);
		close(at.file);
	}
}

/* The owner of a file hears exactly once, whatever happens to it. */
static void a_file_that_shrank_ends_the_connection(void **state)
{
	server at = {.mode = SEND_FILE, .amount = 200000, .file = make_file(100000)};
	client c;
	char waste[4096];
	int n;
	server_start(&at, *state);
	connect_to(&c, &at, &anything);
	while ((n = SSL_read(c.ssl, waste, sizeof(waste))) > 0)
		;
	/* No close_notify: it is not whole. */
	assert_int_not_equal(SSL_get_error(c.ssl, n), SSL_ERROR_ZERO_RETURN);
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.last_why, -EIO);
	assert_int_equal(at.overs, 1);
	server_stop(&at);
	close(at.file);
}

static void a_file_is_over_when_the_client_leaves(void **state)
{
	server at = {.mode = SEND_FILE, .amount = 30000000, .narrow = true, .file = make_file(30000000)};
	client c;
	server_start(&at, *state);
	connect_to(&c, &at, &(client_options){.small_buffers = true});
	CHECK_EVENTUALLY(at.ready == 1);
	struct linger now = {.l_onoff = 1};
	setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.overs, 1);
	assert_int_not_equal(at.last_why, 0);
	server_stop(&at);
	close(at.file);
}

/* A disk that does not have it yet, and then one that never says so. */
static _Atomic unsigned disk_asked, disk_waited;
static bool disk_never_ready;

static int64_t slow_disk(int fd, void *into, size_t length, uint64_t offset, bool wait)
{
	disk_asked++;
	if (wait)
		disk_waited++;
	else if (disk_never_ready || disk_asked % 3 != 0)
		return -EAGAIN;
	return pread(fd, into, length, (off_t)offset);
}

static int64_t broken_disk(int fd, void *into, size_t length, uint64_t offset, bool wait)
{
	return -EBADMSG;
}

static void does_not_wait_for_a_disk(void **state)
{
	for (int never = 0; never < 2; never++) {
		size_t length = never ? 20000 : 100000;
		server at = {.mode = SEND_FILE, .amount = length, .file = make_file(length)};
		client c;
		disk_never_ready = never != 0;
		disk_asked = disk_waited = 0;
		weir_tls_file_set_read(slow_disk);
		server_start(&at, *state);
		connect_to(&c, &at, &anything);
		check_file_comes(&c, length);
		client_free(&c);
		server_stop(&at);
		weir_tls_file_set_read(NULL);
		assert_int_equal(at.overs, 1);
		assert_true(disk_asked > 10);
		assert_int_equal(disk_waited, never ? 2 : 0);
		close(at.file);
	}
}

static void a_disk_that_fails_ends_the_connection(void **state)
{
	server at = {.mode = SEND_FILE, .amount = 1000, .file = make_file(1000)};
	client c;
	weir_tls_file_set_read(broken_disk);
	server_start(&at, *state);
	connect_to(&c, &at, &anything);
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.last_why, -EBADMSG);
	assert_int_equal(at.overs, 1);
	server_stop(&at);
	weir_tls_file_set_read(NULL);
	close(at.file);
}

/* ---- ends ---- */

static void says_goodbye_first(void **state)
{
	for (int i = 0; i < 2; i++) {
		server at = {.mode = HANG_UP};
		client c;
		char byte;
		server_start(&at, *state);
		connect_to(&c, &at, &version[i]);
		assert_int_equal(SSL_read(c.ssl, &byte, 1), 0);
		assert_int_equal(SSL_get_error(c.ssl, 0), SSL_ERROR_ZERO_RETURN);
		client_free(&c);
		CHECK_EVENTUALLY(at.closed == 1);
		assert_int_equal(at.last_why, 0);
		server_stop(&at);
	}
}

/* The client has said that it will send no more, and still gets its answer. */
static void answers_a_peer_that_has_ended(void **state)
{
	for (int i = 0; i < 2; i++) {
		server at = {.mode = FAREWELL};
		client c;
		char word[4];
		server_start(&at, *state);
		connect_to(&c, &at, &version[i]);
		client_say(&c, "question", 8);
		SSL_shutdown(c.ssl);
		client_hear(&c, word, 3);
		assert_memory_equal(word, "bye", 3);
		assert_int_equal(SSL_read(c.ssl, word, 1), 0);
		assert_int_equal(SSL_get_error(c.ssl, 0), SSL_ERROR_ZERO_RETURN);
		client_free(&c);
		CHECK_EVENTUALLY(at.closed == 1);
		assert_int_equal(at.eofs, 1);
		assert_int_equal(at.bytes, 8);
		assert_int_equal(at.last_why, 0);
		server_stop(&at);
	}
}

static void notices_a_stream_that_was_cut(void **state)
{
	for (int i = 0; i < 2; i++) {
		server at = {.mode = ECHO};
		client c;
		server_start(&at, *state);
		connect_to(&c, &at, &version[i]);
		client_echo(&c, "hello");
		client_free(&c); /* without close_notify */
		CHECK_EVENTUALLY(at.closed == 1);
		assert_int_equal(at.last_why, -ECONNABORTED);
		assert_int_equal(at.eofs, 0);
		check_contains(server_text(&at, at.error), "close_notify");
		server_stop(&at);
	}
}

/* A record of which one bit was changed on its way. */
static void notices_forged_bytes(void **state)
{
	for (int i = 0; i < 2; i++) {
		server at = {.mode = ECHO};
		client c;
		uint8_t record[200];
		server_start(&at, *state);
		connect_to(&c, &at, &version[i]);
		client_echo(&c, "hello");
		BIO *memory = BIO_new(BIO_s_mem());
		SSL_set0_wbio(c.ssl, memory);
		client_say(&c, "transfer 1 to Bob", 17);
		int length = BIO_read(memory, record, sizeof(record));
		assert_true(length > 17);
		record[length - 3] ^= 4;
		say_bytes(c.fd, record, (size_t)length);
		/* The alert, and then the end. */
		assert_true(SSL_read(c.ssl, record, 1) <= 0);
		assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
		ERR_clear_error();
		close(c.fd);
		CHECK_EVENTUALLY(at.closed == 1);
		assert_int_equal(at.last_why, -EPROTO);
		assert_int_equal(at.bytes, 5);
		c.fd = -1;
		client_free(&c);
		server_stop(&at);
	}
}

static void may_abort_in_data(void **state)
{
	server at = {.mode = ABORT};
	client c;
	char waste[100];
	server_start(&at, *state);
	connect_to(&c, &at, &anything);
	/* Several records, which may come at once: none is told of after the abort. */
	for (int i = 0; i < 3; i++)
		SSL_write(c.ssl, "hello", 5);
	while (SSL_read(c.ssl, waste, sizeof(waste)) > 0)
		;
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.last_why, -ECANCELED);
	assert_true(at.bytes <= 15);
	server_stop(&at);
}

static void refuses_to_negotiate_again(void **state)
{
	server at = {.mode = ECHO};
	client c;
	server_start(&at, *state);
	connect_to(&c, &at, &version[0]);
	client_echo(&c, "hello");
	assert_int_equal(SSL_renegotiate(c.ssl), 1);
	assert_true(SSL_do_handshake(c.ssl) <= 0);
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
	ERR_clear_error();
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.ready, 1);
	server_stop(&at);
}

/* New keys in mid-stream, and an answer wanted each time; far more of them than there is room for answers while nobody reads. */
static void changes_keys_as_often_as_asked(void **state)
{
	server at = {.mode = ECHO, .output_bytes = 4096};
	client c;
	server_start(&at, *state);
	connect_to(&c, &at, &version[1]);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		client_echo(&c, "hello");
	}
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		client_say(&c, "x", 1);
	}
	char answers[1000];
	client_hear(&c, answers, 1000);
	client_bye(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.last_why, 0);
	assert_int_equal(at.bytes, 1015);
	server_stop(&at);
}

/* Connections are alive when the world goes: all are told. */
static void stops_with_sessions_open(void **state)
{
	server at = {.mode = ECHO};
	client c[3];
	server_start(&at, *state);
	for (int i = 0; i < 3; i++) {
		connect_to(&c[i], &at, &anything);
		client_echo(&c[i], "hello");
	}
	assert_int_equal(weir_world_stop(at.world, 60 * WEIR_NS_PER_S, NULL), 0);
	assert_int_equal(at.closed, 3);
	assert_int_equal(at.last_why, -ECANCELED);
	weir_listener_free(&at.listener);
	weir_world_free(&at.world);
	weir_tls_unref(at.tls);
	for (int i = 0; i < 3; i++)
		client_free(&c[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(sends_bulk_to_a_slow_reader),
		ON_BOTH(keeps_to_any_bound),
		ON_BOTH(pushes_back_on_who_does_not_read),
		ON_BOTH(receives_bulk),
		ON_BOTH(sends_what_is_written_between_calls),
		ON_BOTH(tells_nothing_while_paused),
		ON_BOTH(sends_files),
		ON_BOTH(a_file_that_shrank_ends_the_connection),
		ON_BOTH(a_file_is_over_when_the_client_leaves),
		ON_BOTH(does_not_wait_for_a_disk),
		ON_BOTH(a_disk_that_fails_ends_the_connection),
		ON_BOTH(says_goodbye_first),
		ON_BOTH(answers_a_peer_that_has_ended),
		ON_BOTH(notices_a_stream_that_was_cut),
		ON_BOTH(notices_forged_bytes),
		ON_BOTH(may_abort_in_data),
		ON_BOTH(refuses_to_negotiate_again),
		ON_BOTH(changes_keys_as_often_as_asked),
		ON_BOTH(stops_with_sessions_open),
	};
	return cmocka_run_group_tests(tests, certificates_setup, certificates_teardown);
}
