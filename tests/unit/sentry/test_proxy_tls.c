/* SPDX-License-Identifier: Apache-2.0 */
/* Backends behind TLS; each is OpenSSL's on a blocking socket of the test. */
#include "on_site.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "support/tls_certificates.h"

#define GET      "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

typedef struct secure {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
} secure;

/* As for plain sockets: a system call that was interrupted is made again. */
#define SSL_AGAIN(result, ssl, call) \
	do {                         \
		result = call;       \
	} while (result <= 0 && SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ)

/* The next connection, with its handshake; false: that failed. */
static bool shake(secure *t, const site *s, const char *chain, const char *key)
{
	t->ctx = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate_chain_file(t->ctx, chain), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(t->ctx, key, SSL_FILETYPE_PEM), 1);
	t->fd = serve_next(s, 0);
	t->ssl = SSL_new(t->ctx);
	SSL_set_fd(t->ssl, t->fd);
	int accepted;
	SSL_AGAIN(accepted, t->ssl, SSL_accept(t->ssl));
	return accepted == 1;
}

static void secure_end(secure *t)
{
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	close(t->fd);
}

static void secure_hear_head(secure *t)
{
	char got[4096];
	size_t length = 0;
	for (;;) {
		int n;
		SSL_AGAIN(n, t->ssl, SSL_read(t->ssl, got + length, (int)(sizeof(got) - 1 - length)));
		assert_true(n > 0);
		length += (size_t)n;
		got[length] = '\0';
		if (strstr(got, "\r\n\r\n") != NULL)
			return;
	}
}

static void secure_tell(secure *t, const char *text)
{
	int n;
	do {
		n = SSL_write(t->ssl, text, (int)strlen(text));
	} while (n <= 0 && SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_WRITE);
	assert_int_equal(n, (int)strlen(text));
}

static site_options to_address(void)
{
	return (site_options){.backend = {.ca = certificates.ca}};
}

/* A client asks, and the backend, which has this certificate, has heard it; returns the client. */
static int begin(site *s, secure *t, void **state, site_options options, const char *chain, const char *key)
{
	site_open(s, ON(state), options);
	int client = visit(s);
	tell(client, GET);
	assert_true(shake(t, s, chain, key));
	secure_hear_head(t);
	return client;
}

static void answer_and_leave(site *s, secure *t, int client)
{
	secure_tell(t, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	secure_end(t);
	close(client);
	site_close(s);
}

static void requests_go_through_and_the_session_is_kept(void **state)
{
	site s;
	secure t;
	site_open(&s, ON(state), to_address());
	int client = visit(&s);
	for (int i = 0; i < 3; i++) {
		tell(client, GET);
		if (i == 0)
			assert_true(shake(&t, &s, certificates.address, certificates.address_key));
		secure_hear_head(&t);
		secure_tell(&t, OK_HELLO);
		check_contains(hear_head(client), "HTTP/1.1 200");
		must_hear(client, "hello");
	}
	assert_int_equal(site_backend(&s, 0).connects, 1);
	assert_int_equal(site_backend(&s, 0).reused, 2);
	/* It says goodbye while it is idle. */
	SSL_shutdown(t.ssl);
	CHECK_EVENTUALLY(site_backend(&s, 0).open == 0);
	secure_end(&t);
	close(client);
	site_close(&s);
}

static void a_name_is_asked_for_and_verified(void **state)
{
	site s;
	secure t;
	site_options options = to_address();
	options.host = "localhost";
	int client = begin(&s, &t, state, options, certificates.a, certificates.a_key);
	assert_string_equal(SSL_get_servername(t.ssl, TLSEXT_NAMETYPE_host_name), "localhost");
	answer_and_leave(&s, &t, client);
}

static void a_wrong_certificate_is_a_bad_gateway(void **state)
{
	site s;
	secure t;
	site_options options = to_address();
	options.sentry.retry.attempts = 1;
	site_open(&s, ON(state), options);
	int client = visit(&s);
	tell(client, GET);
	/* With TLS 1.3 the server may think that it went well. */
	shake(&t, &s, certificates.b, certificates.b_key);
	check_contains(hear_head(client), "HTTP/1.1 502");
	CHECK_EVENTUALLY(site_logged(&s) == 1);
	check_contains(s.note, "failed=handshake");
	assert_int_equal(site_backend(&s, 0).failures, 1);
	secure_end(&t);
	close(client);
	site_close(&s);
}

static void verification_can_be_waived(void **state)
{
	site s;
	secure t;
	site_options options = to_address();
	options.backend.unverified = true;
	int client = begin(&s, &t, state, options, certificates.stranger, certificates.stranger_key);
	answer_and_leave(&s, &t, client);
}

static void no_handshake_in_time(void **state)
{
	site s;
	site_options options = to_address();
	options.sentry.limits.handshake_ns = 20 * WEIR_NS_PER_MS;
	options.sentry.retry.attempts = 1;
	site_open(&s, ON(state), options);
	int client = visit(&s);
	tell(client, GET);
	int backend = serve_next(&s, 0);
	check_contains(hear_head(client), "HTTP/1.1 504");
	must_end(backend);
	close(backend);
	close(client);
	site_close(&s);
}

/* Cut without a goodbye, it may not be whole. */
static void a_cut_stream_is_cut_for_the_client(void **state)
{
	site s;
	secure t;
	char rest[64] = "";
	int client = begin(&s, &t, state, to_address(), certificates.address, certificates.address_key);
	secure_tell(&t, "HTTP/1.0 200 OK\r\n\r\nabc");
	hear_head(client);
	listen_for(client, "abc\r\n");
	secure_end(&t);
	ssize_t n;
	AGAIN(n, recv(client, rest, sizeof(rest) - 1, 0));
	if (n > 0)
		fail_msg("it goes on with '%s'", rest);
	close(client);
	site_close(&s);
}

static void a_large_answer_and_a_slow_client(void **state)
{
	site s;
	secure t;
	static char block[16384];
	char head[128];
	size_t large = 8u << 20, got = 0, sent = 0;
	int client = begin(&s, &t, state, to_address(), certificates.address, certificates.address_key);
	snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", large);
	secure_tell(&t, head);
	hear_head(client);
	/* As much as fits on the way, then in step. */
	for (; sent < large; sent += sizeof(block)) {
		memset(block, (int)(sent / sizeof(block)), sizeof(block));
		int n;
		do {
			n = SSL_write(t.ssl, block, sizeof(block));
		} while (n <= 0 && SSL_get_error(t.ssl, n) == SSL_ERROR_WANT_WRITE);
		assert_int_equal(n, sizeof(block));
		for (; sent > (1u << 20) && got < sent - (1u << 20);) {
			char byte[16384];
			ssize_t part;
			AGAIN(part, recv(client, byte, sizeof(byte), 0));
			assert_true(part > 0);
			for (ssize_t i = 0; i < part; i += 997)
				assert_int_equal((uint8_t)byte[i],
						 (uint8_t)((got + (size_t)i) / sizeof(block)));
			got += (size_t)part;
		}
	}
	secure_end(&t);
	close(client);
	site_close(&s);
}

static void an_unknown_authority_is_told_at_once(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_reactor(world, "reactor", 1);
	weir_sentry *sentry = NULL;
	weir_origin_options backend = {.url = "https://127.0.0.1:1", .ca = "/nowhere/ca.pem"};
	weir_sentry_options options = {.backends = &backend, .backend_count = 1};
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), -ENOENT);
	check_contains(weir_error(), "/nowhere/ca.pem");
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(requests_go_through_and_the_session_is_kept),
		ON_BOTH(a_name_is_asked_for_and_verified),
		ON_BOTH(a_wrong_certificate_is_a_bad_gateway),
		ON_BOTH(verification_can_be_waived),
		ON_BOTH(no_handshake_in_time),
		ON_BOTH(a_cut_stream_is_cut_for_the_client),
		ON_BOTH(a_large_answer_and_a_slow_client),
		cmocka_unit_test(an_unknown_authority_is_told_at_once),
	};
	return cmocka_run_group_tests(tests, certificates_setup, certificates_teardown);
}
