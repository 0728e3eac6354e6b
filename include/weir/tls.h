/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TLS_H
#define WEIR_TLS_H

/*
 * Certificates and settings of TLS, for the listeners of a server (weir_http_listen.tls).
 *
 *	weir_tls_certificate pair = {"/etc/site/chain.pem", "/etc/site/key.pem"};
 *	weir_tls_new(&(weir_tls_options){.certificates = &pair, .certificate_count = 1, .http2 = true}, &tls);
 *	weir_http_add_listener(http, &(weir_http_listen){..., .tls = tls, .http2 = true}, &number);
 *	weir_tls_unref(tls);
 *
 * Lifetime. A weir_tls is counted: whoever made it has one reference, each listener takes one of its own, and
 * it goes with the last. Files are read once, when it is made. After a renewal make another one and give it
 * to the listener by weir_http_set_tls.
 *
 * Handshakes cost thousands of times what a small request does. They are events of a stage of their own,
 * "handshake", in the server's domain, so a flood of them is shed before it takes the processor from the
 * requests.
 *
 * Threads: made by one thread, immutable from then on; ref and unref by any.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_tls weir_tls;

typedef struct weir_tls_certificate {
	const char *chain; /* PEM file, leaf first */
	const char *key;   /* PEM file, without a password */
} weir_tls_certificate;

/* Nothing here need outlive the call. */
typedef struct weir_tls_options {
	/*
	 * Names are taken from the certificates, wildcards too. The first one answers names that no other
	 * has, and clients that name no host (SNI).
	 */
	const weir_tls_certificate *certificates;
	size_t certificate_count;
	/*
	 * PEM file: clients may, or must, show a certificate signed by one of these. NULL: they are not
	 * asked.
	 */
	const char *client_ca;
	bool client_required;
	const char *min_version; /* "1.2" or "1.3"; NULL: "1.2" */
	/* Of TLS 1.2, as OpenSSL names them. NULL: the modern ones with forward secrecy. */
	const char *ciphers;
	bool http2; /* offers h2 by ALPN before http/1.1; set weir_http_listen.http2 as well */
	/*
	 * Session tickets are usually on, with keys that turn over every hour and are accepted for one more.
	 */
	bool no_tickets;
} weir_tls_options;

/* Reads the files. -EINVAL, -ENOENT, -EACCES ... with weir_error: which file, and what is wrong with it. */
WEIR_API int weir_tls_new(const weir_tls_options *options, weir_tls **ret_tls);
/* Another reference; returns tls. */
WEIR_API weir_tls *weir_tls_ref(weir_tls *tls);
/* Drops one; NULL is ignored. */
WEIR_API void weir_tls_unref(weir_tls *tls);

#ifdef __cplusplus
}
#endif
#endif
