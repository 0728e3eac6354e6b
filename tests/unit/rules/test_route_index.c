/* SPDX-License-Identifier: Apache-2.0 */
/* The index finds what comparing all routes finds, whatever their rules are. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <weir/random.h>

#include "base/mem.h"

#include "rules/route_index.h"

enum { TABLES = 300, QUESTIONS = 60, TEXT = 320 };

static weir_span span(const char *text)
{
	return (weir_span){text, strlen(text)};
}

/* The request has two fields X, of which one rule may ask: "1" and "2", or "1" twice. */
static bool twice_the_same;

static weir_span header_of(const void *of, weir_span name, uint64_t *cursor)
{
	uint64_t nth = (*cursor)++;
	if (nth > 1 || name.length != 1)
		return (weir_span){0};
	return span(nth == 0 || twice_the_same ? "1" : "2");
}

static weir_match_input question(const char *path, const char *host, weir_method method, bool *ambiguous)
{
	return (weir_match_input){.path = span(path),
				  .host = span(host),
				  .method = method,
				  .method_text = span(method == WEIR_METHOD_GET ? "GET" : "POST"),
				  .header = header_of,
				  .ambiguous = ambiguous};
}

/* ---- tables ---- */

static void add(weir_routes *routes, const char *const *rules)
{
	static int stage; /* it is never asked for anything */
	char name[16];
	snprintf(name, sizeof(name), "r%u", routes->route_count);
	weir_route_options options = {.name = name, .rules = rules, .stage = (weir_stage *)(void *)&stage};
	if (weir_routes_add(routes, &options) != 0)
		fail_msg("%s", weir_error());
}

static const char *const words[] = {"/a", "/b", "/a/b", "/ab", "/a/b/c", "/abc/d"};
static const char *const hosts[] = {"a.org", "b.org", "x.a.org", "y.x.a.org", "[::1]", "org"};

static const char *any(weir_random *random, const char *const *list, size_t count)
{
	return list[weir_random_below(random, count)];
}

#define ANY(list) any(random, list, sizeof(list) / sizeof(*(list)))

static void random_rule(weir_random *random, char text[static TEXT])
{
	switch (weir_random_below(random, 9)) {
	case 0:
	case 1:
		snprintf(text, TEXT, "path %s", ANY(words));
		break;
	case 2:
	case 3:
		snprintf(text, TEXT, "path %s* %s/*", ANY(words), ANY(words));
		break;
	case 4:
		snprintf(text, TEXT, "host %s %s", ANY(hosts), ANY(hosts));
		break;
	case 5:
		snprintf(text, TEXT, "host *.%s", weir_random_below(random, 2) ? "a.org" : "org");
		break;
	case 6:
		snprintf(text, TEXT, "not path %s*", ANY(words));
		break;
	case 7:
		snprintf(text, TEXT, "header X = 1");
		break;
	default:
		snprintf(text, TEXT, "method POST");
	}
}

static weir_routes *random_table(weir_random *random)
{
	char text[3][TEXT];
	weir_routes *routes;
	uint32_t count = (uint32_t)weir_random_below(random, 60);
	assert_int_equal(weir_routes_new(&routes), 0);
	for (uint32_t i = 0; i < count; i++) {
		const char *rules[4] = {NULL};
		uint32_t many = 1 + (uint32_t)weir_random_below(random, 3);
		for (uint32_t rule = 0; rule < many; rule++) {
			random_rule(random, text[rule]);
			rules[rule] = text[rule];
		}
		add(routes, rules);
	}
	return routes;
}

static const weir_route *by_comparing(const weir_routes *routes, const weir_match_input *input)
{
	for (uint32_t i = 0; i < routes->route_count; i++)
		if (routes->routes[i].matcher == NULL ||
		    weir_matcher_matches(routes->routes[i].matcher, input))
			return &routes->routes[i];
	return NULL;
}

static void expect_the_same(weir_routes *routes, const char *path, const char *host, weir_method method)
{
	bool ambiguous[2] = {false, false};
	weir_match_input input = question(path, host, method, &ambiguous[0]);
	const weir_route *wanted = by_comparing(routes, &input);
	weir_found found;
	input.ambiguous = &ambiguous[1];
	weir_routes_find(routes, &input, 1, &found);
	if (found.route != wanted)
		fail_msg("%s %s: %s instead of %s", path, host, found.route ? found.route->name : "none",
			 wanted ? wanted->name : "none");
	assert_int_equal(ambiguous[0], ambiguous[1]);
}

static void finds_what_comparing_finds(void **state)
{
	for (uint64_t seed = 1; seed <= TABLES; seed++) {
		weir_random own, *random = &own;
		weir_random_init(random, seed);
		weir_routes *routes = random_table(random);
		weir_routes_ref(routes);
		for (int i = 0; i < QUESTIONS; i++) {
			char path[TEXT], host[TEXT];
			snprintf(path, sizeof(path), "%s%s%s", ANY(words),
				 weir_random_below(random, 2) ? "/" : "",
				 weir_random_below(random, 2) ? "d" : "");
			snprintf(host, sizeof(host), "%s%s", ANY(hosts),
				 weir_random_below(random, 2) ? ":80" : "");
			twice_the_same = weir_random_below(random, 2) != 0;
			expect_the_same(routes, path, host,
					weir_random_below(random, 2) ? WEIR_METHOD_GET : WEIR_METHOD_POST);
		}
		expect_the_same(routes, "/", "", WEIR_METHOD_GET);
		expect_the_same(routes, "/a", "X.A.Org.", WEIR_METHOD_GET);
		weir_routes_unref(routes);
		weir_routes_unref(routes);
	}
}

/* ---- how much is compared ---- */

/* How many routes are compared at most, of those that lead to the wanted one. */
static unsigned compared(const weir_routes *routes, const char *path, const char *host)
{
	bool ambiguous = false;
	weir_match_input input = question(path, host, WEIR_METHOD_GET, &ambiguous);
	weir_route_walk walk;
	unsigned count = 0;
	weir_route_walk_begin(routes->index, &input, &walk);
	while (weir_route_walk_next(&walk) != UINT32_MAX)
		count++;
	return count;
}

static void many(const char *const *format, uint32_t count, const char *path, const char *host, unsigned most)
{
	weir_routes *routes;
	assert_int_equal(weir_routes_new(&routes), 0);
	for (uint32_t i = 0; i < count; i++) {
		char text[2][TEXT];
		const char *rules[3] = {NULL};
		for (unsigned rule = 0; rule < 2 && format[rule] != NULL; rule++) {
			const char *number = strchr(format[rule], '#');
			if (number != NULL)
				snprintf(text[rule], TEXT, "%.*s%u%s", (int)(number - format[rule]),
					 format[rule], i, number + 1);
			else
				snprintf(text[rule], TEXT, "%s", format[rule]);
			rules[rule] = text[rule];
		}
		add(routes, rules);
	}
	weir_routes_ref(routes);
	assert_non_null(routes->index);
	expect_the_same(routes, path, host, WEIR_METHOD_GET);
	assert_in_range(compared(routes, path, host), 1, most);
	weir_routes_unref(routes);
	weir_routes_unref(routes);
}

static void few_are_compared(void **state)
{
	many((const char *const[]){"path /r#/*", NULL}, 10000, "/r9999/x", "h", 1);
	many((const char *const[]){"path /r#", NULL}, 10000, "/r9999", "h", 1);
	many((const char *const[]){"host h#.a.org", NULL}, 10000, "/", "h9999.A.org:80", 1);
	many((const char *const[]){"host *.h#.org", NULL}, 10000, "/", "www.h9999.org", 1);
	/* The rule that tells them apart, wherever it stands. */
	many((const char *const[]){"host a.org", "path /r#/*"}, 10000, "/r9999/x", "a.org", 1);
	many((const char *const[]){"path /api/*", "host h#.a.org"}, 10000, "/api/x", "h9999.a.org", 1);
}

/* Anchors of more lengths than there is room for: routes of the rest are compared, and found. */
static void many_lengths(void **state)
{
	weir_routes *routes;
	char text[TEXT], path[TEXT];
	const char *rules[2] = {text, NULL};
	assert_int_equal(weir_routes_new(&routes), 0);
	for (int i = 1; i < 280; i++) {
		snprintf(text, sizeof(text), "path /%0*d/*", i, 0);
		add(routes, rules);
	}
	weir_routes_ref(routes);
	for (int i = 1; i < 280; i++) {
		snprintf(path, sizeof(path), "/%0*d/x", i, 0);
		expect_the_same(routes, path, "", WEIR_METHOD_GET);
	}
	assert_in_range(compared(routes, "/0/x", ""), 1, 280);
	weir_routes_unref(routes);
	weir_routes_unref(routes);
}

/* Without memory for an index, all are compared. */
static void without_memory(void **state)
{
	for (uint64_t nth = 1; nth <= 5; nth++) {
		weir_random random;
		weir_routes *routes;
		weir_random_init(&random, 3);
		do {
			routes = random_table(&random);
			if (routes->route_count >= 20)
				break;
			weir_routes_unref(routes);
		} while (true);
		weir_mem_fail_after(nth);
		weir_routes_ref(routes);
		weir_mem_fail_after(0);
		assert_true((routes->index == NULL) == (nth <= 4));
		expect_the_same(routes, "/a/b", "a.org", WEIR_METHOD_GET);
		weir_routes_unref(routes);
		weir_routes_unref(routes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_comparing_finds),
		cmocka_unit_test(few_are_compared),
		cmocka_unit_test(many_lengths),
		cmocka_unit_test(without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
