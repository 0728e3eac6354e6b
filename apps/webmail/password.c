/* SPDX-License-Identifier: Apache-2.0 */
#include "password.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#define MEMORY_BYTES (19u << 20)
#define PASSES       2

_Static_assert(PASSWORD_HASH_SIZE == crypto_pwhash_STRBYTES, "as libsodium has it");

int password_hash(weir_span password, char ret_hash[PASSWORD_HASH_SIZE])
{
	char hash[PASSWORD_HASH_SIZE];
	if (password.length < PASSWORD_MIN || password.length > PASSWORD_MAX)
		return weir_error_set(-EINVAL, "a password has %d to %d bytes", PASSWORD_MIN, PASSWORD_MAX);
	if (sodium_init() < 0)
		return weir_error_set(-EIO, "libsodium: no random numbers");
	if (crypto_pwhash_str_alg(hash, password.at, password.length, PASSES, MEMORY_BYTES,
				  crypto_pwhash_ALG_ARGON2ID13) != 0)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(ret_hash, hash, sizeof(hash));
	return 0;
}

bool password_matches(const char *hash, weir_span password)
{
	/* Of no password that anybody knows; its salt and its parameters are what counts. */
	static const char nobody[] = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$"
				     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
	bool none = hash[0] == '\0';
	if (sodium_init() < 0 || password.length > PASSWORD_MAX)
		return false;
	bool right = crypto_pwhash_str_verify(none ? nobody : hash, password.at, password.length) == 0;
	return right && !none;
}
