/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions to backends. The authorities' certificates are loaded once per file (those of the system have
 * no name) and kept for the life of the process: there are as many as a configuration names.
 */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tls/priv.h"

#define AUTHORITIES_MAX 64
#define SYSTEM_NAME     "(the system's)"
#define NOBODY          "(nobody's)" /* nothing is verified */

typedef struct authority {
	char file[PATH_MAX];
	SSL_CTX *ctx; /* a reference */
} authority;

/* Shared by all threads, under the lock. */
static struct {
	pthread_mutex_t lock;
	authority *known[AUTHORITIES_MAX];
	size_t count;
} authorities = {.lock = PTHREAD_MUTEX_INITIALIZER};

static SSL_CTX *make_context(void)
{
	static const unsigned char protocols[] = "\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	if (ctx == NULL)
		return NULL;
	weir_tls_set_common(ctx);
	SSL_CTX_set_alpn_protos(ctx, protocols, sizeof(protocols) - 1);
	return ctx;
}

/* "": those of the system. */
static int load(const char *ca, SSL_CTX **ret_ctx)
{
	bool verified = strcmp(ca, NOBODY) != 0, system = *ca == '\0';
	if (verified && !system && access(ca, R_OK) != 0) {
		int error = errno;
		return weir_error_set(-error, "TLS: CA %s: %s", ca, strerror(error));
	}
	SSL_CTX *ctx = make_context();
	if (ctx == NULL)
		return weir_error_set(-ENOMEM, "TLS: out of memory for a client");
	int loaded = !verified ? 1
		     : system  ? SSL_CTX_set_default_verify_paths(ctx)
			       : SSL_CTX_load_verify_file(ctx, ca);
	if (loaded != 1) {
		SSL_CTX_free(ctx);
		return weir_tls_complain(-EINVAL, "TLS: CA", system ? SYSTEM_NAME : ca);
	}
	*ret_ctx = ctx;
	return 0;
}

static authority *find_locked(const char *file)
{
	for (size_t i = 0; i < authorities.count; i++)
		if (strcmp(authorities.known[i]->file, file) == 0)
			return authorities.known[i];
	return NULL;
}

static authority *add_locked(const char *file)
{
	size_t length = strlen(file);
	if (authorities.count == AUTHORITIES_MAX || length >= PATH_MAX)
		return NULL;
	authority *new = OPENSSL_zalloc(sizeof(*new));
	if (new == NULL)
		return NULL;
	memcpy(new->file, file, length + 1);
	authorities.known[authorities.count++] = new;
	return new;
}

/* Takes over the context. */
static int keep_locked(const char *file, SSL_CTX *ctx)
{
	authority *kept = find_locked(file);
	if (kept == NULL)
		kept = add_locked(file);
	if (kept == NULL) {
		SSL_CTX_free(ctx);
		return weir_error_set(-ENOSPC, "TLS: CA %s: more than %d files", file, AUTHORITIES_MAX);
	}
	SSL_CTX_free(kept->ctx);
	kept->ctx = ctx;
	return 0;
}

static int prepare(const char *file)
{
	SSL_CTX *ctx = NULL;
	int error = load(file, &ctx);
	if (error != 0)
		return error;
	pthread_mutex_lock(&authorities.lock);
	error = keep_locked(file, ctx);
	pthread_mutex_unlock(&authorities.lock);
	return error;
}

int weir_tls_try(const char *ca)
{
	SSL_CTX *ctx = NULL;
	int error = load(ca != NULL ? ca : "", &ctx);
	SSL_CTX_free(ctx);
	return error;
}

int weir_tls_prepare(const char *ca)
{
	return prepare(ca != NULL ? ca : "");
}

static SSL *new_of_known(const char *file)
{
	pthread_mutex_lock(&authorities.lock);
	const authority *known = find_locked(file);
	SSL *ssl = known != NULL ? SSL_new(known->ctx) : NULL;
	pthread_mutex_unlock(&authorities.lock);
	return ssl;
}

static int new_of(const char *file, SSL **ret_ssl)
{
	SSL *ssl = new_of_known(file);
	int error = ssl == NULL ? prepare(file) : 0;
	if (ssl == NULL && error == 0)
		ssl = new_of_known(file);
	if (error == 0 && ssl == NULL)
		error = weir_error_set(-ENOMEM, "TLS: out of memory for a client");
	if (error == 0)
		*ret_ssl = ssl;
	return error;
}

/* An IP address is verified as one, and not sent as a server name. */
static bool expect(SSL *ssl, const char *name)
{
	SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
	if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1)
		return true;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* protocols: in ALPN format; NULL: HTTP/1.1, as set in the context. */
static int connect_as(weir_link *link, const char *name, const char *ca, uint32_t output_bytes,
		      const unsigned char *protocols, unsigned length)
{
	SSL *ssl = NULL;
	weir_tls_session *s;
	int error = new_of(name == NULL ? NOBODY : ca != NULL ? ca : "", &ssl);
	if (error != 0)
		return error;
	ERR_clear_error();
	if (name != NULL && !expect(ssl, name)) {
		SSL_free(ssl);
		return weir_error_set(-EINVAL, "TLS: \"%s\" is no name of a host", name);
	}
	if (protocols != NULL)
		SSL_set_alpn_protos(ssl, protocols, length);
	ERR_clear_error();
	error = weir_tls_session_new(link, ssl, output_bytes, &s);
	if (error != 0)
		return error;
	SSL_set_connect_state(s->ssl);
	s->serve = UINT32_MAX;
	if (link->conn == NULL)
		return 0;
	weir_tls_session_attach(s);
	weir_tls_shake(s);
	return 0;
}

int weir_tls_connect(weir_link *link, const char *name, const char *ca, uint32_t output_bytes)
{
	return connect_as(link, name, ca, output_bytes, NULL, 0);
}

int weir_tls_connect_h2(weir_link *link, const char *name, const char *ca, uint32_t output_bytes)
{
	static const unsigned char protocols[] = "\x02h2";
	return connect_as(link, name, ca, output_bytes, protocols, sizeof(protocols) - 1);
}
