/* SPDX-License-Identifier: Apache-2.0 */
#include "bottleneck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECKSUMS = 50, BYTES = 100 * 1024, CAPACITY = 4096, THREADS = 2, PAGE_BYTES = 8192, SHOWN = 20 };

typedef struct bottleneck {
	struct bottleneck *next;
	int fd;
	off_t file_bytes;
	uint32_t checksums, bytes;
} bottleneck;

/* All that were made: a stage has no end that could free them. Made by one thread. */
static bottleneck *made;

/* Adler-32, as it is defined: cheap enough to do fifty times, dear enough to be work. */
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

/* A page with the first of the checksums; its length. */
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

static int open_file(const bottleneck_options *options, bottleneck *b)
{
	struct stat stat;
	b->fd = open(options->file != NULL ? options->file : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (b->fd < 0 || fstat(b->fd, &stat) != 0)
		return -errno;
	b->file_bytes = stat.st_size;
	return 0;
}

int bottleneck_new(weir_world *world, const bottleneck_options *options, weir_stage **ret_stage)
{
	const char *name = options->name != NULL ? options->name : "bottleneck";
	bottleneck *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	b->checksums = options->checksums != 0 ? options->checksums : CHECKSUMS;
	b->bytes = options->bytes != 0 ? options->bytes : BYTES;
	uint32_t threads = options->threads != 0 ? options->threads : THREADS;
	weir_domain_options pool = {
		.name = name, .kind = WEIR_ELASTIC, .min_threads = threads, .max_threads = threads};
	weir_stage_options stage = {.name = name,
				    .handle = handle,
				    .drop = weir_request_drop,
				    .arg = b,
				    .capacity = options->capacity != 0 ? options->capacity : CAPACITY,
				    .admission = options->law,
				    .admission_params = options->law_params};
	weir_domain *domain;
	int failed = open_file(options, b);
	if (failed == 0)
		failed = weir_domain_new(world, &pool, &domain);
	if (failed == 0)
		failed = weir_stage_new(domain, &stage, ret_stage);
	if (failed == 0) {
		b->next = made;
		made = b;
	} else {
		if (b->fd > 0)
			close(b->fd);
		free(b);
	}
	return failed;
}
