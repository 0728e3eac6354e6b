/* SPDX-License-Identifier: Apache-2.0 */
/* URLs taken apart, addresses found and tried, and addresses to come from. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "load/place.h"

static const char *const explains = "; a URL is http://HOST[:PORT][/PATH]";

/* ---- URLs ---- */

static void expect_place(const char *url, bool secure, const char *host, const char *port,
			 const char *authority, const char *target)
{
	load_place place;
	if (load_place_parse(url, &place) != 0)
		fail_msg("%s: %s", url, weir_error());
	assert_int_equal(place.secure, secure);
	assert_string_equal(place.host, host);
	assert_string_equal(place.port, port);
	assert_string_equal(place.authority, authority);
	assert_int_equal(place.target.length, strlen(target));
	assert_memory_equal(place.target.at, target, strlen(target));
	check_contains(place.origin, secure ? "https://" : "http://");
	assert_string_equal(place.origin + (secure ? 8 : 7), authority);
}

static void urls(void **state)
{
	expect_place("http://example.org/", false, "example.org", "80", "example.org", "/");
	expect_place("http://example.org", false, "example.org", "80", "example.org", "");
	expect_place("HTTPS://example.org:443/a?b=c", true, "example.org", "443", "example.org", "/a?b=c");
	expect_place("https://example.org:80/", true, "example.org", "80", "example.org:80", "/");
	expect_place("http://[::1]:8080/x", false, "::1", "8080", "[::1]:8080", "/x");
	expect_place("http://[::1]/x", false, "::1", "80", "[::1]", "/x");
	expect_place("127.0.0.1:8080/x", false, "127.0.0.1", "8080", "127.0.0.1:8080", "/x");
	expect_place("localhost", false, "localhost", "80", "localhost", "");
	/* A fragment is nobody's but the reader's; another URL within a query is the query's. */
	expect_place("http://h/a#b", false, "h", "80", "h", "/a");
	expect_place("h//x", false, "h", "80", "h", "//x");
	expect_place("h:1/go?to=ftp://there/", false, "h", "1", "h:1", "/go?to=ftp://there/");
}

static void expect_bad(const char *url, const char *what)
{
	load_place place = {.port = "same"};
	assert_int_equal(load_place_parse(url, &place), -EINVAL);
	check_contains(weir_error(), what);
	check_contains(weir_error(), explains);
	assert_string_equal(place.port, "same");
}

static void bad_urls(void **state)
{
	char longest[300] = "http://";
	expect_bad("", "no host");
	expect_bad("http://", "no host");
	expect_bad("http:///x", "no host");
	expect_bad("http://:80/", "no host");
	expect_bad("http://[]/", "no host");
	expect_bad("ftp://h/", "only http and https");
	expect_bad("http://[::1", "']' is missing");
	expect_bad("http://[::1]x", "after ']'");
	expect_bad("http://h:/", "from 1 to 65535");
	expect_bad("http://h:0/", "from 1 to 65535");
	expect_bad("http://h:65536/", "from 1 to 65535");
	expect_bad("http://h:80x/", "from 1 to 65535");
	expect_bad("http://h:00000000080/", "from 1 to 65535");
	expect_bad("http://u:p@h/", "--header");
	expect_bad("http://h?a", "begins with '/'");
	expect_bad("http://h/a b", "bytes that a URL cannot have");
	expect_bad("http://h/\xc3\xa4", "bytes that a URL cannot have");
	expect_bad("http://h/\r\nX: y", "bytes that a URL cannot have");
	memset(longest + 7, 'h', 256);
	expect_bad(longest, "255");
	/* One character less fits, and so does all that is made of it. */
	longest[7 + 255] = '\0';
	load_place place;
	assert_int_equal(load_place_parse(longest, &place), 0);
	assert_int_equal(strlen(place.authority), 255);
	assert_int_equal(strlen(place.origin), 262);
}

/* ---- reaching it ---- */

static void reaching(void **state)
{
	load_place place;
	char url[64];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(at.sin_port));
	assert_int_equal(load_place_parse(url, &place), 0);
	/* Bound, but nobody listens. */
	assert_int_equal(load_place_reach(&place, 1000), -ECONNREFUSED);
	check_contains(weir_error(), "cannot connect to http://127.0.0.1:");
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(load_place_reach(&place, 10000), 0);
	assert_int_equal(place.address.length, sizeof(at));
	assert_memory_equal(&place.address.at, &at, sizeof(at));
	close(fd);
	assert_int_equal(load_place_parse("http://nowhere.invalid/", &place), 0);
	assert_int_equal(load_place_reach(&place, 1000), -EHOSTUNREACH);
	check_contains(weir_error(), "nowhere.invalid: ");
}

/* ---- addresses to come from ---- */

static void expect_sources(const char *text, unsigned most, const char *const *names, int count)
{
	load_address found[8];
	char name[INET6_ADDRSTRLEN];
	int got = load_sources_parse(text, found, most);
	if (got != count)
		fail_msg("%s: %d, %s", text, got, got < 0 ? weir_error() : "");
	for (int i = 0; i < count; i++) {
		const void *number =
			found[i].at.ss_family == AF_INET
				? (const void *)&((struct sockaddr_in *)(void *)&found[i].at)->sin_addr
				: &((struct sockaddr_in6 *)(void *)&found[i].at)->sin6_addr;
		assert_non_null(inet_ntop(found[i].at.ss_family, number, name, sizeof(name)));
		assert_string_equal(name, names[i]);
		assert_int_equal(found[i].length, found[i].at.ss_family == AF_INET
							  ? sizeof(struct sockaddr_in)
							  : sizeof(struct sockaddr_in6));
	}
}

static void sources(void **state)
{
	static const char *const three[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"};
	static const char *const others[] = {"127.0.0.1", "::1", "10.0.0.255", "10.0.1.0"};
	expect_sources("127.0.0.1", 8, three, 1);
	expect_sources("127.0.0.1-127.0.0.3", 8, three, 3);
	expect_sources("127.0.0.1-127.0.0.3", 3, three, 3);
	expect_sources("127.0.0.1,127.0.0.2, 127.0.0.3", 3, three, 3);
	expect_sources("127.0.0.1,::1,10.0.0.255-10.0.1.0", 8, others, 4);
}

static void bad_sources(void **state)
{
	static const char *const bad[] = {
		"", ",", "x", "127.0.0.1-", "-127.0.0.1", "127.0.0.1-::1", "::1-::2", "127.0.0.300"};
	load_address found[4];
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(load_sources_parse(bad[i], found, 4), -EINVAL);
		check_contains(weir_error(), "is no address");
	}
	assert_int_equal(load_sources_parse("127.0.0.1-127.0.0.5", found, 4), -EINVAL);
	check_contains(weir_error(), "not 1 to 4 addresses");
	assert_int_equal(load_sources_parse("127.0.0.2-127.0.0.1", found, 4), -EINVAL);
	/* Nothing is written behind the last: the fifth is refused. */
	assert_int_equal(load_sources_parse("127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1", found, 4),
			 -EINVAL);
}

static void sources_that_can_be_used(void **state)
{
	load_address found[3];
	load_place place = {.address.at.ss_family = AF_INET};
	assert_int_equal(load_sources_parse("127.0.0.1-127.0.0.3", found, 3), 3);
	assert_int_equal(load_sources_check(found, 3, &place), 0);
	assert_int_equal(load_sources_check(NULL, 0, &place), 0);
	/* For documentation: nobody's. */
	assert_int_equal(load_sources_parse("127.0.0.1,192.0.2.1", found, 3), 2);
	assert_int_equal(load_sources_check(found, 2, &place), -EINVAL);
	check_contains(weir_error(), "192.0.2.1: ");
	assert_int_equal(load_sources_parse("127.0.0.1,::1", found, 3), 2);
	assert_int_equal(load_sources_check(found, 2, &place), -EINVAL);
	check_contains(weir_error(), "::1 is of another family");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(urls),    CHECK_TEST(bad_urls),    CHECK_TEST(reaching),
		CHECK_TEST(sources), CHECK_TEST(bad_sources), CHECK_TEST(sources_that_can_be_used),
	};
	return cmocka_run_group_tests_name("load_place", tests, NULL, NULL);
}
