/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TLS_CERTIFICATES_H
#define TESTS_TLS_CERTIFICATES_H

/* Certificates for tests, made when they run: files in a folder of their own, removed at the end. */

#include "support/unit.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CERTIFICATE_FILES 24

static struct {
	char folder[64];
	char paths[CERTIFICATE_FILES][128];
	size_t count;
	EVP_PKEY *ca_pkey;
	X509 *ca_x509;
	/* a: a.test, www.a.test; b: b.test, *.b.test; old: only a common name old.test; address: 127.0.0.1; late: expired */
	const char *ca, *ca_key, *a, *a_key, *b, *b_key, *old, *old_key, *address, *address_key, *late,
		*late_key;
	/* of clients: known, its certificate expired, signed by nobody; and a certificate with a large chain */
	const char *client, *client_key, *gone, *gone_key, *stranger, *stranger_key, *locked_key, *chain;
} certificates;

typedef struct certificate_options {
	const char *name, *alternatives;
	bool ca, self_signed;
	long from_s, to_s; /* relative to now */
} certificate_options;

static inline const char *certificate_path(const char *name, const char *ending)
{
	char *path = certificates.paths[certificates.count++];
	char folder[sizeof(certificates.folder)];
	memcpy(folder, certificates.folder, sizeof(folder));
	snprintf(path, sizeof(certificates.paths[0]), "%s/%s.%s", folder, name, ending);
	return path;
}

static inline void certificate_extend(X509 *x, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, certificates.ca_x509 != NULL ? certificates.ca_x509 : x, x, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(extension);
	X509_add_ext(x, extension, -1);
	X509_EXTENSION_free(extension);
}

static inline X509 *certificate_make(EVP_PKEY *key, const certificate_options *options)
{
	static long serial = 1;
	X509 *x = X509_new();
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
	X509_gmtime_adj(X509_getm_notBefore(x), options->from_s);
	X509_gmtime_adj(X509_getm_notAfter(x), options->to_s);
	X509_set_pubkey(x, key);
	X509_NAME *subject = X509_get_subject_name(x);
	X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC, (const unsigned char *)"Weir tests", -1, -1,
				   0);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)options->name, -1, -1,
				   0);
	bool self = options->self_signed || options->ca;
	X509_set_issuer_name(x, self ? subject : X509_get_subject_name(certificates.ca_x509));
	certificate_extend(x, NID_basic_constraints, options->ca ? "critical,CA:TRUE" : "CA:FALSE");
	if (options->alternatives != NULL)
		certificate_extend(x, NID_subject_alt_name, options->alternatives);
	assert_true(X509_sign(x, self ? key : certificates.ca_pkey, EVP_sha256()) > 0);
	return x;
}

static inline void certificate_write_key(const char *path, EVP_PKEY *key, const char *password)
{
	FILE *file = fopen(path, "w");
	assert_int_equal(PEM_write_PrivateKey(file, key, password != NULL ? EVP_aes_128_cbc() : NULL,
					      (const unsigned char *)password,
					      password != NULL ? (int)strlen(password) : 0, NULL, NULL),
			 1);
	fclose(file);
}

static inline void certificate_add(const char *file_name, const char **ret_path, const char **ret_key,
				   const certificate_options *options)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = certificate_make(key, options);
	*ret_path = certificate_path(file_name, "crt");
	*ret_key = certificate_path(file_name, "key");
	FILE *file = fopen(*ret_path, "w");
	assert_int_equal(PEM_write_X509(file, x), 1);
	fclose(file);
	certificate_write_key(*ret_key, key, NULL);
	if (options->ca) {
		certificates.ca_pkey = key;
		certificates.ca_x509 = x;
		return;
	}
	X509_free(x);
	EVP_PKEY_free(key);
}

#define DAY_S 86400L
#define VALID .from_s = -DAY_S, .to_s = DAY_S
#define PAST  .from_s = -2 * DAY_S, .to_s = -DAY_S
#define ADD(what, ...)                                                       \
	certificate_add(#what, &certificates.what, &certificates.what##_key, \
			&(certificate_options){__VA_ARGS__})

/* a, followed by more authorities than anybody needs: 12 KB on the wire. */
static inline void certificate_write_chain(const char *path)
{
	FILE *from = fopen(certificates.a, "r"), *file = fopen(path, "w");
	X509 *a = PEM_read_X509(from, NULL, NULL, NULL);
	PEM_write_X509(file, a);
	for (int i = 0; i < 30; i++)
		PEM_write_X509(file, certificates.ca_x509);
	X509_free(a);
	fclose(from);
	fclose(file);
}

static inline void certificates_make(void)
{
	const char *base = getenv("TMPDIR");
	snprintf(certificates.folder, sizeof(certificates.folder), "%.40s/weir-tls-XXXXXX",
		 base != NULL ? base : "/tmp");
	assert_non_null(mkdtemp(certificates.folder));
	ADD(ca, .name = "Tests CA", .ca = true, VALID);
	ADD(a, .name = "a.test", .alternatives = "DNS:a.test,DNS:www.a.test,DNS:localhost", VALID);
	ADD(b, .name = "b.test", .alternatives = "DNS:b.test,DNS:*.b.test,DNS:a.test,email:x@y.test", VALID);
	ADD(old, .name = "Old.test", VALID);
	ADD(address, .name = "address", .alternatives = "IP:127.0.0.1", VALID);
	ADD(late, .name = "late.test", .alternatives = "DNS:late.test", PAST);
	ADD(client, .name = "known client", VALID);
	ADD(gone, .name = "gone client", PAST);
	ADD(stranger, .name = "stranger", .self_signed = true, VALID);
	certificates.locked_key = certificate_path("locked", "key");
	certificate_write_key(certificates.locked_key, certificates.ca_pkey, "secret");
	certificates.chain = certificate_path("chain", "crt");
	certificate_write_chain(certificates.chain);
}

static inline void certificates_remove(void)
{
	for (size_t i = 0; i < certificates.count; i++)
		unlink(certificates.paths[i]);
	rmdir(certificates.folder);
	X509_free(certificates.ca_x509);
	EVP_PKEY_free(certificates.ca_pkey);
}

static int certificates_setup(void **state)
{
	certificates_make();
	return 0;
}

static int certificates_teardown(void **state)
{
	certificates_remove();
	return 0;
}

#endif
