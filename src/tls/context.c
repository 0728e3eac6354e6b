/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir_tls: one SSL_CTX per certificate, otherwise alike. The first one starts every handshake, and the
 * server name that the client sends may switch to another. Only clients keep sessions (tickets): nothing
 * is shared between threads except the ticket keys.
 */
#include <ctype.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "tls/priv.h"

/*
 * Forward secrecy and authenticated encryption. AES, which has hardware support, comes before ciphers
 * that are faster without it (a client without that hardware gets its preference).
 */
#define CIPHERS                                                                                    \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:" \
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define CIPHERS_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
/* A ticket is valid no longer than its key. */
#define TICKET_S       3600
#define NAME_MAX_BYTES 255

/* ---- errors ---- */

const char *weir_tls_reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = NULL;
	if (ERR_SYSTEM_ERROR(code))
		text = strerrordesc_np(ERR_GET_REASON(code));
	else if (code != 0)
		text = ERR_reason_error_string(code);
	ERR_clear_error();
	return text != NULL ? text : "no reason given";
}

int weir_tls_complain(int code, const char *what, const char *file)
{
	return weir_error_set(code, "%s %s: %s", what, file, weir_tls_reason());
}

/* Checked before OpenSSL opens the file, because its own message is poor. */
static int check_readable(const char *what, const char *file)
{
	if (file == NULL)
		return weir_error_set(-EINVAL, "%s: no file given", what);
	if (access(file, R_OK) != 0) {
		int error = errno;
		return weir_error_set(-error, "%s %s: %s", what, file, strerror(error));
	}
	return 0;
}

/* ---- names ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const weir_tls_name *)a)->text, ((const weir_tls_name *)b)->text);
}

static const weir_tls_name *find_name(const weir_tls *tls, const char *text)
{
	weir_tls_name key = {.text = (char *)(uintptr_t)text};
	if (tls->name_count == 0)
		return NULL;
	return bsearch(&key, tls->names, tls->name_count, sizeof(*tls->names), compare_names);
}

/* The name itself, else with "*" in place of its first label. */
static const weir_tls_name *match_name(const weir_tls *tls, const char *asked)
{
	char lower[NAME_MAX_BYTES + 2];
	size_t length = strnlen(asked, NAME_MAX_BYTES + 1);
	if (length > NAME_MAX_BYTES)
		return NULL;
	for (size_t i = 0; i <= length; i++)
		lower[i] = (char)tolower((unsigned char)asked[i]);
	const weir_tls_name *found = find_name(tls, lower);
	char *dot = strchr(lower, '.');
	if (found != NULL || dot == NULL || dot == lower)
		return found;
	dot[-1] = '*';
	return find_name(tls, dot - 1);
}

static bool is_name(const unsigned char *text, int length)
{
	if (length <= 0 || length > NAME_MAX_BYTES)
		return false;
	for (int i = 0; i < length; i++)
		if (!isalnum(text[i]) && strchr("-_.", text[i]) == NULL && !(text[i] == '*' && i == 0))
			return false;
	return text[0] != '*' || (length > 2 && text[1] == '.');
}

/*
 * There is room for one more. The first certificate with a name gets it; a text that is no valid name is
 * ignored.
 */
static int add_name(weir_tls *tls, SSL_CTX *ctx, const ASN1_STRING *value)
{
	const unsigned char *text = ASN1_STRING_get0_data(value);
	int length = ASN1_STRING_length(value);
	char lower[NAME_MAX_BYTES + 1];
	if (!is_name(text, length))
		return 0;
	for (int i = 0; i < length; i++)
		lower[i] = (char)tolower(text[i]);
	lower[length] = '\0';
	for (size_t i = 0; i < tls->name_count; i++)
		if (strcmp(tls->names[i].text, lower) == 0)
			return 0;
	char *copy = weir_mem_strdup(lower);
	if (copy == NULL)
		return -ENOMEM;
	tls->names[tls->name_count++] = (weir_tls_name){.text = copy, .ctx = ctx};
	return 0;
}

static int make_room(weir_tls *tls, size_t more)
{
	weir_tls_name *names = weir_mem_array(tls->name_count + more, sizeof(*names));
	if (names == NULL)
		return -ENOMEM;
	if (tls->name_count > 0)
		memcpy(names, tls->names, tls->name_count * sizeof(*names));
	weir_mem_free(tls->names);
	tls->names = names;
	return 0;
}

/* An old certificate without alternative names has its name as the common name. */
static int add_common_name(weir_tls *tls, SSL_CTX *ctx, X509 *leaf)
{
	X509_NAME *subject = X509_get_subject_name(leaf);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	int error = at >= 0 ? make_room(tls, 1) : 0;
	if (at < 0 || error != 0)
		return error;
	return add_name(tls, ctx, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

static int add_names(weir_tls *tls, SSL_CTX *ctx)
{
	X509 *leaf = SSL_CTX_get0_certificate(ctx);
	GENERAL_NAMES *list = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
	if (list == NULL)
		return add_common_name(tls, ctx, leaf);
	int count = sk_GENERAL_NAME_num(list);
	int error = make_room(tls, (size_t)count + 1);
	for (int i = 0; i < count && error == 0; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(list, i);
		if (name->type == GEN_DNS)
			error = add_name(tls, ctx, name->d.dNSName);
	}
	GENERAL_NAMES_free(list);
	return error;
}

static int choose_certificate(SSL *ssl, int *alert, void *arg)
{
	const weir_tls *tls = arg;
	const char *asked = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	const weir_tls_name *found = asked != NULL ? match_name(tls, asked) : NULL;
	if (found != NULL && SSL_get_SSL_CTX(ssl) != found->ctx)
		SSL_set_SSL_CTX(ssl, found->ctx);
	return found != NULL ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

/* ---- ALPN ---- */

static bool offers(const unsigned char *list, unsigned length, const char *name,
		   const unsigned char **ret_name)
{
	size_t name_length = strlen(name);
	for (unsigned at = 0; at < length; at += 1 + list[at]) {
		if (list[at] != name_length || memcmp(list + at + 1, name, name_length) != 0)
			continue;
		*ret_name = list + at + 1;
		return true;
	}
	return false;
}

/*
 * A client that offers only protocols that we do not speak gets an alert, as RFC 7301 requires: bytes
 * meant for another protocol must not be read as HTTP.
 */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
			   const unsigned char *in, unsigned int in_length, void *arg)
{
	static const char *const names[] = {"h2", "http/1.1", "http/1.0"};
	const weir_tls *tls = arg;
	for (size_t i = tls->http2 ? 0 : 1; i < sizeof(names) / sizeof(*names); i++) {
		if (!offers(in, in_length, names[i], out))
			continue;
		*out_length = (unsigned char)strlen(names[i]);
		return SSL_TLSEXT_ERR_OK;
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* ---- tickets ---- */

static int start_ticket(const weir_ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher,
			EVP_MAC_CTX *mac, int encrypt)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key->mac,
						  sizeof(key->mac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)(uintptr_t) "SHA256", 0),
		OSSL_PARAM_construct_end(),
	};
	return EVP_MAC_CTX_set_params(mac, params) == 1 &&
	       EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->cipher, iv, encrypt) == 1;
}

static weir_tls *tls_of(const SSL *ssl)
{
	const weir_tls_session *s = weir_tls_session_of(ssl);
	return s->tls;
}

static uint64_t ticket_now_ns(weir_tls *tls)
{
	return weir_clock_ns() + atomic_load_explicit(&tls->shared.later_ns, memory_order_relaxed);
}

/*
 * Result for OpenSSL: negative: an error; 0: no such key (then a full handshake); 1: fine; 2: fine, but
 * issue a new ticket.
 */
static int use_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
			  EVP_MAC_CTX *mac, int encrypt)
{
	weir_tls *tls = tls_of(ssl);
	weir_ticket_key key;
	int result = 1;
	if (encrypt) {
		if (weir_tickets_current(&tls->shared.tickets, ticket_now_ns(tls), &key) != 0 ||
		    RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
			return -1;
		memcpy(name, key.name, sizeof(key.name));
	} else {
		result = weir_tickets_find(&tls->shared.tickets, name, ticket_now_ns(tls), &key);
		if (result == 0)
			return 0;
	}
	if (!start_ticket(&key, iv, cipher, mac, encrypt))
		result = -1;
	OPENSSL_cleanse(&key, sizeof(key));
	return result;
}

void weir_tls_let_time_pass(weir_tls *tls, uint64_t ns)
{
	atomic_fetch_add(&tls->shared.later_ns, ns);
}

/* ---- settings ---- */

/* A key with a password must not make a server prompt on its terminal. */
static int no_password(char *buffer, int size, int writing, void *arg)
{
	return -1;
}

void weir_tls_set_common(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	/* A record may be retried from another address, and an idle connection holds no buffers of 16 KB. */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}

static int set_versions(SSL_CTX *ctx, const weir_tls_options *options)
{
	const char *version = options->min_version != NULL ? options->min_version : "1.2";
	if (strcmp(version, "1.2") != 0 && strcmp(version, "1.3") != 0)
		return weir_error_set(-EINVAL, "TLS: version \"%s\"; accepted are 1.2 and 1.3", version);
	SSL_CTX_set_min_proto_version(ctx, strcmp(version, "1.3") == 0 ? TLS1_3_VERSION : TLS1_2_VERSION);
	const char *ciphers = options->ciphers != NULL ? options->ciphers : CIPHERS;
	if (SSL_CTX_set_cipher_list(ctx, ciphers) != 1)
		return weir_tls_complain(-EINVAL, "TLS: ciphers", ciphers);
	/* Those of TLS 1.3 are not configured; in OpenSSL's own order the slower AES is first. */
	if (SSL_CTX_set_ciphersuites(ctx, CIPHERS_1_3) != 1)
		return weir_tls_complain(-EINVAL, "TLS: ciphers", CIPHERS_1_3);
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	return 0;
}

static int set_client_ca(SSL_CTX *ctx, const weir_tls_options *options)
{
	if (options->client_ca == NULL)
		return options->client_required
			       ? weir_error_set(
					 -EINVAL,
					 "TLS: client certificates are required, but no client CA given")
			       : 0;
	int error = check_readable("TLS: client CA", options->client_ca);
	if (error != 0)
		return error;
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->client_ca);
	if (names == NULL || SSL_CTX_load_verify_file(ctx, options->client_ca) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return weir_tls_complain(-EINVAL, "TLS: client CA", options->client_ca);
	}
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set_verify(ctx,
			   SSL_VERIFY_PEER | (options->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
			   NULL);
	return 0;
}

static void set_tickets(SSL_CTX *ctx, const weir_tls_options *options)
{
	SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"weir", 4);
	SSL_CTX_set_timeout(ctx, TICKET_S);
	if (options->no_tickets) {
		SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
		SSL_CTX_set_num_tickets(ctx, 0);
	} else {
		SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, use_ticket_key);
	}
}

static int load_certificate(SSL_CTX *ctx, const weir_tls_certificate *certificate)
{
	int error = check_readable("TLS: certificate", certificate->chain);
	if (error == 0)
		error = check_readable("TLS: key", certificate->key);
	if (error != 0)
		return error;
	if (SSL_CTX_use_certificate_chain_file(ctx, certificate->chain) != 1)
		return weir_tls_complain(-EINVAL, "TLS: certificate", certificate->chain);
	if (SSL_CTX_use_PrivateKey_file(ctx, certificate->key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return weir_tls_complain(-EINVAL, "TLS: key", certificate->key);
	return 0;
}

static int set_up(weir_tls *tls, SSL_CTX *ctx, const weir_tls_certificate *certificate,
		  const weir_tls_options *options)
{
	weir_tls_set_common(ctx);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	SSL_CTX_set_tlsext_servername_callback(ctx, choose_certificate);
	SSL_CTX_set_tlsext_servername_arg(ctx, tls);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, tls);
	set_tickets(ctx, options);
	int error = set_versions(ctx, options);
	if (error == 0)
		error = set_client_ca(ctx, options);
	if (error == 0)
		error = load_certificate(ctx, certificate);
	if (error == 0)
		error = add_names(tls, ctx);
	return error;
}

static int add_certificate(weir_tls *tls, const weir_tls_certificate *certificate,
			   const weir_tls_options *options)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	if (ctx == NULL)
		return weir_error_set(-ENOMEM, "TLS: %s", weir_tls_reason());
	tls->ctx[tls->ctx_count++] = ctx;
	return set_up(tls, ctx, certificate, options);
}

static void destroy(weir_tls *tls)
{
	for (size_t i = 0; i < tls->name_count; i++)
		weir_mem_free(tls->names[i].text);
	for (size_t i = 0; i < tls->ctx_count; i++)
		SSL_CTX_free(tls->ctx[i]);
	weir_tickets_fini(&tls->shared.tickets);
	weir_mem_free(tls->names);
	weir_mem_free(tls->ctx);
	weir_mem_free(tls);
}

int weir_tls_new(const weir_tls_options *options, weir_tls **ret_tls)
{
	if (options->certificate_count == 0)
		return weir_error_set(-EINVAL, "TLS: no certificate given");
	weir_tls *tls = weir_mem_zalloc(sizeof(*tls));
	if (tls == NULL)
		return weir_error_set(-ENOMEM, "TLS: out of memory");
	atomic_init(&tls->shared.refs, 1);
	weir_tickets_init(&tls->shared.tickets);
	tls->http2 = options->http2;
	tls->ctx = weir_mem_array(options->certificate_count, sizeof(SSL_CTX *));
	int error = tls->ctx != NULL ? 0 : -ENOMEM;
	for (size_t i = 0; i < options->certificate_count && error == 0; i++)
		error = add_certificate(tls, &options->certificates[i], options);
	if (error != 0) {
		destroy(tls);
		return error == -ENOMEM ? weir_error_set(error, "TLS: out of memory") : error;
	}
	if (tls->name_count > 0)
		qsort(tls->names, tls->name_count, sizeof(*tls->names), compare_names);
	*ret_tls = tls;
	return 0;
}

weir_tls *weir_tls_ref(weir_tls *tls)
{
	atomic_fetch_add_explicit(&tls->shared.refs, 1, memory_order_relaxed);
	return tls;
}

void weir_tls_unref(weir_tls *tls)
{
	if (tls != NULL && atomic_fetch_sub_explicit(&tls->shared.refs, 1, memory_order_acq_rel) == 1)
		destroy(tls);
}
