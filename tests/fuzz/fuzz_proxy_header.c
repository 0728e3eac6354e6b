/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a PROXY header, as a whole and in every shorter part: nothing is decided twice, and once it is decided more bytes do not change it.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/proxy_header.h"
#include "target.h"

/* In memory of exactly its size. */
static weir_parse parse(weir_proxy_header *header, const uint8_t *data, size_t size)
{
	char *copy = calloc(1, size + (size == 0));
	CHECK(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	weir_parse result = weir_proxy_header_parse(header, copy, size);
	free(copy);
	return result;
}

static void check_result(weir_parse result, const weir_proxy_header *header, size_t size)
{
	CHECK(result != WEIR_PARSE_MORE || size < 16 + 4096);
	CHECK(result != WEIR_PARSE_BAD || header->error != NULL);
	if (result != WEIR_PARSE_DONE)
		return;
	CHECK(header->error == NULL && header->length >= 15 && header->length <= size);
	int family = header->client.ss_family;
	CHECK(header->local || family == AF_INET || family == AF_INET6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	weir_proxy_header whole = {0};
	weir_parse result = parse(&whole, data, size);
	check_result(result, &whole, size);
	/* Around what matters, and otherwise in steps: a long one takes too long byte by byte. */
	for (size_t part = 0; part < size; part += part < 300 ? 1 : 97) {
		weir_proxy_header header = {0};
		weir_parse early = parse(&header, data, part);
		check_result(early, &header, part);
		CHECK(early == WEIR_PARSE_MORE || early == result);
		CHECK(early != WEIR_PARSE_DONE || header.length == whole.length);
	}
	return 0;
}
