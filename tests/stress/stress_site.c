/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads serve files that change all the time, from a cache that is too small for them. Every version of a file is one letter, again and again, as often as the letter says: so an answer
 * that mixes two versions, or has the length of another, shows.
 */
#include "support/on_web.h"

#include <pthread.h>

#define FILES    12
#define CLIENTS  4
#define REQUESTS 3000
#define IN_PLACE \
	0 /* the file that is emptied and written again under its own name: it may be empty, but never a part or a mixture */
#define SWITCH 4000u /* files beyond it go by descriptor */

typedef struct tally {
	_Atomic unsigned whole, partial, unchanged, absent, later, wrong, cut;
	_Atomic bool over;
	char example[512]; /* of what is wrong; the first one's */
} tally;

typedef struct client {
	const web *web;
	tally *tally;
	uint64_t seed;
	pthread_t thread;
} client;

static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(*seed >> 33);
}

/* Some are kept in memory, some are not; and the encoded ones are shorter. */
static size_t length_of(unsigned file, char letter)
{
	return file % 3 == 2 ? SWITCH * 2 + (size_t)(letter - 'a') * 1000 : 50 + (size_t)(letter - 'a') * 100;
}

/* ---- the one who changes files ---- */

static void write_letters(const web *w, const char *name, char letter, size_t length)
{
	char text[SWITCH * 10];
	int fd = open(path_in(w, name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	memset(text, letter, length);
	if (fd < 0 || write(fd, text, length) != (ssize_t)length)
		abort();
	close(fd);
}

static void change_one(const web *w, uint64_t *seed)
{
	char name[32], letter = (char)('a' + draw(seed) % 26);
	/* Half of it is about the one in place. */
	unsigned file = draw(seed) % 2 == 0 ? IN_PLACE : draw(seed) % FILES;
	snprintf(name, sizeof(name), "%u", file);
	switch (draw(seed) % 8) {
	case 0:
		unlink(path_in(w, name));
		break;
	case 1:
		snprintf(name, sizeof(name), "%u.gz", file);
		unlink(path_in(w, name));
		break;
	case 2:
		write_letters(w, ".new", (char)(letter - 'a' + 'A'), length_of(file, letter));
		snprintf(name, sizeof(name), "%u.gz", file);
		rename(path_in(w, ".new"), path_in(w, name));
		break;
	default:
		if (file == IN_PLACE) {
			write_letters(w, name, letter, length_of(file, letter));
			break;
		}
		write_letters(w, ".new", letter, length_of(file, letter));
		rename(path_in(w, ".new"), path_in(w, name));
	}
}

static void *change(void *arg)
{
	const client *c = arg;
	uint64_t seed = c->seed;
	while (!c->tally->over)
		change_one(c->web, &seed);
	return NULL;
}

/* ---- clients ---- */

static void is_wrong(tally *t, const char *head, const char *why)
{
	if (t->wrong++ == 0)
		snprintf(t->example, sizeof(t->example), "%s: %s", why, head);
}

static void judge(tally *t, unsigned file, const char *head, const char *body, size_t length)
{
	int status = atoi(head + 9);
	if (status == 404)
		t->absent++;
	else if (status == 503)
		t->later++;
	else if (status == 304)
		t->unchanged++;
	else if (status != 200 && status != 206 && status != 416)
		is_wrong(t, head, "status");
	if (status != 200 && status != 206)
		return;
	if (file == IN_PLACE && length == 0) {
		t->whole++;
		return;
	}
	for (size_t i = 1; i < length; i++)
		if (body[i] != body[0]) {
			is_wrong(t, head, "two versions");
			return;
		}
	bool packed = strstr(head, "Content-Encoding: gzip") != NULL;
	char letter = packed ? (char)(body[0] - 'A' + 'a') : body[0];
	if (letter < 'a' || letter > 'z')
		is_wrong(t, head, "another file");
	else if (status == 200 && length != length_of(file, letter))
		is_wrong(t, head, "length");
	else
		*(status == 200 ? &t->whole : &t->partial) += 1;
}

/* One answer; false: the connection was cut. */
static bool hear_one(int fd, char *into, size_t room, tally *t, unsigned file)
{
	size_t got = 0, want = 0;
	char *body = NULL;
	while (body == NULL || got < want) {
		ssize_t n = recv(fd, into + got, room - 1 - got, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		got += (size_t)n;
		into[got] = '\0';
		if (body == NULL && (body = strstr(into, "\r\n\r\n")) != NULL) {
			const char *length = strstr(into, "Content-Length: ");
			body += 4;
			body[-1] = '\0';
			want = (size_t)(body - into) + (length != NULL ? strtoul(length + 16, NULL, 10) : 0);
		}
	}
	judge(t, file, into, body, want - (size_t)(body - into));
	return true;
}

static const char *const extras[] = {"", "", "Accept-Encoding: gzip\r\n", "Range: bytes=10-60\r\n",
				     "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"};

static void *ask_on(void *arg)
{
	client *c = arg;
	static const size_t room = SWITCH * 12;
	char text[256], *into = malloc(room);
	int fd = -1;
	for (int i = 0; i < REQUESTS; i++) {
		unsigned file = draw(&c->seed) % FILES;
		if (i == 0 || draw(&c->seed) % 50 == 0) {
			/* Another connection, while the old one may have something under way. */
			if (i > 0) {
				snprintf(text, sizeof(text), "GET /%u HTTP/1.1\r\nHost: x\r\n\r\n", file);
				send(fd, text, strlen(text), MSG_NOSIGNAL);
			}
			close(fd);
			fd = dial(c->web);
		}
		snprintf(text, sizeof(text), "GET /%u HTTP/1.1\r\nHost: x\r\n%s\r\n", file,
			 extras[draw(&c->seed) % (sizeof(extras) / sizeof(*extras))]);
		if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 ||
		    !hear_one(fd, into, room, c->tally, file)) {
			c->tally->cut++;
			break;
		}
	}
	close(fd);
	free(into);
	return NULL;
}

static void files_that_change(void **state)
{
	skip_without(state);
	static const char *const index[] = {"index.html", NULL};
	web w = {.threads = 3,
		 .cache_options = {.bytes = 24000, .file_bytes = SWITCH, .revalidate_ns = 100000},
		 .site_options = {.precompressed = true, .listing = true, .index = index}};
	tally t = {0};
	client clients[CLIENTS + 1];
	web_open(&w);
	for (unsigned i = 0; i <= CLIENTS; i++) {
		clients[i] = (client){.web = &w, .tally = &t, .seed = i + 1};
		assert_int_equal(
			pthread_create(&clients[i].thread, NULL, i < CLIENTS ? ask_on : change, &clients[i]),
			0);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(clients[i].thread, NULL);
	t.over = true;
	pthread_join(clients[CLIENTS].thread, NULL);
	weir_cache_stats stats = cache_stats(&w);
	print_message(
		"whole %u, partial %u, unchanged %u, absent %u, later %u, cut %u; hits %llu, misses %llu, "
		"revalidated %llu, evicted %llu\n",
		t.whole, t.partial, t.unchanged, t.absent, t.later, t.cut, (unsigned long long)stats.hits,
		(unsigned long long)stats.misses, (unsigned long long)stats.revalidated,
		(unsigned long long)stats.evicted);
	if (t.wrong != 0)
		fail_msg("%u wrong answers, the first: %s", t.wrong, t.example);
	assert_int_equal(t.cut, 0);
	assert_true(t.whole > REQUESTS / 4 && t.absent > 0 && stats.revalidated > 0 && stats.evicted > 0);
	assert_true(stats.bytes <= 24000);
	web_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {ON_BOTH(files_that_change)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
