/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a server sends to a user who follows links and carries cookies: up to the first NUL Set-Cookie values, a line each; then the page. What the user asks for next is a
 * target that can be sent, its dots are gone, and its cookies are one clean line.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "load/jar.h"
#include "load/links.h"
#include "load/work.h"
#include "target.h"

static void check_target(weir_span target)
{
	const char *query = memchr(target.at, '?', target.length);
	size_t path = query != NULL ? (size_t)(query - target.at) : target.length;
	CHECK(path > 0 && target.at[0] == '/' && target.length <= LOAD_LINK_MAX);
	for (size_t i = 0; i < target.length; i++)
		CHECK(target.at[i] > ' ' && target.at[i] <= '~' && target.at[i] != '#');
	CHECK(memmem(target.at, path, "/../", 4) == NULL && memmem(target.at, path, "/./", 3) == NULL);
	CHECK(path < 3 || memcmp(target.at + path - 3, "/..", 3) != 0);
}

static void check_cookies(weir_span cookies)
{
	unsigned count = 0;
	CHECK(cookies.length <= LOAD_JAR_MAX);
	for (size_t i = 0; i < cookies.length; i++) {
		unsigned char c = (unsigned char)cookies.at[i];
		CHECK(c >= ' ' && c != 0x7f);
		CHECK(c != ' ' || (i > 0 && cookies.at[i - 1] == ';'));
		CHECK(c != ';' || (i + 2 < cookies.length && cookies.at[i + 1] == ' '));
		count += c == ';';
	}
	CHECK(count < LOAD_COOKIES);
}

static unsigned split(const char *text, size_t length, weir_span *cookies, unsigned most)
{
	unsigned count = 0;
	for (size_t at = 0; at < length && count < most;) {
		const char *end = memchr(text + at, '\n', length - at);
		size_t line = end != NULL ? (size_t)(end - text) - at : length - at;
		cookies[count++] = (weir_span){text + at, line};
		at += line + 1;
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	load_habits habits = {.cookies = true, .links = 3, .origin = "http://h:1"};
	weir_span cookies[50];
	load_seen seen = {.status = 200, .cookies = cookies};
	load_work *work = NULL;
	load_user user;
	load_next next;
	uint64_t live = weir_mem_live();
	size_t head = size > 0 ? strnlen((const char *)data, size) : 0;
	seen.cookie_count = split((const char *)data, head, cookies, 50);
	if (head < size)
		seen.body = (weir_span){(const char *)data + head + 1, size - head - 1};
	CHECK(load_work_url(&habits, "/a/b/c?d=e", &work) == 0);
	load_user_start(work, &user, 1);
	load_user_next(work, &user, NULL, &next);
	for (unsigned i = 0; i < 8; i++) {
		load_user_next(work, &user, &seen, &next);
		check_target(next.target.length > 0 ? next.target : next.form->target);
		check_cookies(next.cookies);
	}
	load_user_end(work, &user);
	load_work_free(&work);
	CHECK(weir_mem_live() == live);
	return 0;
}
