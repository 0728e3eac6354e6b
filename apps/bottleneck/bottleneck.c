/* SPDX-License-Identifier: Apache-2.0 */
#include "bottleneck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECKSUMS = 50, BYTES = 100 * 1024, THREADS = 2, PAGE_BYTES = 8192, SHOWN = 20 };

typedef struct bottleneck {
	int fd; /* of the program itself, which is the file that is read */
	off_t file_bytes;
	uint32_t checksums, bytes; /* at the best quality */
} bottleneck;

/* Adler-32, without optimisation: cheap enough to do fifty times, slow enough to be work. */
static uint32_t checksum(const unsigned char *bytes, size_t length)
{
	uint32_t a = 1, b = 0;
	for (size_t i = 0; i < length; i++) {
		a = (a + bytes[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

static uint32_t at_least_one(double number)
{
	return number < 1 ? 1 : (uint32_t)number;
}

/* Writes a page with the first checksums; returns its length. */
static size_t make_page(char *page, const bottleneck *b, double quality, unsigned char *buffer)
{
	size_t bytes = at_least_one(b->bytes * quality);
	uint32_t count = at_least_one(b->checksums * quality);
	int length = snprintf(page, PAGE_BYTES,
			      "<!doctype html><title>bottleneck</title><h1>Quality %.2f</h1><p>%u checksums "
			      "of %zu bytes</p><ol>\n",
			      quality, count, bytes);
	for (uint32_t i = 0; i < count; i++) {
		ssize_t got = pread(b->fd, buffer, bytes, (off_t)i * 4096 % (b->file_bytes + 1));
		uint32_t sum = checksum(buffer, got > 0 ? (size_t)got : 0);
		if (i < SHOWN)
			length +=
				snprintf(page + length, PAGE_BYTES - (size_t)length, "<li>%08x</li>\n", sum);
	}
	length += snprintf(page + length, PAGE_BYTES - (size_t)length, "</ol>\n");
	return (size_t)length;
}

static void answer(weir_stage *stage, weir_request *request, const bottleneck *b, unsigned char *buffer)
{
	static const weir_field type = {WEIR_SPAN("Content-Type"), WEIR_SPAN("text/html; charset=utf-8")};
	char page[PAGE_BYTES];
	double quality = weir_stage_quality(stage, weir_request_event(request)->klass);
	size_t length = make_page(page, b, quality, buffer);
	weir_reply reply = {
		.status = 200, .fields = &type, .field_count = 1, .bytes = page, .length = length};
	weir_request_reply(request, &reply);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	const bottleneck *b = arg;
	unsigned char *buffer = malloc(b->bytes + 1);
	for (size_t i = 0; i < count; i++)
		if (buffer != NULL)
			answer(stage, weir_request_of(events[i]), b, buffer);
		else
			weir_request_reply_text(weir_request_of(events[i]), 500,
						WEIR_SPAN("out of memory\n"));
	free(buffer);
}

/* ---- the kind ---- */

typedef struct demo_keys {
	const char *demo;
} demo_keys;

static const weir_key keys[] = {WEIR_KEY("demo", TEXT, demo_keys, demo, NULL, "A built-in page: bottleneck"),
				{0}};

static void check_route(weir_config *config, const weir_route_view *route)
{
	const demo_keys *values = route->values;
	if (strcmp(values->demo, "bottleneck") != 0)
		weir_config_wrong(config, route->head, "demo", "demo: there is only bottleneck");
}

static void print_route(const weir_route_view *route, FILE *file)
{
	const demo_keys *values = route->values;
	fprintf(file, "demo %s", values->demo);
}

static void apply_flag(weir_config *config, const char *const *values, unsigned count)
{
	weir_block_head *route = weir_config_add(config, "route", "demo");
	if (route != NULL)
		weir_config_set(config, route, "demo", "bottleneck");
}

static const weir_kind_flag flag = {
	.name = "--demo",
	.help = "A page that computes, for all requests, instead of routes",
	.apply = apply_flag,
};

static void free_bottleneck(void *thing)
{
	bottleneck *b = thing;
	close(b->fd);
	free(b);
}

static int make_bottleneck(bottleneck **ret_bottleneck)
{
	struct stat stat;
	bottleneck *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	*b = (bottleneck){.checksums = CHECKSUMS, .bytes = BYTES};
	b->fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (b->fd < 0 || fstat(b->fd, &stat) != 0) {
		int failed = -errno;
		free_bottleneck(b);
		return failed;
	}
	b->file_bytes = stat.st_size;
	*ret_bottleneck = b;
	return 0;
}

/* The handler keeps a thread busy, so it has threads of its own. */
static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	static const weir_domain_options pool = {.min_threads = THREADS, .max_threads = THREADS};
	bottleneck *b = NULL;
	int failed = make_bottleneck(&b);
	if (failed != 0 || b == NULL)
		return failed;
	failed = weir_making_stage(making, &pool, handle, b, ret_stage);
	if (failed == 0)
		*ret_thing = b;
	else
		free_bottleneck(b);
	return failed;
}

const weir_kind bottleneck_kind = {
	.name = "demo",
	.keys = keys,
	.bytes = sizeof(demo_keys),
	.flag = &flag,
	.check_route = check_route,
	.print_route = print_route,
	.make = make,
	.free = free_bottleneck,
};
