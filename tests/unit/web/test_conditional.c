/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 9110 13, as tables. */
#include "on_asked.h"

#define DATE      "Sun, 06 Nov 1994 08:49:37 GMT"
#define LATER     "Sun, 06 Nov 1994 08:49:38 GMT"
#define WEDNESDAY "Wed, 09 Nov 1994 08:49:37 GMT"
#define OLDER     "Sun, 06 Nov 1994 08:49:36 GMT"

static const weir_validators have = {
	.etag = {"\"abc\"", 5}, .date = {DATE, 29}, .modified_s = 784111777, .date_strong = true};

static void check_condition(const weir_validators *validators, const char *fields, weir_condition want)
{
	request_text text;
	weir_condition got = weir_conditional(asked_by(&text, fields), validators, 784111777);
	if (got != want)
		fail_msg("%s%d instead of %d", fields, (int)got, (int)want);
}

#define holds(fields)      check_condition(&have, fields, WEIR_CONDITION_HOLDS)
#define unmodified(fields) check_condition(&have, fields, WEIR_CONDITION_NOT_MODIFIED)
#define failed(fields)     check_condition(&have, fields, WEIR_CONDITION_FAILED)

static void nothing_asked(void **state)
{
	holds("");
	holds("Range: bytes=0-1\r\nAccept-Encoding: gzip\r\n");
}

static void if_match(void **state)
{
	holds("If-Match: \"abc\"\r\n");
	holds("If-Match: *\r\n");
	holds("If-Match: \"x\", \"abc\"\r\n");
	holds("If-Match: \"x\"\r\nIf-Match: \"abc\"\r\n");
	failed("If-Match: \"x\"\r\n");
	failed("If-Match: W/\"abc\"\r\n");
	failed("If-Match: abc\r\n");
	failed("If-Match: \r\n");
	failed("If-Match: \"x,\\\"abc\"\r\n");
}

static void if_none_match(void **state)
{
	unmodified("If-None-Match: \"abc\"\r\n");
	unmodified("If-None-Match: W/\"abc\"\r\n");
	unmodified("If-None-Match: *\r\n");
	unmodified("If-None-Match: \"x\" , W/\"y\",\"abc\"\r\n");
	unmodified("If-None-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n");
	holds("If-None-Match: \"x\"\r\n");
	holds("If-None-Match: w/\"abc\"\r\n");
	holds("If-None-Match: \"abcd\"\r\n");
	holds("If-None-Match: abc\r\n");
}

static void if_modified_since(void **state)
{
	unmodified("If-Modified-Since: " DATE "\r\n");
	unmodified("If-Modified-Since: " LATER "\r\n");
	unmodified("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n");
	unmodified("If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n");
	holds("If-Modified-Since: " OLDER "\r\n");
	holds("If-Modified-Since: yesterday\r\n");
	holds("If-Modified-Since: " DATE "\r\nIf-Modified-Since: " DATE "\r\n");
}

static void if_unmodified_since(void **state)
{
	holds("If-Unmodified-Since: " DATE "\r\n");
	holds("If-Unmodified-Since: " LATER "\r\n");
	holds("If-Unmodified-Since: nonsense\r\n");
	failed("If-Unmodified-Since: " OLDER "\r\n");
}

/* 13.2.2: each is looked at only if the one before it is not there, or has let it pass. */
static void in_their_order(void **state)
{
	holds("If-Match: \"abc\"\r\nIf-Unmodified-Since: " OLDER "\r\n");
	failed("If-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n");
	unmodified("If-Match: \"abc\"\r\nIf-None-Match: \"abc\"\r\n");
	holds("If-None-Match: \"x\"\r\nIf-Modified-Since: " DATE "\r\n");
	unmodified("If-None-Match: \"abc\"\r\nIf-Modified-Since: " OLDER "\r\n");
	failed("If-Unmodified-Since: " OLDER "\r\nIf-None-Match: \"abc\"\r\n");
	unmodified("If-Unmodified-Since: " DATE "\r\nIf-Modified-Since: " DATE "\r\n");
}

static void without_validators(void **state)
{
	static const weir_validators nothing;
	check_condition(&nothing, "If-None-Match: \"\"\r\n", WEIR_CONDITION_HOLDS);
	check_condition(&nothing, "If-None-Match: *\r\n", WEIR_CONDITION_NOT_MODIFIED);
	check_condition(&nothing, "If-Modified-Since: " DATE "\r\n", WEIR_CONDITION_HOLDS);
	check_condition(&nothing, "If-Match: \"abc\"\r\n", WEIR_CONDITION_FAILED);
}

static void check_range(const weir_validators *validators, const char *fields, weir_range want)
{
	request_text text;
	uint64_t first, count;
	weir_range got = weir_asked_range(asked_by(&text, fields), validators, 100, &first, &count);
	if (got != want)
		fail_msg("%s%d instead of %d", fields, (int)got, (int)want);
}

static void if_range(void **state)
{
	weir_validators weak = have;
	weak.date_strong = false;
	check_range(&have, "", WEIR_RANGE_WHOLE);
	check_range(&have, "Range: bytes=0-1\r\n", WEIR_RANGE_PART);
	check_range(&have, "Range: bytes=200-\r\n", WEIR_RANGE_NONE);
	check_range(&have, "Range: bytes=0-1\r\nRange: bytes=2-3\r\n", WEIR_RANGE_WHOLE);
	check_range(&have, "Range: bytes=0-1\r\nIf-Range: \"abc\"\r\n", WEIR_RANGE_PART);
	check_range(&have, "Range: bytes=200-\r\nIf-Range: \"abc\"\r\n", WEIR_RANGE_NONE);
	check_range(&have, "Range: bytes=200-\r\nIf-Range: \"x\"\r\n", WEIR_RANGE_WHOLE);
	check_range(&have, "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", WEIR_RANGE_WHOLE);
	check_range(&have, "Range: bytes=0-1\r\nIf-Range: W/\"abc\"\r\n", WEIR_RANGE_WHOLE);
	check_range(&have, "Range: bytes=0-1\r\nIf-Range: " DATE "\r\n", WEIR_RANGE_PART);
	check_range(&have, "Range: bytes=0-1\r\nIf-Range: " LATER "\r\n", WEIR_RANGE_WHOLE);
	check_range(&weak, "Range: bytes=0-1\r\nIf-Range: " DATE "\r\n", WEIR_RANGE_WHOLE);
	weir_validators wednesday = have;
	wednesday.date = (weir_span){WEDNESDAY, sizeof(WEDNESDAY) - 1};
	check_range(&wednesday, "Range: bytes=0-1\r\nIf-Range: " WEDNESDAY "\r\n", WEIR_RANGE_PART);
	check_range(&have, "Range: bytes=0-1\r\nIf-Range: \"abc\"\r\nIf-Range: \"abc\"\r\n",
		    WEIR_RANGE_WHOLE);
	check_range(&have, "If-Range: \"abc\"\r\n", WEIR_RANGE_WHOLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_asked),       cmocka_unit_test(if_match),
		cmocka_unit_test(if_none_match),       cmocka_unit_test(if_modified_since),
		cmocka_unit_test(if_unmodified_since), cmocka_unit_test(in_their_order),
		cmocka_unit_test(without_validators),  cmocka_unit_test(if_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
