/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/signed.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define DIGEST_BYTES 32u
#define DIGITS       (2 * DIGEST_BYTES)
#define EXPIRY_MOST  12u /* digits */
#define NAME_MOST    256u

/* ---- keys ---- */

static int wrong(const char *path, const char *why)
{
	return weir_error_set(-EINVAL, "no key in %s: %s", path, why);
}

/* What is wrong with a line; NULL: nothing. */
static const char *take_line(weir_signed_keys *keys, char *line)
{
	size_t length = strcspn(line, "\r\n");
	if (length == 0)
		return NULL;
	if (length > WEIR_SIGNED_KEY_BYTES)
		return "a line has more than 128 bytes";
	if (length < WEIR_SIGNED_KEY_LEAST)
		return "a line has fewer than 16 bytes";
	if (keys->count == WEIR_SIGNED_KEYS)
		return "there are more than 4 lines";
	memcpy(keys->key[keys->count], line, length);
	keys->length[keys->count++] = (uint8_t)length;
	return NULL;
}

int weir_signed_read(const char *path, weir_signed_keys *ret_keys)
{
	char line[WEIR_SIGNED_KEY_BYTES + 3];
	weir_signed_keys keys = {0};
	const char *why = NULL;
	FILE *file = fopen(path, "re");
	if (file == NULL) {
		int error = errno;
		return weir_error_set(-error, "no key in %s: %s", path, strerror(error));
	}
	while (why == NULL && fgets(line, sizeof(line), file) != NULL)
		why = take_line(&keys, line);
	if (why == NULL && ferror(file))
		why = "it cannot be read";
	else if (why == NULL && keys.count == 0)
		why = "it is empty";
	fclose(file);
	if (why == NULL)
		*ret_keys = keys;
	OPENSSL_cleanse(&keys, sizeof(keys));
	OPENSSL_cleanse(line, sizeof(line));
	return why == NULL ? 0 : wrong(path, why);
}

/* ---- cookies ---- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_signature(const char *digits, uint8_t ret_bytes[static DIGEST_BYTES])
{
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		int high = digit(digits[2 * i]), low = digit(digits[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		ret_bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool read_expiry(weir_span text, int64_t *ret_s)
{
	int64_t s = 0;
	if (text.length == 0 || text.length > EXPIRY_MOST)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		s = s * 10 + (text.at[i] - '0');
	}
	*ret_s = s;
	return true;
}

/* Takes off the last part, behind a dot. false: there is no dot. */
static bool take_part(weir_span *rest, weir_span *ret_part)
{
	const char *dot = rest->length > 0 ? memrchr(rest->at, '.', rest->length) : NULL;
	if (dot == NULL)
		return false;
	size_t before = (size_t)(dot - rest->at);
	*ret_part = (weir_span){dot + 1, rest->length - before - 1};
	rest->length = before;
	return true;
}

static bool is_signed(const weir_signed_keys *keys, const char *text, size_t length,
		      const uint8_t signature[static DIGEST_BYTES])
{
	bool found = false;
	for (uint32_t i = 0; i < keys->count; i++) {
		uint8_t digest[EVP_MAX_MD_SIZE];
		unsigned bytes = 0;
		if (HMAC(EVP_sha256(), keys->key[i], keys->length[i], (const uint8_t *)text, length, digest,
			 &bytes) != NULL &&
		    bytes == DIGEST_BYTES)
			found |= CRYPTO_memcmp(digest, signature, DIGEST_BYTES) == 0;
	}
	return found;
}

bool weir_signed_check(const weir_signed_keys *keys, weir_span name, weir_span cookie, int64_t now_s,
		       weir_span *ret_value)
{
	char text[NAME_MOST + 1 + WEIR_SIGNED_MOST];
	uint8_t signature[DIGEST_BYTES];
	weir_span value = cookie, digits, expiry;
	int64_t until_s;
	if (cookie.length > WEIR_SIGNED_MOST || name.length > NAME_MOST || !take_part(&value, &digits) ||
	    digits.length != DIGITS)
		return false;
	size_t length = value.length;
	if (!take_part(&value, &expiry) || !read_expiry(expiry, &until_s) || until_s <= now_s ||
	    !read_signature(digits.at, signature))
		return false;
	memcpy(text, name.at, name.length);
	text[name.length] = '=';
	memcpy(text + name.length + 1, cookie.at, length);
	if (!is_signed(keys, text, name.length + 1 + length, signature))
		return false;
	*ret_value = value;
	return true;
}
