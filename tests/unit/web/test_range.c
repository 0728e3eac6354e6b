/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include "web/asked.h"

static void check(const char *text, uint64_t length, weir_range want, uint64_t first, uint64_t count)
{
	uint64_t got_first = 77, got_count = 77;
	weir_range got = weir_range_parse((weir_span){text, strlen(text)}, length, &got_first, &got_count);
	if (got != want || (want == WEIR_RANGE_PART && (got_first != first || got_count != count)))
		fail_msg("\"%s\" of %" PRIu64 ": %d, %" PRIu64 " %" PRIu64, text, length, (int)got, got_first,
			 got_count);
	if (want != WEIR_RANGE_PART && (got_first != 77 || got_count != 77))
		fail_msg("\"%s\": outputs were touched", text);
}

#define part(text, length, first, count) check(text, length, WEIR_RANGE_PART, first, count)
#define whole(text, length)              check(text, length, WEIR_RANGE_WHOLE, 0, 0)
#define none(text, length)               check(text, length, WEIR_RANGE_NONE, 0, 0)

static void ranges_that_are(void **state)
{
	part("bytes=0-0", 100, 0, 1);
	part("bytes=0-99", 100, 0, 100);
	part("bytes=0-100", 100, 0, 100);
	part("bytes=10-19", 100, 10, 10);
	part("bytes=99-", 100, 99, 1);
	part("bytes=0-", 100, 0, 100);
	part("bytes=-1", 100, 99, 1);
	part("bytes=-100", 100, 0, 100);
	part("bytes=-101", 100, 0, 100);
	part("BYTES=5-6", 100, 5, 2);
	part("bytes= 5-6 ", 100, 5, 2);
	part("bytes=,5-6,", 100, 5, 2);
	part("bytes=5-18446744073709551615", 100, 5, 95);
	part("bytes=5-99999999999999999999999999", 100, 5, 95);
	part("bytes=-99999999999999999999999999", 100, 0, 100);
	part("bytes=0-0", UINT64_MAX, 0, 1);
	part("bytes=-1", UINT64_MAX, UINT64_MAX - 1, 1);
}

static void ranges_out_of_it(void **state)
{
	none("bytes=100-", 100);
	none("bytes=100-200", 100);
	none("bytes=-0", 100);
	none("bytes=0-", 0);
	none("bytes=0-0", 0);
	none("bytes=99999999999999999999999999-", 100);
	none("bytes=18446744073709551616-18446744073709551617", 100);
}

static void ranges_to_ignore(void **state)
{
	static const char *const texts[] = {"",
					    "bytes",
					    "bytes=",
					    "bytes=-",
					    "bytes=,",
					    "bytes=a-b",
					    "bytes=5",
					    "bytes=5-4",
					    "bytes=0-1,5-6",
					    "bytes=--5",
					    "bytes=1-2-",
					    "items=0-5",
					    "bytes 0-5",
					    "bytes=0x1-5",
					    "bytes=+1-5",
					    "bytes=1 - 5",
					    "bytes=-5-",
					    "bytes=0-5;x",
					    "bytes=0-5 6-7",
					    "=0-5"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		whole(texts[i], 100);
	whole("bytes=-5", 0);
}

/* Whatever is answered lies within the file. */
static void any_range_is_within(void **state)
{
	static const char alphabet[] = "0123456789--,= b";
	uint64_t seed = 1;
	for (int i = 0; i < 200000; i++) {
		char text[32] = "bytes=";
		size_t length = 6 + (size_t)(seed >> 60);
		for (size_t j = 6; j < length; j++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			text[j] = alphabet[seed >> 60];
		}
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		uint64_t size = seed >> 50, first = 0, count = 0;
		if (weir_range_parse((weir_span){text, length}, size, &first, &count) == WEIR_RANGE_PART)
			assert_for_seed(i, count > 0 && first < size && count <= size - first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_that_are),
		cmocka_unit_test(ranges_out_of_it),
		cmocka_unit_test(ranges_to_ignore),
		cmocka_unit_test(any_range_is_within),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
