/* SPDX-License-Identifier: Apache-2.0 */
/* A server with TLS as an application makes one: by weir/tls.h and weir/http.h. */
#include "support/on_http.h"

#include <openssl/ssl.h>
#include <weir/tls.h>

#include "http/server.h"
#include "support/tls_certificates.h"
#include "tls/priv.h"

static void page_secure(site *s, weir_request *request)
{
	weir_request_reply_text(request, 200,
				weir_request_secure(request) ? WEIR_SPAN("tls") : WEIR_SPAN("plain"));
}

static const page pages[] = {PAGE("/", page_secure), NO_PAGE};

static weir_tls *make_tls(const char *chain, const char *key)
{
	weir_tls *tls = NULL;
	weir_tls_certificate certificate = {chain, key};
	must(weir_tls_new(&(weir_tls_options){.certificates = &certificate, .certificate_count = 1}, &tls));
	return tls;
}

static void connect_tls(SSL *ssl)
{
	int connected;
	do
		connected = SSL_connect(ssl);
	while (connected != 1 && SSL_get_error(ssl, connected) == SSL_ERROR_WANT_READ);
	assert_int_equal(connected, 1);
}

static size_t read_all(SSL *ssl, char *text, size_t size)
{
	size_t length = 0;
	for (int got; length < size - 1;) {
		got = SSL_read(ssl, text + length, (int)(size - 1 - length));
		if (got > 0)
			length += (size_t)got;
		else if (SSL_get_error(ssl, got) != SSL_ERROR_WANT_READ)
			break;
	}
	text[length] = '\0';
	return length;
}

/* Asks once, and tells the common name of who answered. */
static void ask_who(site *s, char *ret_name, size_t size)
{
	static const char request[] = "GET / HTTP/1.0\r\n\r\n";
	char text[1024];
	int fd = dial(s);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fd);
	connect_tls(ssl);
	X509 *peer = SSL_get1_peer_certificate(ssl);
	X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, ret_name, (int)size);
	X509_free(peer);
	assert_int_equal(SSL_write(ssl, request, sizeof(request) - 1), sizeof(request) - 1);
	read_all(ssl, text, sizeof(text));
	check_contains(text, "\r\n\r\ntls");
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
}

static void serves_and_renews(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .tls = make_tls(certificates.a, certificates.a_key)};
	char first[64], second[64];
	site_open(&s);
	/* The listener has a reference of its own. */
	weir_tls_unref(s.tls);
	ask_who(&s, first, sizeof(first));
	weir_tls *renewed = make_tls(certificates.b, certificates.b_key);
	weir_tls_unref(weir_tls_ref(renewed));
	must(weir_http_set_tls(s.http, 0, renewed));
	weir_tls_unref(renewed);
	ask_who(&s, second, sizeof(second));
	assert_string_not_equal(first, second);
	site_end(&s);
}

/* How many hold it: this test, the listener, sessions. */
static int holders(weir_tls *tls)
{
	return (int)atomic_load(&tls->shared.refs);
}

static void lets_go_of_what_was_replaced(void **state)
{
	skip_without(state);
	weir_tls *first = make_tls(certificates.a, certificates.a_key);
	weir_tls *second = make_tls(certificates.b, certificates.b_key);
	weir_tls *third = make_tls(certificates.a, certificates.a_key);
	site s = {.pages = pages, .tls = first};
	site_open(&s);
	must(weir_http_set_tls(s.http, 0, second));
	/* A thread may be about to use it, so it is not freed before all loops have turned. */
	assert_int_equal(holders(first), 2);
	weir_http_slim(s.http);
	assert_int_equal(holders(first), 2);
	must(weir_http_set_tls(s.http, 0, third));
	CHECK_EVENTUALLY((weir_http_slim(s.http), holders(first) == 1 && holders(second) == 1));
	assert_int_equal(holders(third), 2);
	char name[64];
	ask_who(&s, name, sizeof(name));
	site_end(&s);
	weir_tls_unref(first);
	weir_tls_unref(second);
	weir_tls_unref(third);
}

static void renews_only_what_there_is(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	weir_tls *tls = make_tls(certificates.a, certificates.a_key);
	site_open(&s);
	assert_int_equal(weir_http_set_tls(s.http, 0, tls), -EINVAL);
	assert_int_equal(weir_http_set_tls(s.http, 1, tls), -EINVAL);
	expect_contains(&s, "GET / HTTP/1.0\r\n\r\n", "\r\n\r\nplain");
	weir_tls_unref(tls);
	weir_tls_unref(NULL);
	site_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(serves_and_renews),
		ON_BOTH(lets_go_of_what_was_replaced),
		ON_BOTH(renews_only_what_there_is),
	};
	return cmocka_run_group_tests(tests, certificates_setup, certificates_teardown);
}
