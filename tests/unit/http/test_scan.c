/* SPDX-License-Identifier: Apache-2.0 */
#include "support/guard.h"

#include <weir/random.h>

#include "http/head.h"
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

/* ---- usual lines ---- */

#define ROOM 50

/* Field lines one by one, as simply as can be; ret_next: where the line behind each begins. Returns how many there are. */
static size_t read_lines(const char *bytes, size_t at, size_t end, weir_head_field *fields, size_t *ret_next)
{
	size_t count = 0;
	while (count < ROOM) {
		size_t colon = weir_scan_plain.token(bytes, at, end);
		if (colon == at || colon == end || bytes[colon] != ':')
			break;
		size_t stop = weir_scan_plain.value(bytes, colon + 1, end);
		if (end - stop < 2 || !weir_is_line_end(bytes + stop))
			break;
		weir_head_keep(&fields[count], bytes, at, colon, stop);
		at = ret_next[count++] = stop + 2;
	}
	return count;
}

/* "Name: value", as everybody writes it: such a line must be taken. Bounds are those of vectors, and what is short of the end is a line behind it. */
static bool is_plain_line(const char *bytes, const weir_head_field *field, size_t next, size_t end)
{
	bool plain = field->name_length < 32 && field->value_length > 0 && next < end &&
		     field->value == field->name + field->name_length + 2U &&
		     bytes[field->value - 1] == ' ' && field->value + field->value_length + 2 == next;
	for (size_t i = 0; i < field->value_length; i++)
		plain = plain && bytes[field->value + i] >= ' ' && bytes[field->value + i] < 0x7f;
	return plain;
}

/* What a scanner takes is what is there, up to some line; and if nothing about a line is odd, it takes that. */
static void expect_lines(uint64_t seed, const weir_scanner *scanner, const char *bytes, size_t at, size_t end)
{
	weir_head_field want[ROOM], fields[ROOM];
	size_t next[ROOM];
	weir_head head;
	weir_head_init(&head);
	/* Answers: no Host is judged, and what else could be refused the texts do not have. */
	weir_head_limits limits = {.line_bytes = 8192, .head_bytes = 32768, .fields = seed % 3 ? ROOM : 2};
	size_t count = read_lines(bytes, at, end, want, next);
	size_t stop = scanner->fields(&head, bytes, at, end, &limits, fields, true);
	assert_for_seed(seed, head.field_count <= count && head.field_count <= limits.fields);
	assert_for_seed(seed, stop == (head.field_count > 0 ? next[head.field_count - 1] : at));
	assert_for_seed(seed, memcmp(fields, want, head.field_count * sizeof(*fields)) == 0);
	if (scanner != &weir_scan_plain && end >= 64 && head.field_count < count &&
	    head.field_count < limits.fields)
		assert_for_seed(seed, !is_plain_line(bytes, &want[head.field_count], next[head.field_count],
						     end - 4));
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
		for (size_t s = 0; s < count; s++)
			expect_lines(seed, all[s], bytes, 0, length);
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
				expect_lines(seed, all[s], bytes, at, length);
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
