/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: versions, names, protocols, tickets, certificates of clients; and the sessions to backends. */
#include "on_tls.h"

static const client_options anything = {.version = 0};

/* ---- versions and ciphers ---- */

static void speaks_both_versions(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	server at = {.mode = ECHO};
	server_start(&at, *state);
	for (int i = 0; i < 2; i++) {
		client c;
		assert_int_equal(client_connect(&c, &at, &(client_options){.version = versions[i]}), 1);
		assert_int_equal(SSL_version(c.ssl), versions[i]);
		const char *cipher = SSL_get_cipher_name(c.ssl);
		assert_true(strstr(cipher, "GCM") != NULL || strstr(cipher, "CHACHA20") != NULL);
		for (int j = 0; j < 10; j++)
			client_echo(&c, "hello");
		client_bye(&c);
		CHECK_EVENTUALLY(at.closed == i + 1);
		assert_int_equal(at.last_why, 0);
		assert_int_equal(at.eofs, i + 1);
	}
	weir_stage_stats stats = server_stats(&at);
	assert_int_equal(stats.shed + stats.failed + stats.dropped, 0);
	assert_int_equal(stats.inlined, 0);
	/* ClientHello and Finished of each; the second of TLS 1.3 may come in two records at different times. */
	assert_in_range(stats.completed, 4, 6);
	assert_int_equal(stats.batches, stats.completed);
	server_stop(&at);
}

static void refuses_what_is_too_old(void **state)
{
	server at = {.mode = ECHO};
	weir_tls_certificate certificate = {certificates.a, certificates.a_key};
	weir_tls_options options = {
		.certificates = &certificate, .certificate_count = 1, .min_version = "1.3"};
	client c;
	server_start_with(&at, *state, &options);
	assert_true(client_connect(&c, &at, &(client_options){.version = TLS1_2_VERSION}) <= 0);
	client_free(&c);
	CHECK_EVENTUALLY(at.closed == 1);
	assert_int_equal(at.last_why, -EPROTO);
	check_contains(server_text(&at, at.error), "protocol");
	assert_int_equal(client_connect(&c, &at, &anything), 1);
	client_bye(&c);
	assert_int_equal(server_stats(&at).failed, 1);
	server_stop(&at);
}

static void takes_the_ciphers_it_is_given(void **state)
{
	server at = {.mode = ECHO};
	weir_tls_certificate certificate = {certificates.a, certificates.a_key};
	weir_tls_options options = {.certificates = &certificate,
				    .certificate_count = 1,
				    .ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"};
	client c;
	server_start_with(&at, *state, &options);
	assert_int_equal(client_connect(&c, &at, &(client_options){.version = TLS1_2_VERSION}), 1);
	assert_string_equal(SSL_get_cipher_name(c.ssl), "ECDHE-ECDSA-AES256-GCM-SHA384");
	client_bye(&c);
	server_stop(&at);
}

/* ---- what cannot be made ---- */

static void says_what_is_wrong(void **state)
{
	weir_tls *tls = NULL;
	weir_tls_certificate good = {certificates.a, certificates.a_key};
	const struct {
		weir_tls_certificate certificate;
		weir_tls_options options;
		int error;
		const char *word;
	} rows[] = {
		{{"/no/such.crt", certificates.a_key}, {.certificate_count = 1}, -ENOENT, "/no/such.crt"},
		{{certificates.a, "/no/such.key"}, {.certificate_count = 1}, -ENOENT, "/no/such.key"},
		{{NULL, certificates.a_key}, {.certificate_count = 1}, -EINVAL, "no file"},
		{{certificates.a, certificates.b_key}, {.certificate_count = 1}, -EINVAL, certificates.b_key},
		{{certificates.a_key, certificates.a_key}, {.certificate_count = 1}, -EINVAL, "certificate"},
		{{certificates.a, certificates.a}, {.certificate_count = 1}, -EINVAL, "key"},
		{{certificates.ca, certificates.locked_key}, {.certificate_count = 1}, -EINVAL, "locked.key"},
		{good, {.certificate_count = 0}, -EINVAL, "no certificate"},
		{good, {.certificate_count = 1, .min_version = "1.1"}, -EINVAL, "accepted are 1.2 and 1.3"},
		{good, {.certificate_count = 1, .ciphers = "NONSENSE"}, -EINVAL, "NONSENSE"},
		{good, {.certificate_count = 1, .client_required = true}, -EINVAL, "no client CA"},
		{good, {.certificate_count = 1, .client_ca = "/no/ca.pem"}, -ENOENT, "/no/ca.pem"},
		{good,
		 {.certificate_count = 1, .client_ca = certificates.a_key},
		 -EINVAL,
		 certificates.a_key},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		weir_tls_options options = rows[i].options;
		options.certificates = &rows[i].certificate;
		assert_int_equal(weir_tls_new(&options, &tls), rows[i].error);
		assert_null(tls);
		check_contains(weir_error(), rows[i].word);
	}
	weir_tls_unref(NULL);
}

static void survives_every_failed_allocation(void **state)
{
	weir_tls_certificate both[] = {{certificates.a, certificates.a_key},
				       {certificates.b, certificates.b_key},
				       {certificates.old, certificates.old_key}};
	weir_tls_options options = {.certificates = both, .certificate_count = 3};
	weir_tls *tls = NULL;
	int error = -ENOMEM;
	int tries = 0;
	while (error != 0) {
		weir_mem_fail_after((uint64_t)++tries);
		error = weir_tls_new(&options, &tls);
		weir_mem_fail_after(0);
		assert_true(error == 0 || error == -ENOMEM);
		assert_true(tries < 100);
	}
	assert_true(tries > 5);
	weir_tls_unref(weir_tls_ref(tls));
	weir_tls_unref(tls);
}

/* ---- names ---- */

static const char *shown_name(const client *c)
{
	static char text[64];
	X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(c->ssl)), NID_commonName,
				  text, sizeof(text));
	return text;
}

static void shows_the_certificate_that_has_the_name(void **state)
{
	static const struct {
		const char *asked, *shown;
	} rows[] = {
		{NULL, "a.test"},           {"nobody.test", "a.test"},
		{"a.test", "a.test"}, /* b has it too, but later */
		{"www.a.test", "a.test"},   {"b.test", "b.test"},
		{"B.TEST", "b.test"},       {"x.b.test", "b.test"},
		{"X.b.Test", "b.test"},     {"x.y.b.test", "a.test"}, /* a star is one label */
		{".b.test", "a.test"},      {"xb.test", "a.test"},
		{"old.test", "Old.test"}, /* by its common name */
		{"late.test", "late.test"}, {"x", "a.test"},
	};
	weir_tls_certificate all[] = {{certificates.a, certificates.a_key},
				      {certificates.b, certificates.b_key},
				      {certificates.old, certificates.old_key},
				      {certificates.late, certificates.late_key}};
	weir_tls_options options = {.certificates = all, .certificate_count = 4};
	server at = {.mode = ECHO};
	server_start_with(&at, *state, &options);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		client c;
		int version = i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION;
		assert_int_equal(
			client_connect(&c, &at, &(client_options){.name = rows[i].asked, .version = version}),
			1);
		if (strcmp(shown_name(&c), rows[i].shown) != 0)
			fail_msg("%s got %s", rows[i].asked, shown_name(&c));
		client_echo(&c, "hello");
		client_bye(&c);
	}
	server_stop(&at);
}

/* ---- protocols ---- */

static void chooses_a_protocol(void **state)
{
	static const struct {
		bool http2;
		const char *offered, *chosen; /* chosen NULL: refused */
	} rows[] = {
		{true, "\x02h2\x08http/1.1", "h2"},
		{true, "\x08http/1.1\x02h2", "h2"},
		{true, "\x08http/1.1", "http/1.1"},
		{true, "\x08http/1.0", "http/1.0"},
		{true, NULL, ""},
		{true, "\x03smb\x02h3", NULL},
		{false, "\x02h2\x08http/1.1", "http/1.1"},
		{false, "\x02h2", NULL},
		{false, NULL, ""},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		weir_tls_certificate certificate = {certificates.a, certificates.a_key};
		weir_tls_options options = {
			.certificates = &certificate, .certificate_count = 1, .http2 = rows[i].http2};
		server at = {.mode = ECHO};
		client c;
		const unsigned char *chosen;
		unsigned length;
		server_start_with(&at, *state, &options);
		int result = client_connect(&c, &at, &(client_options){.alpn = rows[i].offered});
		assert_int_equal(result == 1, rows[i].chosen != NULL);
		if (result == 1) {
			SSL_get0_alpn_selected(c.ssl, &chosen, &length);
			assert_int_equal(length, strlen(rows[i].chosen));
			assert_memory_equal(chosen, rows[i].chosen, length);
			client_echo(&c, "hello");
			assert_int_equal(at.h2, strcmp(rows[i].chosen, "h2") == 0);
			client_bye(&c);
		} else {
			client_free(&c);
		}
		server_stop(&at);
	}
}

/* ---- tickets ---- */

/* A whole connection; returns the session for the next one. */
static SSL_SESSION *visit(server *at, int version, SSL_SESSION *session, bool *ret_resumed)
{
	client c;
	int before = at->resumed;
	client_options options = {.version = version, .session = session};
	assert_int_equal(client_connect(&c, at, &options), 1);
	client_echo(&c, "hello"); /* the tickets of TLS 1.3 come before the answer */
	*ret_resumed = SSL_session_reused(c.ssl) == 1;
	assert_int_equal(at->resumed - before, *ret_resumed);
	SSL_SESSION_free(session);
	session = SSL_get1_session(c.ssl);
	client_bye(&c);
	return session;
}

static void resumes_by_ticket(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	server at = {.mode = ECHO, .threads = 2};
	server_start(&at, *state);
	for (int i = 0; i < 2; i++) {
		bool resumed;
		SSL_SESSION *session = visit(&at, versions[i], NULL, &resumed);
		assert_false(resumed);
		/* On whichever thread. */
		for (int j = 0; j < 8; j++) {
			session = visit(&at, versions[i], session, &resumed);
			assert_true(resumed);
		}
		SSL_SESSION_free(session);
	}
	server_stop(&at);
}

#define HOUR_NS (3600 * WEIR_NS_PER_S)

static void turns_ticket_keys_over(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	for (int i = 0; i < 2; i++) {
		server at = {.mode = ECHO};
		bool resumed;
		server_start(&at, *state);
		SSL_SESSION *session = visit(&at, versions[i], NULL, &resumed);
		/* The key is the last hour's: taken, and replaced by one of the new key. */
		weir_tls_let_time_pass(at.tls, HOUR_NS);
		session = visit(&at, versions[i], session, &resumed);
		assert_true(resumed);
		/* By now the first key is gone, but not the second. */
		weir_tls_let_time_pass(at.tls, HOUR_NS);
		session = visit(&at, versions[i], session, &resumed);
		assert_true(resumed);
		weir_tls_let_time_pass(at.tls, 2 * HOUR_NS);
		session = visit(&at, versions[i], session, &resumed);
		assert_false(resumed);
		session = visit(&at, versions[i], session, &resumed);
		assert_true(resumed);
		SSL_SESSION_free(session);
		server_stop(&at);
	}
}

static void the_keys_of_tickets(void **state)
{
	weir_tickets tickets = {0};
	weir_ticket_key first, second, key;
	const uint64_t start_ns = 5 * WEIR_NS_PER_S;
	assert_int_equal(weir_tickets_init(&tickets), 0);
	assert_int_equal(weir_tickets_current(&tickets, start_ns, &first), 0);
	assert_int_equal(weir_tickets_current(&tickets, start_ns + HOUR_NS - 1, &key), 0);
	assert_memory_equal(&key, &first, sizeof(key));
	assert_int_equal(weir_tickets_find(&tickets, first.name, start_ns + HOUR_NS - 1, &key), 1);
	/* Past its hour it is the one before, even if nobody has needed a new one. */
	assert_int_equal(weir_tickets_find(&tickets, first.name, start_ns + HOUR_NS, &key), 2);
	assert_int_equal(weir_tickets_current(&tickets, start_ns + HOUR_NS, &second), 0);
	assert_memory_not_equal(second.name, first.name, sizeof(first.name));
	assert_memory_not_equal(second.cipher, first.cipher, sizeof(first.cipher));
	assert_memory_not_equal(second.mac, first.mac, sizeof(first.mac));
	assert_int_equal(weir_tickets_find(&tickets, second.name, start_ns + HOUR_NS, &key), 1);
	assert_int_equal(weir_tickets_find(&tickets, first.name, start_ns + 2 * HOUR_NS - 1, &key), 2);
	assert_memory_equal(&key, &first, sizeof(key));
	assert_int_equal(weir_tickets_find(&tickets, first.name, start_ns + 2 * HOUR_NS, &key), 0);
	assert_int_equal(weir_tickets_find(&tickets, second.name, start_ns + 2 * HOUR_NS, &key), 2);
	/* After a long silence neither is left. */
	assert_int_equal(weir_tickets_find(&tickets, second.name, start_ns + 9 * HOUR_NS, &key), 0);
	weir_tickets_fini(&tickets);
}

static void gives_no_tickets_where_told_so(void **state)
{
	weir_tls_certificate certificate = {certificates.a, certificates.a_key};
	weir_tls_options options = {.certificates = &certificate, .certificate_count = 1, .no_tickets = true};
	server at = {.mode = ECHO};
	bool resumed;
	server_start_with(&at, *state, &options);
	for (int i = 0; i < 2; i++) {
		int version = i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
		SSL_SESSION *session = visit(&at, version, NULL, &resumed);
		assert_false(SSL_SESSION_has_ticket(session));
		session = visit(&at, version, session, &resumed);
		assert_false(resumed);
		SSL_SESSION_free(session);
	}
	server_stop(&at);
}

/* Whoever gets a copy of the keys of one server cannot open another: each has its own. */
static void tickets_of_another_server_are_worth_nothing(void **state)
{
	server one = {.mode = ECHO}, two = {.mode = ECHO};
	bool resumed;
	server_start(&one, *state);
	server_start(&two, *state);
	SSL_SESSION *session = visit(&one, 0, NULL, &resumed);
	session = visit(&two, 0, session, &resumed);
	assert_false(resumed);
	SSL_SESSION_free(session);
	server_stop(&one);
	server_stop(&two);
}

/* ---- certificates of clients ---- */

/* In TLS 1.3 a client learns of the refusal only when it reads. */
static bool is_let_in(server *at, const client_options *options)
{
	client c;
	char byte;
	bool in = client_connect(&c, at, options) == 1;
	if (in) {
		SSL_write(c.ssl, "x", 1);
		in = SSL_read(c.ssl, &byte, 1) == 1;
	}
	if (in)
		client_bye(&c);
	else
		client_free(&c);
	return in;
}

static void asks_clients_for_certificates(void **state)
{
	const struct {
		const char *certificate, *key, *subject;
		bool in[2]; /* where it is optional, where it is required */
	} rows[] = {
		{NULL, NULL, "", {true, false}},
		{certificates.client, certificates.client_key, "CN=known client,O=Weir tests", {true, true}},
		{certificates.gone, certificates.gone_key, NULL, {false, false}},
		{certificates.stranger, certificates.stranger_key, NULL, {false, false}},
	};
	for (int required = 0; required < 2; required++) {
		weir_tls_certificate certificate = {certificates.a, certificates.a_key};
		weir_tls_options options = {.certificates = &certificate,
					    .certificate_count = 1,
					    .client_ca = certificates.ca,
					    .client_required = required != 0};
		server at = {.mode = ECHO};
		server_start_with(&at, *state, &options);
		for (int i = 0; i < 8; i++) {
			client_options who = {.certificate = rows[i / 2].certificate,
					      .key = rows[i / 2].key,
					      .version = i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION};
			note(&at, at.subject, sizeof(at.subject), "");
			assert_int_equal(is_let_in(&at, &who), rows[i / 2].in[required]);
			CHECK_EVENTUALLY(at.closed == i + 1);
			if (rows[i / 2].in[required])
				assert_string_equal(server_text(&at, at.subject), rows[i / 2].subject);
			else
				assert_int_equal(at.last_why, -EACCES);
		}
		server_stop(&at);
	}
}

/* The subject comes out of the ticket. */
static void knows_a_client_again(void **state)
{
	weir_tls_certificate certificate = {certificates.a, certificates.a_key};
	weir_tls_options options = {.certificates = &certificate,
				    .certificate_count = 1,
				    .client_ca = certificates.ca,
				    .client_required = true};
	server at = {.mode = ECHO};
	server_start_with(&at, *state, &options);
	SSL_SESSION *session = NULL;
	for (int i = 0; i < 3; i++) {
		client c;
		client_options who = {.certificate = certificates.client,
				      .key = certificates.client_key,
				      .session = session};
		note(&at, at.subject, sizeof(at.subject), "");
		assert_int_equal(client_connect(&c, &at, &who), 1);
		client_echo(&c, "hello");
		assert_int_equal(SSL_session_reused(c.ssl), i > 0);
		SSL_SESSION_free(session);
		session = SSL_get1_session(c.ssl);
		client_bye(&c);
		assert_string_equal(server_text(&at, at.subject), "CN=known client,O=Weir tests");
	}
	SSL_SESSION_free(session);
	server_stop(&at);
}

/* ---- sessions to backends ---- */

typedef struct caller {
	weir_link link;
	weir_post post;
	server *to;
	const char *name, *ca;
	bool early; /* the session before the connection */
	weir_conn_ops ops;
	_Atomic int started, ready, closed, why;
	_Atomic size_t bytes;
	char error[128];
} caller;

static void caller_ready(weir_link *link)
{
	caller *c = (caller *)(void *)link;
	c->ready++;
	weir_link_write(link, "hello", 5);
}

static void caller_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	caller *c = (caller *)(void *)link;
	c->bytes += length;
	if (c->bytes == 5)
		weir_link_close(link);
}

static void caller_closed(weir_link *link, int why)
{
	caller *c = (caller *)(void *)link;
	snprintf(c->error, sizeof(c->error), "%s", weir_tls_error(link));
	weir_tls_session_free(link);
	c->why = why;
	c->closed++;
}

static const weir_link_ops caller_ops = {.ready = caller_ready, .data = caller_data, .closed = caller_closed};

static int caller_open(weir_conn *conn, void *arg)
{
	caller *c = arg;
	c->link.conn = conn;
	weir_conn_set_user(conn, &c->link);
	return weir_tls_connect(&c->link, c->name, c->ca, 0);
}

static void caller_start(weir_post *post, void *arg)
{
	caller *c = arg;
	weir_conn *conn;
	c->link.ops = &caller_ops;
	c->ops = weir_tls_conn_ops;
	int error = 0;
	if (c->early)
		error = weir_tls_connect(&c->link, c->name, c->ca, 0);
	else
		c->ops.open = caller_open;
	if (error == 0)
		error = weir_conn_open(weir_loop_self(), (struct sockaddr *)&c->to->address,
				       sizeof(c->to->address), &c->ops, NULL, c, &conn);
	if (error != 0) {
		c->why = error;
		c->closed++;
	}
}

static void call(caller *c, server *to)
{
	c->to = to;
	c->post = (weir_post){.run = caller_start, .arg = c};
	weir_loop_post(weir_domain_loop(to->domain, 0), &c->post);
	CHECK_EVENTUALLY(c->closed == 1);
}

static void calls_backends(void **state)
{
	const struct {
		const char *certificate, *key, *name, *ca;
		int why;
		const char *error;
	} rows[] = {
		{certificates.a, certificates.a_key, "a.test", certificates.ca, 0, ""},
		{certificates.b, certificates.b_key, "x.b.test", certificates.ca, 0, ""},
		{certificates.a, certificates.a_key, "b.test", certificates.ca, -EACCES, "ostname mismatch"},
		{certificates.a, certificates.a_key, "127.0.0.1", certificates.ca, -EACCES, "IP address"},
		{certificates.address, certificates.address_key, "127.0.0.1", certificates.ca, 0, ""},
		{certificates.late, certificates.late_key, "late.test", certificates.ca, -EACCES, "expired"},
		{certificates.late, certificates.late_key, NULL, NULL, 0, ""},
		{certificates.stranger, certificates.stranger_key, "stranger", certificates.ca, -EACCES,
		 "self"},
		{certificates.a, certificates.a_key, "a.test", NULL, -EACCES, "issuer"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		weir_tls_certificate certificate = {rows[i].certificate, rows[i].key};
		weir_tls_options options = {.certificates = &certificate, .certificate_count = 1};
		server at = {.mode = ECHO};
		server_start_with(&at, *state, &options);
		for (int early = 0; early < 2; early++) {
			caller c = {.name = rows[i].name, .ca = rows[i].ca, .early = early != 0};
			call(&c, &at);
			assert_int_equal(c.why, rows[i].why);
			assert_int_equal(c.ready, rows[i].why == 0);
			assert_int_equal(c.bytes, rows[i].why == 0 ? 5 : 0);
			check_contains(c.error, rows[i].error);
			CHECK_EVENTUALLY(at.closed == early + 1);
		}
		server_stop(&at);
	}
}

static void says_what_is_wrong_with_authorities(void **state)
{
	server at = {.mode = ECHO};
	assert_int_equal(weir_tls_prepare("/no/such.pem"), -ENOENT);
	check_contains(weir_error(), "/no/such.pem");
	assert_int_equal(weir_tls_prepare(certificates.a_key), -EINVAL);
	check_contains(weir_error(), certificates.a_key);
	assert_int_equal(weir_tls_prepare(NULL), 0);
	assert_int_equal(weir_tls_prepare(certificates.ca), 0);
	assert_int_equal(weir_tls_prepare(certificates.ca), 0);
	server_start(&at, *state);
	caller nowhere = {.name = "a.test", .ca = "/no/such.pem", .early = true};
	call(&nowhere, &at);
	assert_int_equal(nowhere.why, -ENOENT);
	char name[300];
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	caller nobody = {.name = name, .ca = certificates.ca, .early = true};
	call(&nobody, &at);
	assert_int_equal(nobody.why, -EINVAL);
	server_stop(&at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(speaks_both_versions),
		ON_BOTH(refuses_what_is_too_old),
		ON_BOTH(takes_the_ciphers_it_is_given),
		cmocka_unit_test(says_what_is_wrong),
		CHECK_TEST(survives_every_failed_allocation),
		ON_BOTH(shows_the_certificate_that_has_the_name),
		ON_BOTH(chooses_a_protocol),
		ON_BOTH(resumes_by_ticket),
		ON_BOTH(turns_ticket_keys_over),
		cmocka_unit_test(the_keys_of_tickets),
		ON_BOTH(gives_no_tickets_where_told_so),
		ON_BOTH(tickets_of_another_server_are_worth_nothing),
		ON_BOTH(asks_clients_for_certificates),
		ON_BOTH(knows_a_client_again),
		ON_BOTH(calls_backends),
		ON_BOTH(says_what_is_wrong_with_authorities),
	};
	return cmocka_run_group_tests(tests, certificates_setup, certificates_teardown);
}
