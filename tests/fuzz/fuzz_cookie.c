/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the parts of a Set-Cookie: flags, then name, value, path and domain, each ended by a NUL. What
 * is taken is one field of printable bytes with just the attributes that were asked for: nothing has broken
 * out of its part.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weir/cookie.h>

#include "base/mem.h"
#include "http/request.h"
#include "target.h"

static weir_span next_part(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *nul = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
	weir_span part = {(const char *)*at, (size_t)((nul != NULL ? nul : end) - *at)};
	*at = nul != NULL ? nul + 1 : end;
	return part;
}

static void check_field(const weir_cookie *cookie, weir_span value, bool secure)
{
	size_t semicolons = 0, wanted = 2; /* Path and SameSite */
	wanted += cookie->domain.length > 0;
	wanted += cookie->max_age_s != 0;
	wanted += secure;
	wanted += !cookie->scripts;
	CHECK(value.length <= WEIR_COOKIE_BYTES_MAX);
	for (size_t i = 0; i < value.length; i++) {
		CHECK(value.at[i] >= ' ' && value.at[i] <= '~');
		semicolons += value.at[i] == ';';
	}
	CHECK(semicolons == wanted);
	CHECK(memcmp(value.at, cookie->name.at, cookie->name.length) == 0);
	CHECK(value.at[cookie->name.length] == '=');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	_Alignas(16) char arena[64];
	weir_request request = {.arena = arena, .arena_end = arena + sizeof(arena), .secure = data[0] & 1};
	const uint8_t *at = data + 3, *end = data + size;
	weir_cookie cookie = {.secure = data[0] & 2,
			      .scripts = data[0] & 4,
			      .same_site = (weir_same_site)(data[1] & 3),
			      .max_age_s = (int8_t)data[2] * INT64_C(100000)};
	cookie.name = next_part(&at, end);
	cookie.value = next_part(&at, end);
	cookie.path = next_part(&at, end);
	cookie.domain = next_part(&at, end);
	weir_field field;
	int error = weir_request_set_cookie(&request, &cookie, &field);
	CHECK(error == 0 || error == -EINVAL);
	if (error == 0)
		check_field(&cookie, field.value, cookie.secure || request.secure);
	else
		check_sentence();
	weir_chunk *next;
	for (weir_chunk *chunk = request.chunks; chunk != NULL; chunk = next) {
		next = chunk->next;
		weir_mem_free(chunk);
	}
	return 0;
}
