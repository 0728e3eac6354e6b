/* SPDX-License-Identifier: Apache-2.0 */
/* What a successor is told, and what it does not believe. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "service/handover.h"

#define THEN UINT64_C(5000000000)

static weir_handover *parse(const char *text, uint64_t now_ns)
{
	/* Memory of its own, so that a sanitizer sees what is read behind it. */
	size_t length = strlen(text);
	char *own = malloc(length != 0 ? length : 1);
	memcpy(own, text, length);
	weir_handover *handover = weir_handover_parse(own, length, now_ns);
	free(own);
	return handover;
}

static void what_is_written_is_read(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	FILE *to = fdopen(dup(fd), "w");
	weir_handover_begin(to, THEN);
	weir_handover_put_socket(to, "listen 127.0.0.1:0 0");
	weir_handover_put_socket(to, "admin");
	weir_handover_put_law(to, "a stage", "law 1 x=2");
	weir_handover_put_law(to, "b", "");
	weir_handover_put_law(to, "two\nlines", "x");
	weir_handover_put_law(to, "c", "end\nend");
	weir_handover_put_law(to, "a", "last");
	weir_handover_put_cost(to, "1 a b");
	weir_handover_put_cost(to, "two\nlines");
	weir_handover_put_cost(to, "");
	weir_handover_begin_session(to, "cookie sid");
	fputs("64 1 2\n", to);
	weir_handover_end(to);
	fclose(to);
	weir_handover *handover = weir_handover_read(fd, THEN + 1);
	assert_non_null(handover);
	assert_string_equal(weir_handover_socket(handover, 0), "listen 127.0.0.1:0 0");
	assert_string_equal(weir_handover_socket(handover, 1), "admin");
	assert_null(weir_handover_socket(handover, 2));
	assert_string_equal(weir_handover_law(handover, "a stage"), "law 1 x=2");
	assert_string_equal(weir_handover_law(handover, "b"), "");
	assert_string_equal(weir_handover_law(handover, "a"), "last");
	assert_null(weir_handover_law(handover, "c"));
	assert_null(weir_handover_law(handover, "two"));
	assert_null(weir_handover_law(NULL, "a"));
	assert_string_equal(weir_handover_cost(handover, 0), "1 a b");
	assert_string_equal(weir_handover_cost(handover, 1), "");
	assert_null(weir_handover_cost(handover, 2));
	assert_null(weir_handover_cost(NULL, 0));
	assert_string_equal(weir_handover_session(handover, "cookie sid"), "64 1 2");
	assert_null(weir_handover_session(handover, "cookie"));
	assert_null(weir_handover_session(NULL, "cookie sid"));
	weir_handover_free(handover);
	close(fd);
	assert_null(weir_handover_read(fd, THEN));
}

static void what_is_old_is_not_believed(void **state)
{
	static const char text[] = "weir-handover 1 5000000000\nlaw 1 a x\nend\n";
	weir_handover *handover = parse(text, THEN + WEIR_HANDOVER_AGE_NS);
	assert_non_null(handover);
	weir_handover_free(handover);
	assert_null(parse(text, THEN + WEIR_HANDOVER_AGE_NS + 1));
	assert_null(parse(text, THEN - 1)); /* of another boot */
}

static void nonsense_is_not_believed(void **state)
{
	static const char *const wrong[] = {"",
					    "end\n",
					    "weir-handover 1 5000000000",
					    "weir-handover 1 5000000000\n",
					    "weir-handover 1 5000000000\nsocket a\n",
					    "weir-handover 1 5000000000\nend",
					    "weir-handover 1 5000000000\nend\nmore",
					    "weir-handover 2 5000000000\nend\n",
					    "weir-handover 1 5000000000 \nend\n",
					    "weir-handover 1 x\nend\n",
					    "weir-handover 1 5000000000\nlaw\nend\n",
					    "weir-handover 1 5000000000\nlaw a b c\nend\n",
					    "weir-handover 1 5000000000\nlaw 1 ab c\nend\n",
					    "weir-handover 1 5000000000\nlaw 1 a\nend\n",
					    "weir-handover 1 5000000000\nlaw 9 a x\nend\n",
					    "weir-handover 1 5000000000\nlaw -1 a x\nend\n",
					    "weir-handover 1 5000000000\nlaw 99999999999999999999 a x\nend\n",
					    "weir-handover 1 5000000000\nsession 9 cookie sid x\nend\n",
					    "weir-handover 1 5000000000\nsession 10 cookie sid\nend\n",
					    "weir-handover 1 5000000000\nhello\nend\n"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (parse(wrong[i], THEN) != NULL)
			fail_msg("believed: %s", wrong[i]);
	assert_null(weir_handover_parse("weir-handover 1 5000000000\nsocket \0\nend\n", 40, THEN));
}

/* As many as can be kept, and one more. */
static void sizes_are_bounded(void **state)
{
	for (int laws = 0; laws < 2; laws++)
		for (size_t most = laws ? 2048 : 1024, count = most; count <= most + 1; count++) {
			char *text = NULL;
			size_t length = 0;
			FILE *to = open_memstream(&text, &length);
			weir_handover_begin(to, THEN);
			for (size_t i = 0; i < count; i++)
				laws ? weir_handover_put_law(to, "a", "b")
				     : weir_handover_put_socket(to, "a");
			weir_handover_end(to);
			fclose(to);
			weir_handover *handover = weir_handover_parse(text, length, THEN);
			assert_true((handover != NULL) == (count == most));
			weir_handover_free(handover);
			free(text);
		}
	char *large = malloc(WEIR_HANDOVER_BYTES + 1);
	memset(large, 'a', WEIR_HANDOVER_BYTES + 1);
	assert_null(weir_handover_parse(large, WEIR_HANDOVER_BYTES + 1, THEN));
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_is_old_is_not_believed),
		cmocka_unit_test(nonsense_is_not_believed),
		cmocka_unit_test(sizes_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
