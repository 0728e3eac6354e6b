/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/mem.h"
#include "rules/match.h"

/* ---- a request ---- */

typedef struct request {
	const char *path, *host, *method, *client, *certificate;
	bool secure;
	const char *header, *header_value; /* one field */
	const char *header_again;          /* the value of a second one of that name; NULL: there is none */
	const char *cookie, *cookie_value, *cookie_again;
} request;

static weir_span span(const char *text)
{
	return (weir_span){text, text != NULL ? strlen(text) : 0};
}

static weir_span find(const char *name, const char *value, weir_span wanted, bool fold)
{
	if (name == NULL || strlen(name) != wanted.length)
		return (weir_span){0};
	int differs =
		fold ? strncasecmp(name, wanted.at, wanted.length) : memcmp(name, wanted.at, wanted.length);
	return differs == 0 ? span(value) : (weir_span){0};
}

static weir_span header_of(const void *of, weir_span name, uint64_t *cursor)
{
	const request *r = of;
	uint64_t nth = (*cursor)++;
	const char *value = nth == 0 ? r->header_value : nth == 1 ? r->header_again : NULL;
	return find(r->header, value, name, true);
}

static weir_span cookie_of(const void *of, weir_span name, uint64_t *cursor)
{
	const request *r = of;
	uint64_t nth = (*cursor)++;
	const char *value = nth == 0 ? r->cookie_value : nth == 1 ? r->cookie_again : NULL;
	return find(r->cookie, value, name, false);
}

static const struct sockaddr *client_of(const char *text, struct sockaddr_storage *at)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;
	memset(at, 0, sizeof(*at));
	if (text == NULL)
		return NULL;
	if (strcmp(text, "unix") == 0)
		at->ss_family = AF_UNIX;
	else if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		at->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		at->ss_family = AF_INET6;
	else
		fail_msg("no address: %s", text);
	return (const struct sockaddr *)at;
}

static weir_method method_of(const char *text)
{
#define WEIR_X(name)                  \
	if (strcmp(text, #name) == 0) \
		return WEIR_METHOD_##name;
	WEIR_METHODS(WEIR_X)
#undef WEIR_X
	return WEIR_METHOD_OTHER;
}

static bool ambiguous; /* of the last request */

static bool matches(const weir_matcher *matcher, const request *r)
{
	ambiguous = false;
	struct sockaddr_storage client;
	const char *method = r->method != NULL ? r->method : "GET";
	weir_match_input input = {.path = span(r->path != NULL ? r->path : "/"),
				  .host = span(r->host),
				  .method_text = span(method),
				  .method = method_of(method),
				  .secure = r->secure,
				  .client = client_of(r->client, &client),
				  .certificate = span(r->certificate),
				  .header = header_of,
				  .cookie = cookie_of,
				  .request = r,
				  .ambiguous = &ambiguous};
	return weir_matcher_matches(matcher, &input);
}

static bool rule_matches(const char *rule, const request *r)
{
	const char *rules[] = {rule, NULL};
	weir_matcher *matcher;
	if (weir_matcher_new(rules, &matcher) != 0)
		fail_msg("%s", weir_error());
	bool yes = matches(matcher, r);
	weir_matcher_free(matcher);
	return yes;
}

/* ---- what matches ---- */

typedef struct match_case {
	const char *rule;
	request request;
	bool yes;
} match_case;

/* Every case is asked the other way round as well. */
static void check_cases(const match_case *cases, size_t count)
{
	char negated[512];
	for (size_t i = 0; i < count; i++) {
		const match_case *c = &cases[i];
		snprintf(negated, sizeof(negated), "not %s", c->rule);
		if (rule_matches(c->rule, &c->request) != c->yes)
			fail_msg("case %zu: '%s' should %smatch", i, c->rule, c->yes ? "" : "not ");
		if (rule_matches(negated, &c->request) == c->yes)
			fail_msg("case %zu: '%s' should %smatch", i, negated, c->yes ? "not " : "");
	}
}

#define CHECK_CASES(cases) check_cases(cases, sizeof(cases) / sizeof(*(cases)))

static void paths(void **state)
{
	static const match_case cases[] = {
		{"path /", {.path = "/"}, true},
		{"path /", {.path = "/a"}, false},
		{"path /api", {.path = "/api"}, true},
		{"path /api", {.path = "/api/"}, false},
		{"path /api", {.path = "/ap"}, false},
		{"path /api", {.path = "/API"}, false},
		{"path /api/*", {.path = "/api/"}, true},
		{"path /api/*", {.path = "/api/x/y"}, true},
		{"path /api/*", {.path = "/api"}, false},
		{"path /api*", {.path = "/api"}, true},
		{"path /api*", {.path = "/apis"}, true},
		{"path /api*", {.path = "/ap"}, false},
		{"path /*", {.path = "/anything"}, true},
		{"path *", {.path = "/anything"}, true},
		{"path *", {.path = "*"}, true},
		{"path /*", {.path = "*"}, false},
		{"path *.jpg", {.path = "/x/y.jpg"}, true},
		{"path *.jpg", {.path = "/.jpg"}, true},
		{"path *.jpg", {.path = "/x.jpg/"}, false},
		{"path *.jpg", {.path = "jpg"}, false},
		{"path */new", {.path = "/a/new"}, true},
		{"path /a%20b", {.path = "/a b"}, true},
		{"path /%61", {.path = "/a"}, true},
		{"path /100%25", {.path = "/100%"}, true},
		{"path /a%2A", {.path = "/a*"}, true},
		{"path /a%2A", {.path = "/ab"}, false},
		{"path /a/.*", {.path = "/a/.git"}, true},
		{"path /a/..*", {.path = "/a/..b"}, true},
		{"path /a/...", {.path = "/a/..."}, true},
		{"path /a /b", {.path = "/b"}, true},
		{"path /a /b /c/*", {.path = "/c/d"}, true},
		{"path /a /b", {.path = "/c"}, false},
		{" \t path \t /a \t", {.path = "/a"}, true},
		{"path /gr\xc3\xbc", {.path = "/gr\xc3\xbc"}, true},
	};
	CHECK_CASES(cases);
}

static void hosts(void **state)
{
	static const match_case cases[] = {
		{"host www.example.org", {.host = "www.example.org"}, true},
		{"host www.example.org", {.host = "WWW.Example.ORG"}, true},
		{"host WWW.Example.org", {.host = "www.example.org"}, true},
		{"host www.example.org", {.host = "www.example.org:8080"}, true},
		{"host www.example.org", {.host = "www.example.org."}, true},
		{"host www.example.org", {.host = "www.example.org.:80"}, true},
		{"host www.example.org.", {.host = "www.example.org"}, true},
		{"host www.example.org", {.host = "xwww.example.org"}, false},
		{"host www.example.org", {.host = "www.example.org.evil"}, false},
		{"host www.example.org", {.host = "ww.example.org"}, false},
		{"host www.example.org", {.host = ""}, false},
		{"host www.example.org", {.host = NULL}, false},
		{"host *.example.org", {.host = "a.example.org"}, true},
		{"host *.example.org", {.host = "A.B.EXAMPLE.org:1"}, true},
		{"host *.example.org", {.host = "example.org"}, false},
		{"host *.example.org", {.host = ".example.org"}, false},
		{"host *.example.org", {.host = "badexample.org"}, false},
		{"host *", {.host = "x"}, true},
		{"host *", {.host = ""}, false},
		{"host *", {.host = "."}, false},
		{"host [::1]", {.host = "[::1]"}, true},
		{"host [::1]", {.host = "[::1]:443"}, true},
		{"host [2001:DB8::1]", {.host = "[2001:db8::1]:443"}, true},
		{"host [::1]", {.host = "[::1"}, false},
		{"host [::1]", {.host = "[::2]"}, false},
		{"host 127.0.0.1", {.host = "127.0.0.1:80"}, true},
		{"host a b", {.host = "b"}, true},
		{"host a b", {.host = "ab"}, false},
	};
	CHECK_CASES(cases);
}

static void methods(void **state)
{
	static const match_case cases[] = {
		{"method GET", {.method = "GET"}, true},
		{"method GET", {.method = "HEAD"}, false},
		{"method GET HEAD", {.method = "HEAD"}, true},
		{"method GET HEAD", {.method = "POST"}, false},
		{"method PURGE", {.method = "PURGE"}, true},
		{"method PURGE", {.method = "PURGEX"}, false},
		{"method PURGE", {.method = "REPORT"}, false},
		{"method PURGE GET", {.method = "GET"}, true},
		{"method GET PURGE HEAD", {.method = "HEAD"}, true},
		{"method GET PURGE HEAD", {.method = "PURGE"}, true},
		{"method GET PURGE HEAD", {.method = "get"}, false},
		{"method TRACE", {.method = "TRACE"}, true},
	};
	CHECK_CASES(cases);
}

static void fields_and_cookies(void **state)
{
	static const match_case cases[] = {
		{"header X-Key", {.header = "x-key", .header_value = ""}, true},
		{"header X-Key", {.header = "x-key", .header_value = "v"}, true},
		{"header X-Key", {.header = NULL}, false},
		{"header X-Key = v", {.header = "X-Key", .header_value = "v"}, true},
		{"header X-Key=v", {.header = "X-Key", .header_value = "v"}, true},
		{"header X-Key =v", {.header = "X-Key", .header_value = "v"}, true},
		{"header X-Key = v", {.header = "X-Key", .header_value = "V"}, false},
		{"header X-Key = v", {.header = "X-Key", .header_value = "vv"}, false},
		{"header X-Key = v", {.header = "X-Other", .header_value = "v"}, false},
		{"header X-Key = a b  c ", {.header = "X-Key", .header_value = "a b  c"}, true},
		{"header X-Key = = ", {.header = "X-Key", .header_value = "="}, true},
		{"header X-Key ~ bot", {.header = "X-Key", .header_value = "a robot"}, true},
		{"header X-Key ~ bot", {.header = "X-Key", .header_value = "bo"}, false},
		{"header X-Key ~ bot", {.header = "X-Key", .header_value = ""}, false},
		{"header X-Key ~ a b", {.header = "X-Key", .header_value = "xa bx"}, true},
		{"header X~y", {.header = "X~y", .header_value = "1"}, true},
		{"cookie id", {.cookie = "id", .cookie_value = ""}, true},
		{"cookie id", {.cookie = "ID", .cookie_value = ""}, false},
		{"cookie id = 7", {.cookie = "id", .cookie_value = "7"}, true},
		{"cookie id=7", {.cookie = "id", .cookie_value = "7"}, true},
		{"cookie id = 7", {.cookie = "id", .cookie_value = "77"}, false},
		/* The one is not the other. */
		{"cookie id", {.header = "id", .header_value = "7"}, false},
		{"header id", {.cookie = "id", .cookie_value = "7"}, false},
	};
	CHECK_CASES(cases);
}

static void clients(void **state)
{
	static const match_case cases[] = {
		{"from 10.0.0.0/8", {.client = "10.255.1.2"}, true},
		{"from 10.0.0.0/8", {.client = "11.0.0.0"}, false},
		{"from 10.0.0.0/8", {.client = "::ffff:10.1.1.1"}, true},
		{"from 10.0.0.0/8", {.client = "::ffff:11.1.1.1"}, false},
		{"from 10.0.0.0/8", {.client = "::10.1.1.1"}, false},
		{"from 10.0.0.0/8", {.client = "unix"}, false},
		{"from 10.0.0.0/8", {.client = NULL}, false},
		{"from 192.0.2.1", {.client = "192.0.2.1"}, true},
		{"from 192.0.2.1", {.client = "192.0.2.2"}, false},
		{"from 192.0.2.0/31", {.client = "192.0.2.1"}, true},
		{"from 192.0.2.0/31", {.client = "192.0.2.2"}, false},
		{"from 0.0.0.0/0", {.client = "255.255.255.255"}, true},
		{"from 0.0.0.0/0", {.client = "::1"}, false},
		{"from 0.0.0.0/0", {.client = "::ffff:1.2.3.4"}, true},
		{"from ::1", {.client = "::1"}, true},
		{"from ::1", {.client = "::2"}, false},
		{"from ::1", {.client = "127.0.0.1"}, false},
		{"from ::/0", {.client = "2001:db8::1"}, true},
		{"from ::/0", {.client = "1.2.3.4"}, false},
		{"from ::/0", {.client = "::ffff:1.2.3.4"}, false},
		{"from 2001:db8::/32", {.client = "2001:db8:ffff::1"}, true},
		{"from 2001:db8::/32", {.client = "2001:db9::1"}, false},
		{"from 2001:db8::/64", {.client = "2001:db8::ffff"}, true},
		{"from 2001:db8::/64", {.client = "2001:db8:0:1::"}, false},
		{"from 2001:db8::/65", {.client = "2001:db8::7fff:0:0:0"}, true},
		{"from 2001:db8::/65", {.client = "2001:db8::8000:0:0:0"}, false},
		{"from 2001:db8::/127", {.client = "2001:db8::1"}, true},
		{"from 2001:db8::/127", {.client = "2001:db8::2"}, false},
		{"from ::ffff:10.0.0.0/104", {.client = "10.9.9.9"}, true},
		{"from ::ffff:0:0/96", {.client = "10.9.9.9"}, true},
		{"from ::ffff:0:0/96", {.client = "::1"}, false},
		{"from ::1 10.0.0.0/8 unix", {.client = "10.0.0.1"}, true},
		{"from ::1 10.0.0.0/8 unix", {.client = "::1"}, true},
		{"from ::1 10.0.0.0/8 unix", {.client = "unix"}, true},
		{"from ::1 10.0.0.0/8 unix", {.client = "12.0.0.1"}, false},
	};
	CHECK_CASES(cases);
}

static void certificates_and_schemes(void **state)
{
	static const match_case cases[] = {
		{"certificate", {.certificate = "CN=x"}, true},
		{"certificate", {.certificate = ""}, false},
		{"certificate", {.certificate = NULL}, false},
		{"certificate CN=alice", {.certificate = "CN=alice"}, true},
		{"certificate CN=alice", {.certificate = "O=firm,CN=alice"}, true},
		{"certificate CN=alice", {.certificate = "O=firm, CN=alice,OU=x"}, true},
		{"certificate CN=alice", {.certificate = "O=firm+CN=alice"}, true},
		{"certificate CN=alice", {.certificate = "CN=alice2"}, false},
		{"certificate CN=alice", {.certificate = "CN=malice"}, false},
		{"certificate CN=alice", {.certificate = "XCN=alice"}, false},
		/* A comma in somebody's name must not make another attribute. */
		{"certificate CN=alice", {.certificate = "O=x\\,CN=alice"}, false},
		{"certificate CN=alice", {.certificate = "O=x\\\\,CN=alice"}, true},
		{"certificate CN=alice", {.certificate = "O=x\\"}, false},
		{"certificate O=A Firm", {.certificate = "CN=x,O=A Firm"}, true},
		{"scheme https", {.secure = true}, true},
		{"scheme https", {.secure = false}, false},
		{"scheme http", {.secure = false}, true},
		{"scheme http", {.secure = true}, false},
	};
	CHECK_CASES(cases);
}

static void all_rules_must_match(void **state)
{
	const char *rules[] = {"path /a /b", "not method POST PURGE", "host x", NULL};
	weir_matcher *matcher;
	assert_int_equal(weir_matcher_new(rules, &matcher), 0);
	assert_true(matches(matcher, &(request){.path = "/b", .host = "x"}));
	assert_false(matches(matcher, &(request){.path = "/c", .host = "x"}));
	assert_false(matches(matcher, &(request){.path = "/b", .host = "y"}));
	assert_false(matches(matcher, &(request){.path = "/b", .host = "x", .method = "POST"}));
	assert_false(matches(matcher, &(request){.path = "/b", .host = "x", .method = "PURGE"}));
	assert_true(matches(matcher, &(request){.path = "/a", .host = "x", .method = "OTHER"}));
	weir_matcher_free(matcher);
}

static void no_rules_match_everything(void **state)
{
	const char *none[] = {NULL};
	const char *const *lists[] = {none, NULL};
	for (int i = 0; i < 2; i++) {
		weir_matcher *matcher;
		assert_int_equal(weir_matcher_new(lists[i], &matcher), 0);
		assert_true(matches(matcher, &(request){0}));
		weir_matcher_free(matcher);
	}
	weir_matcher_free(NULL);
}

/* Requests that have no fields at all, or bytes that are no text. */
static void sparse_inputs_are_harmless(void **state)
{
	const char *each[] = {"path /a",    "path *.a",         "host a",       "host *.a",
			      "method GET", "method X",         "header A ~ b", "cookie a=b",
			      "from ::1",   "certificate CN=a", "scheme https"};
	for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++) {
		const char *rules[] = {each[i], NULL};
		weir_matcher *matcher;
		weir_match_input input = {0};
		struct sockaddr odd = {.sa_family = 0xffff};
		assert_int_equal(weir_matcher_new(rules, &matcher), 0);
		assert_false(weir_matcher_matches(matcher, &input));
		input.client = &odd;
		assert_false(weir_matcher_matches(matcher, &input));
		weir_matcher_free(matcher);
	}
}

/* ---- what is refused, and how ---- */

static void refuses_with_a_sentence(void **state)
{
	static const struct {
		const char *rule, *says;
	} cases[] = {
		{"", "a rule is expected"},
		{"   ", "a rule is expected"},
		{"not", "a rule is expected"},
		{"not not path /", "one 'not'"},
		{"pth /x", "did you mean 'path'"},
		{"Path /x", "did you mean 'path'"},
		{"headr X", "did you mean 'header'"},
		{"certficate", "did you mean 'certificate'"},
		{"frobnicate x", "rules begin with path, host, method"},
		{"path", "at least one word"},
		{"path api", "begins with '/'"},
		{"path /a/*/b", "one star"},
		{"path *a*", "one star"},
		{"path **", "one star"},
		{"path /a//b", "matches none"},
		{"path //", "matches none"},
		{"path /a/./b", "matches none"},
		{"path /a/../b", "matches none"},
		{"path /a/..", "matches none"},
		{"path /%2e%2e/b", "matches none"},
		{"path /.", "matches none"},
		{"path /a//*", "matches none"},
		{"path *//b", "matches none"},
		{"path *x/../b", "matches none"},
		{"path /%", "two hexadecimal digits"},
		{"path /%4", "two hexadecimal digits"},
		{"path /%zz", "two hexadecimal digits"},
		{"path /a%2fb", "encoded '/'"},
		{"path /a%00", "encoded '/' or NUL"},
		{"path /a?b=c", "before '?'"},
		{"path /a#b", "before '?' or '#'"},
		{"path /a b", "begins with '/'"},
		{"host", "at least one word"},
		{"host a:80", "without the port"},
		{"host ::1", "without the port"},
		{"host *a", "whole names"},
		{"host *.", "a host is expected"},
		{"host .", "a host is expected"},
		{"host [::1", "a host is expected"},
		{"host [::1]:80", "a host is expected"},
		{"host a/b", "letters, digits"},
		{"host a.*.b", "letters, digits"},
		{"method", "at least one word"},
		{"method get", "'GET'"},
		{"method GET,HEAD", "one word"},
		{"header", "'header NAME = VALUE'"},
		{"header = v", "'header NAME = VALUE'"},
		{"header X:", "'header NAME = VALUE'"},
		{"header X v", "'header NAME = VALUE'"},
		{"header X =", "a value is expected"},
		{"header X ~ ", "a value is expected"},
		{"cookie", "'cookie NAME = VALUE'"},
		{"cookie a ~ b", "'cookie NAME = VALUE'"},
		{"from", "at least one word"},
		{"from 10.0.0.0/33", "up to 32"},
		{"from ::/129", "up to 128"},
		{"from 10.0.0.0/", "number of bits"},
		{"from 10.0.0.0/a", "number of bits"},
		{"from 10.0.0.0/-1", "number of bits"},
		{"from 10.0.0.0/0008", "number of bits"},
		{"from 10.0.0.1/8", "did you mean 10.0.0.0/8"},
		{"from 2001:db8::1/32", "did you mean 2001:db8::/32"},
		{"from 10.0.0", "no address"},
		{"from localhost", "no address"},
		{"from ::1 nonsense", "'nonsense' is no address"},
		{"from fe80::1%eth0", "no address"},
		{"certificate CN", "'certificate CN=NAME'"},
		{"certificate =x", "'certificate CN=NAME'"},
		{"certificate CN=", "'certificate CN=NAME'"},
		{"scheme", "'scheme https'"},
		{"scheme ftp", "'scheme https'"},
		{"scheme https http", "'scheme https'"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *rules[] = {"path /fine", cases[i].rule, NULL};
		weir_matcher *matcher = NULL;
		char quoted[80];
		if (weir_matcher_new(rules, &matcher) != -EINVAL)
			fail_msg("'%s' should be refused", cases[i].rule);
		assert_null(matcher);
		if (strstr(weir_error(), cases[i].says) == NULL)
			fail_msg("'%s': \"%s\" does not say \"%s\"", cases[i].rule, weir_error(),
				 cases[i].says);
		snprintf(quoted, sizeof(quoted), "rule '%s'", cases[i].rule);
		assert_non_null(strstr(weir_error(), quoted));
	}
}

static void bounds_rules(void **state)
{
	const char *rules[WEIR_RULES_MAX + 2] = {0};
	static char text[4098];
	weir_matcher *matcher = NULL;
	for (int i = 0; i < WEIR_RULES_MAX; i++)
		rules[i] = "path /*";
	assert_int_equal(weir_matcher_new(rules, &matcher), 0);
	weir_matcher_free(matcher);
	rules[WEIR_RULES_MAX] = "path /*";
	assert_int_equal(weir_matcher_new(rules, &matcher), -EINVAL);
	rules[1] = NULL;
	rules[0] = text;
	/* As many alternatives as fit. */
	snprintf(text, sizeof(text), "from ");
	for (int i = 5; i < 4096; i++)
		text[i] = i % 3 == 1 ? ' ' : ':';
	assert_int_equal(weir_matcher_new(rules, &matcher), 0);
	assert_true(matches(matcher, &(request){.client = "::"}));
	assert_false(matches(matcher, &(request){.client = "::1"}));
	weir_matcher_free(matcher);
	snprintf(text, sizeof(text), "path ");
	for (int i = 5; i < 4096; i++)
		text[i] = i % 2 == 0 ? ' ' : '*';
	assert_int_equal(weir_matcher_new(rules, &matcher), 0);
	weir_matcher_free(matcher);
	text[4096] = 'x';
	matcher = NULL;
	assert_int_equal(weir_matcher_new(rules, &matcher), -EINVAL);
	assert_non_null(strstr(weir_error(), "4096"));
	assert_null(matcher);
}

static void survives_every_failed_allocation(void **state)
{
	const char *rules[] = {"path /a", "from ::1", NULL};
	uint64_t live = weir_mem_live();
	int error = -ENOMEM;
	for (uint64_t nth = 1; error != 0; nth++) {
		weir_matcher *matcher = NULL;
		weir_mem_fail_after(nth);
		error = weir_matcher_new(rules, &matcher);
		weir_mem_fail_after(0);
		assert_true(error == 0 || (error == -ENOMEM && matcher == NULL));
		weir_matcher_free(matcher);
		assert_int_equal(weir_mem_live(), live);
		assert_true(nth < 20);
	}
}

/* All fields of a name count, not the first. */
static void test_twice(void **state)
{
	static const struct {
		const char *rule;
		request request;
		bool matches, ambiguous;
	} cases[] = {
		{"header X-Key", {.header = "x-key", .header_value = "a", .header_again = "b"}, true, false},
		{"header X-Key ~ b",
		 {.header = "x-key", .header_value = "a", .header_again = "b"},
		 true,
		 false},
		{"header X-Key = a",
		 {.header = "x-key", .header_value = "a", .header_again = "a"},
		 true,
		 false},
		{"header X-Key = a",
		 {.header = "x-key", .header_value = "a", .header_again = "b"},
		 false,
		 true},
		{"header X-Key = a",
		 {.header = "x-key", .header_value = "b", .header_again = "a"},
		 false,
		 true},
		{"header X-Key = a",
		 {.header = "x-key", .header_value = "b", .header_again = "c"},
		 false,
		 false},
		{"not header X-Key = a",
		 {.header = "x-key", .header_value = "a", .header_again = "b"},
		 true,
		 true},
		{"cookie k = a", {.cookie = "k", .cookie_value = "a", .cookie_again = "a"}, true, false},
		{"cookie k = a", {.cookie = "k", .cookie_value = "a", .cookie_again = "b"}, false, false},
		{"cookie k = a", {.cookie = "k", .cookie_value = "b", .cookie_again = "a"}, false, false},
		{"cookie k", {.cookie = "k", .cookie_value = "b", .cookie_again = "a"}, true, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(rule_matches(cases[i].rule, &cases[i].request) == cases[i].matches);
		assert_true(ambiguous == cases[i].ambiguous);
	}
}

/* A list of addresses as a rule, and what is wrong with one. */
static void test_from_list(void **state)
{
	static const char *const some[] = {"10.0.0.0/8", "::1", NULL}, *const bad[] = {"10.0.0.0/33", NULL};
	weir_matcher *matcher;
	assert_int_equal(weir_matcher_from(some, &matcher), 0);
	assert_true(matches(matcher, &(request){.client = "10.1.2.3"}));
	assert_true(matches(matcher, &(request){.client = "::1"}));
	assert_false(matches(matcher, &(request){.client = "192.0.2.1"}));
	weir_matcher_free(matcher);
	assert_int_equal(weir_matcher_from(bad, &matcher), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_from_list),
		cmocka_unit_test(paths),
		cmocka_unit_test(hosts),
		cmocka_unit_test(methods),
		cmocka_unit_test(fields_and_cookies),
		cmocka_unit_test(clients),
		cmocka_unit_test(certificates_and_schemes),
		cmocka_unit_test(all_rules_must_match),
		cmocka_unit_test(no_rules_match_everything),
		cmocka_unit_test(sparse_inputs_are_harmless),
		cmocka_unit_test(refuses_with_a_sentence),
		cmocka_unit_test(bounds_rules),
		cmocka_unit_test(survives_every_failed_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
