/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes into a server's session, on a real connection of a loop. The first byte of the input says how, the second in which portions:
 *	even: the bytes alone, from the beginning of the connection
 *	odd: a real client makes its handshake; one byte of what it says is changed on the way (the third and fourth say which, the fifth how), and then
 *	the bytes come as if they were the client's records
 * Whatever comes, the connection is closed once, nothing is told before ready, and all memory is given back.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/acceptor.h"
#include "target.h"
#include "tls/priv.h"

/* ---- the server ---- */

static struct {
	weir_loop *loop;
	weir_tls *tls;
	weir_listener *listener;
	weir_conn_ops ops;
	struct sockaddr_in address;
	SSL_CTX *clients;
	/* of the one connection */
	weir_link link;
	int opened, ready, ended, closed;
} at;

static void link_ready(weir_link *link)
{
	CHECK(at.ready++ == 0 && at.closed == 0);
	CHECK(weir_tls_is_ready(link) && !weir_tls_is_h2(link) && *weir_tls_subject(link) == '\0');
}

static void link_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	CHECK(at.ready == 1 && at.ended == 0 && at.closed == 0 && length > 0);
	CHECK(offset + length <= buf->length);
	weir_link_write(link, buf->data + offset, length);
}

static void link_eof(weir_link *link)
{
	CHECK(at.ready == 1 && at.ended++ == 0 && at.closed == 0);
	weir_link_close(link);
}

static void link_closed(weir_link *link, int why)
{
	CHECK(at.closed++ == 0);
	weir_tls_session_free(link);
}

static const weir_link_ops link_ops = {
	.ready = link_ready, .data = link_data, .eof = link_eof, .closed = link_closed};

static int conn_open(weir_conn *conn, void *arg)
{
	at.opened++;
	at.link = (weir_link){.conn = conn, .ops = &link_ops};
	weir_conn_set_user(conn, &at.link);
	return weir_tls_accept(&at.link, at.tls, NULL, 8192);
}

/* ---- a certificate ---- */

static void write_files(const char *chain, const char *key)
{
	EVP_PKEY *pkey = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_gmtime_adj(X509_getm_notBefore(x), -1000);
	X509_gmtime_adj(X509_getm_notAfter(x), 1000);
	X509_set_pubkey(x, pkey);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
				   (const unsigned char *)"fuzz.test", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	CHECK(X509_sign(x, pkey, EVP_sha256()) > 0);
	FILE *file = fopen(chain, "w");
	CHECK(file != NULL && PEM_write_X509(file, x) == 1);
	fclose(file);
	file = fopen(key, "w");
	CHECK(file != NULL && PEM_write_PrivateKey(file, pkey, NULL, NULL, 0, NULL, NULL) == 1);
	fclose(file);
	X509_free(x);
	EVP_PKEY_free(pkey);
}

static void make_tls(void)
{
	char chain[] = "/tmp/weir-fuzz-XXXXXX", key[] = "/tmp/weir-fuzz-XXXXXX";
	int one = mkstemp(chain), two = mkstemp(key);
	CHECK(one >= 0 && two >= 0);
	write_files(chain, key);
	weir_tls_certificate certificate = {chain, key};
	CHECK(weir_tls_new(&(weir_tls_options){.certificates = &certificate, .certificate_count = 1},
			   &at.tls) == 0);
	close(one);
	close(two);
	unlink(chain);
	unlink(key);
}

static void begin(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage got;
	make_tls();
	at.clients = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_cipher_list(at.clients, "DEFAULT");
	setenv("WEIR_LOOP", "epoll", 1);
	CHECK(weir_loop_new(&at.loop) == 0);
	at.ops = weir_tls_conn_ops;
	at.ops.open = conn_open;
	weir_listen_options options = {
		.address = (struct sockaddr *)&any, .address_length = sizeof(any), .ops = &at.ops};
	CHECK(weir_listen_on_loop(at.loop, &options, &at.listener) == 0);
	CHECK(weir_listener_address(at.listener, NULL, 0, &got) == 0);
	memcpy(&at.address, &got, sizeof(at.address));
}

/* ---- one connection ---- */

static void turn(void)
{
	CHECK(weir_loop_turn(at.loop, 0) == 0);
}

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at.address, sizeof(at.address)) == 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (at.opened == 0)
		CHECK(weir_loop_turn(at.loop, WEIR_NS_PER_MS) == 0);
	return fd;
}

static void say(int fd, const uint8_t *bytes, size_t length, size_t portion)
{
	while (length > 0 && at.closed == 0) {
		size_t part = length < portion ? length : portion;
		ssize_t sent = send(fd, bytes, part, MSG_NOSIGNAL);
		for (int i = 0; i < 3; i++)
			turn();
		if (sent < 0 && errno != EAGAIN)
			return;
		bytes += sent > 0 ? sent : 0;
		length -= sent > 0 ? (size_t)sent : 0;
	}
}

typedef struct change {
	size_t at, said; /* which byte; bytes said so far */
	uint8_t by;
} change;

/* Carries what the client says; changes one byte of it. False: it had nothing to say. */
static bool carry(int fd, BIO *out, change *c, size_t portion)
{
	uint8_t bytes[8192];
	int n = BIO_read(out, bytes, sizeof(bytes));
	if (n <= 0)
		return false;
	if (c->at >= c->said && c->at - c->said < (size_t)n)
		bytes[c->at - c->said] ^= c->by;
	c->said += (size_t)n;
	say(fd, bytes, (size_t)n, portion);
	return true;
}

static void make_handshake(int fd, change *c, size_t portion, int version)
{
	SSL *ssl = SSL_new(at.clients);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	SSL_set_max_proto_version(ssl, version);
	SSL_set_bio(ssl, in, out);
	SSL_set_connect_state(ssl);
	for (int round = 0; round < 10 && at.closed == 0; round++) {
		uint8_t bytes[8192];
		int done = SSL_do_handshake(ssl);
		if (done == 1)
			SSL_write(ssl, "hello", 5);
		carry(fd, out, c, portion);
		if (done == 1)
			break;
		for (int i = 0; i < 4; i++)
			turn();
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		if (n > 0)
			BIO_write(in, bytes, (int)n);
	}
	SSL_free(ssl);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 5)
		return 0;
	if (at.loop == NULL)
		begin();
	at.opened = at.ready = at.ended = at.closed = 0;
	int fd = dial();
	uint64_t live = weir_mem_live();
	size_t portion = data[1] % 64 == 0 ? 4096 : data[1] % 64;
	if (data[0] % 2 == 1) {
		change c = {.at = (size_t)data[2] << 8 | data[3], .by = data[4]};
		make_handshake(fd, &c, portion, data[0] & 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
	}
	say(fd, data + 5, size - 5, portion);
	close(fd);
	for (int i = 0; i < 100000 && at.closed == 0; i++)
		CHECK(weir_loop_turn(at.loop, WEIR_NS_PER_MS) == 0);
	CHECK(at.opened == 1 && at.closed == 1);
	CHECK(weir_mem_live() <= live + 64);
	return 0;
}
