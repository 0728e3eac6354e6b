/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <weir/random.h>

#include "http/scan.h"

static const weir_scanner *const *scanners(size_t *ret_count)
{
	static const weir_scanner *found[3];
	size_t count = 0;
	found[count++] = &weir_scan_plain;
	if (weir_scan_sse42() != NULL)
		found[count++] = weir_scan_sse42();
	if (weir_scan_avx2() != NULL)
		found[count++] = weir_scan_avx2();
	*ret_count = count;
	return found;
}

static weir_scan_fn *kind_of(const weir_scanner *scanner, unsigned kind)
{
	weir_scan_fn *const all[] = {scanner->token, scanner->path, scanner->query, scanner->host,
				     scanner->value};
	return all[kind];
}

static bool in_kind(unsigned byte, unsigned kind)
{
	bool alnum =
		(byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
	bool visible = byte > ' ' && byte < 0x7f;
	switch (kind) {
	case 0:
		return alnum || (byte != 0 && strchr("!#$%&'*+-.^_`|~", (int)byte) != NULL);
	case 1:
		return visible && byte != '#' && byte != '?';
	case 2:
		return visible && byte != '#';
	case 3:
		return alnum || (byte != 0 && strchr("-._~", (int)byte) != NULL);
	default:
		return byte == '\t' || (byte >= ' ' && byte != 0x7f);
	}
}

/* Each byte at each place of texts of each length, right before a page that nobody may touch; and right after one. */
static void test_each_byte_at_each_place(void **state)
{
	size_t count;
	const weir_scanner *const *all = scanners(&count);
	for (size_t s = 0; s < count; s++)
		for (unsigned kind = 0; kind < 5; kind++)
			for (unsigned byte = 0; byte < 256; byte++)
				for (size_t length = 1; length < 100; length += 1 + length / 8)
					for (size_t place = 0; place < length; place += 1 + length / 20) {
						char text[100];
						memset(text, 'x', length);
						text[place] = (char)byte;
						bool in = in_kind(byte, kind) &&
							  !(kind == 3 && byte == '.' && place == 0);
						size_t want = in ? length : place;
						const char *end = guard_end(text, length);
						assert_int_equal(kind_of(all[s], kind)(end, 0, length), want);
						const char *begin = guard_begin(text, length);
						assert_int_equal(kind_of(all[s], kind)(begin, 0, length),
								 want);
					}
}

static void expect_same_lines(uint64_t seed, const weir_scanner *scanner, const char *bytes, size_t at,
			      size_t end)
{
	weir_head_field fields[2][50];
	size_t counts[2], room = seed % 3 ? 50 : 2;
	memset(fields, 0, sizeof(fields));
	size_t stop = weir_scan_plain.lines(bytes, at, end, fields[0], room, &counts[0]);
	assert_for_seed(seed, scanner->lines(bytes, at, end, fields[1], room, &counts[1]) == stop);
	assert_for_seed(seed, counts[0] == counts[1]);
	assert_for_seed(seed, memcmp(fields[0], fields[1], sizeof(fields[0])) == 0);
}

/* Lines of names and values of all lengths, some of them wrong. */
static void test_random_lines(void **state)
{
	size_t count;
	const weir_scanner *const *all = scanners(&count);
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		char text[1000];
		size_t length = 0;
		weir_random random;
		weir_random_init(&random, seed);
		while (length < 800 && weir_random_below(&random, 8) != 0) {
			length += (size_t)sprintf(text + length, "%.*s:%.*s%.*s%.*s\r\n",
						  (int)weir_random_below(&random, 40),
						  "connection-a-name-that-is-long-enough-000",
						  (int)weir_random_below(&random, 3), " \t",
						  (int)weir_random_below(&random, 80),
						  "a value that is long enough for two vectors of the widest "
						  "kind and for some more",
						  (int)weir_random_below(&random, 3), "\t ");
		}
		length += (size_t)sprintf(text + length, "\r\n");
		if (seed % 2)
			text[weir_random_below(&random, length)] =
				"\r\n\x01 :"[weir_random_below(&random, 5)];
		length -= weir_random_below(&random, length);
		const char *bytes = seed % 4 < 2 ? guard_end(text, length) : guard_begin(text, length);
		for (size_t s = 1; s < count; s++)
			expect_same_lines(seed, all[s], bytes, 0, length);
	}
}

/* Texts whose bytes are mostly of the kind, from any place on: all say what the plain one says. */
static void test_random_texts(void **state)
{
	static const char common[] = "abcXYZ019-._~..a/b", rare[] = " \t:;?#\r\n\0\x7f\x80\xff";
	size_t count;
	const weir_scanner *const *all = scanners(&count);
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		char text[200];
		weir_random random;
		weir_random_init(&random, seed);
		size_t length = 1 + weir_random_below(&random, sizeof(text) - 1);
		for (size_t i = 0; i < length; i++)
			text[i] = weir_random_below(&random, 30) != 0
					  ? common[weir_random_below(&random, sizeof(common) - 1)]
					  : rare[weir_random_below(&random, sizeof(rare) - 1)];
		const char *bytes = seed % 2 ? guard_end(text, length) : guard_begin(text, length);
		for (size_t at = 0; at <= length; at++)
			for (size_t s = 1; s < count; s++) {
				for (unsigned kind = 0; kind < 5; kind++)
					assert_for_seed(seed,
							kind_of(all[s], kind)(bytes, at, length) ==
								kind_of(all[0], kind)(bytes, at, length));
				expect_same_lines(seed, all[s], bytes, at, length);
			}
	}
}

static void test_choice(void **state)
{
	assert_true(weir_scan_force("plain"));
	assert_string_equal(weir_scan()->name, "plain");
	assert_false(weir_scan_force("abacus"));
	assert_string_equal(weir_scan()->name, "plain");
	assert_true(weir_scan_force(NULL));
	size_t count;
	const weir_scanner *const *all = scanners(&count);
	assert_ptr_equal(weir_scan(), all[count - 1]);
	weir_scan_use(NULL);
	assert_ptr_equal(weir_scan(), all[count - 1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_byte_at_each_place),
		cmocka_unit_test(test_random_texts),
		cmocka_unit_test(test_random_lines),
		cmocka_unit_test(test_choice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
