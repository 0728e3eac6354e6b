/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include "http/parse.h"

/* In memory of exactly the size needed, so that ASan sees more. NULL: refused. */
static const char *clean(const char *path, bool *ret_dot)
{
	static char copy[300];
	size_t length = strlen(path), made = 77, size = length + 2;
	char *exact = malloc(length ? length : 1), *to = malloc(size);
	bool dot = false;
	assert_true(exact != NULL && to != NULL && length < 290);
	for (size_t i = 0; i < length; i++)
		exact[i] = path[i];
	bool good = weir_path_clean((weir_span){exact, length}, to, size, &made, &dot);
	if (good) {
		assert_int_equal(strlen(to), made);
		memcpy(copy, to, made + 1);
		*ret_dot = dot;
	} else {
		assert_true(made == 77 && !dot);
	}
	free(exact);
	free(to);
	return good ? copy : NULL;
}

static void test_clean(void **state)
{
	static const struct {
		const char *path, *want;
		bool dot;
	} examples[] = {
		{"/", "/", false},
		{"", "/", false},
		{"/a", "/a", false},
		{"/a/b/c", "/a/b/c", false},
		{"/a/", "/a/", false},
		{"//", "/", false},
		{"///a//b///", "/a/b/", false},
		{"/.", "/", false},
		{"/./", "/", false},
		{"/./a/./b/.", "/a/b/", false},
		{"/a/..", "/", false},
		{"/a/../", "/", false},
		{"/a/b/..", "/a/", false},
		{"/a/b/../c", "/a/c", false},
		{"/a/b/../../c", "/c", false},
		{"/a//../b", "/b", false},
		{"/a/.//../b", "/b", false},
		{"/a/./../b", "/b", false},
		{"/%61%62", "/ab", false},
		{"/%41/%7E", "/A/~", false},
		{"/a%20b", "/a b", false},
		{"/%e4%F6", "/\xe4\xf6", false},
		{"/a/%2e%2e/b", "/b", false},
		{"/a/%2E./b", "/b", false},
		{"/a/.%2e/b", "/b", false},
		{"/%2e/a", "/a", false},
		{"/%252e%252e/a", "/%2e%2e/a", false},
		{"/a%3fb%23c", "/a?b#c", false},
		{"/a%5cb", "/a\\b", false},
		{"/a+b", "/a+b", false},
		{"/.a", "/.a", true},
		{"/a/.git/x", "/a/.git/x", true},
		{"/...", "/...", true},
		{"/..a", "/..a", true},
		{"/%2egit", "/.git", true},
		{"/.git/../a", "/a", false},
		{"/a.b/c.", "/a.b/c.", false},
		{"/a/...", "/a/...", true},
		{"/\x01", "/\x01", false},
	};
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		bool dot = false;
		const char *made = clean(examples[i].path, &dot);
		if (made == NULL || strcmp(made, examples[i].want) != 0 || dot != examples[i].dot)
			fail_msg("'%s' gives '%s'%s instead of '%s'", examples[i].path,
				 made ? made : "(refused)", dot ? " with a dot" : "", examples[i].want);
	}
}

static void test_refused(void **state)
{
	static const char *const paths[] = {
		"a",        "*",          "a/b",     "%2fa",  "/..",    "/../a",
		"/a/../..", "/a/../../b", "/%2e%2e", "/./..", "//..",   "/a/b/../../../c",
		"/%",       "/%4",        "/%4x",    "/%x4",  "/%zz",   "/a%",
		"/a%2",     "/%00",       "/a%00b",  "/%2f",  "/a%2Fb", "/%2f..",
		"/..%2f",   "/% 1",       "/%-1",    "/%+1",  "/%0",    "/a/%2e%2e/..",
		"/%%41",    "/%u0041",
	};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		bool dot;
		const char *made = clean(paths[i], &dot);
		if (made != NULL)
			fail_msg("'%s' gives '%s'", paths[i], made);
	}
	char to[8];
	size_t length;
	bool dot;
	assert_false(weir_path_clean((weir_span){"/a\0b", 4}, to, sizeof(to), &length, &dot));
}

/* It fits with its NUL, or is refused; nothing is written beyond. */
static void test_sizes(void **state)
{
	static const char *const paths[] = {"/abc/def", "/abc/", "/abc//////", "/", "", "/%61bc/x/../def"};
	static const char *const want[] = {"/abc/def", "/abc/", "/abc/", "/", "/", "/abc/def"};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		for (size_t size = 0; size < 20; size++) {
			char *to = malloc(size ? size : 1);
			size_t length;
			bool dot;
			assert_non_null(to);
			bool good = weir_path_clean((weir_span){paths[i], strlen(paths[i])}, to, size,
						    &length, &dot);
			assert_true(good || size <= strlen(want[i]) + 2);
			if (good)
				assert_string_equal(to, want[i]);
			assert_true(!good || size > strlen(want[i]));
			free(to);
		}
}

/* What is clean is its own cleaning, has no empty and no dot segments. */
static void test_clean_is_clean(void **state)
{
	static const char *const pieces[] = {"/",   "/",  "a",    ".",   "..", "%2e",
					     "%61", "bc", "/../", "%25", "%7f"};
	weir_random random;
	weir_random_init(&random, 11);
	for (unsigned round = 0; round < 20000; round++) {
		char path[100] = "/", first[300];
		bool dot = false, again = false;
		for (uint64_t count = weir_random_below(&random, 12); count > 0; count--)
			snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s",
				 pieces[weir_random_below(&random, sizeof(pieces) / sizeof(*pieces))]);
		const char *made = clean(path, &dot);
		if (made == NULL)
			continue;
		snprintf(first, sizeof(first), "%s", made);
		assert_int_equal(first[0], '/');
		assert_null(strstr(first, "//"));
		assert_null(strstr(first, "/./"));
		assert_null(strstr(first, "/../"));
		assert_int_equal(dot, strstr(first, "/.") != NULL);
		if (strchr(first, '%') == NULL) {
			assert_string_equal(clean(first, &again), first);
			assert_int_equal(dot, again);
		}
	}
}

static bool decodes(const char *path)
{
	/* Memory of its own, so that a sanitizer sees what is read behind it. */
	size_t length = strlen(path);
	char *own = malloc(length != 0 ? length : 1);
	memcpy(own, path, length);
	bool good = weir_path_decodes((weir_span){own, length});
	free(own);
	return good;
}

static void test_decodes(void **state)
{
	static const char *const good[] = {"",     "/",      "/a",       "/%41",  "/a%2Fb", "/a%2fb",
					   "/%25", "/%2525", "/%ff/%FF", "/../x", "*"};
	static const char *const bad[] = {"%",     "/%",     "/%4",       "/%zz",   "/%4g", "/%g4",
					  "/%%41", "/a%00b", "/%41%zz/b", "/%2f%2", "/%2z"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(decodes(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(decodes(bad[i]));
}

/* In memory of exactly the size needed. NULL: refused. */
static const char *tidy(const char *path)
{
	static char copy[300];
	size_t length = strlen(path), made = 77;
	char *exact = malloc(length), *to = malloc(length);
	assert_true(exact != NULL && to != NULL && length < sizeof(copy));
	memcpy(exact, path, length);
	bool good = weir_path_tidy((weir_span){exact, length}, to, &made);
	bool same = good && made == length && memcmp(to, path, length) == 0;
	assert_true(weir_path_is_tidy((weir_span){exact, length}) == same);
	if (good) {
		memcpy(copy, to, made);
		copy[made] = '\0';
	}
	free(exact);
	free(to);
	return good ? copy : NULL;
}

static void test_tidy(void **state)
{
	static const char *const examples[][2] = {
		{"/", "/"},
		{"//", "/"},
		{"/a", "/a"},
		{"/a/", "/a/"},
		{"//a///b//", "/a/b/"},
		{"/a/.", "/a/"},
		{"/a/..", "/"},
		{"/a/b/..", "/a/"},
		{"/a/../b", "/b"},
		{"/a/%2e%2E/b", "/b"},
		{"/a/.%2e/b/%2E", "/b/"},
		{"/a/%252e%252e/b", "/a/%252e%252e/b"},
		{"/a%2Fb/../c", "/c"},
		{"/a/..%2Fb", "/a/..%2Fb"},
		{"/.well-known/x", "/.well-known/x"},
		{"/.../a", "/.../a"},
		{"/a..b/..c", "/a..b/..c"},
		{"/search/../vip/x", "/vip/x"},
		{"/..", NULL},
		{"/a/../..", NULL},
		{"/%2e%2e/a", NULL},
	};
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const char *made = tidy(examples[i][0]);
		if (examples[i][1] == NULL)
			assert_null(made);
		else
			assert_string_equal(made, examples[i][1]);
	}
}

/* Whoever decodes the tidied path finds what rules have seen. */
static void test_tidy_means_the_same(void **state)
{
	static const char *const parts[] = {"/", "/", ".", "..", "%2e", "a", "%2E.", "b%41", "%25", "//"};
	weir_random random;
	weir_random_init(&random, 7);
	for (unsigned round = 0; round < 20000; round++) {
		char path[64] = "/", seen[64];
		bool dot;
		for (unsigned i = weir_random_u64(&random) % 9; i > 0; i--)
			strcat(path, parts[weir_random_u64(&random) % 10]);
		const char *want = clean(path, &dot);
		if (want != NULL)
			memcpy(seen, want, strlen(want) + 1);
		const char *made = tidy(path);
		assert_true((made == NULL) == (want == NULL));
		if (made != NULL)
			assert_string_equal(clean(made, &dot), seen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_clean_is_clean),
		cmocka_unit_test(test_decodes),
		cmocka_unit_test(test_tidy),
		cmocka_unit_test(test_tidy_means_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
