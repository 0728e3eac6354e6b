/* SPDX-License-Identifier: Apache-2.0 */
#include "web/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/parse.h"
#include "http/status.h"

/*
 * Kernels stamp files with the time of the last tick, at most 10 ms ago. Network and old file systems do so
 * in seconds, which is too long to wait.
 */
#define TICK_NS 20000000

#define MEMORY_OVERHEAD 64 /* of malloc, for each part of a page */

/* ---- stamps ---- */

weir_stamp weir_stamp_of(const struct stat *stat)
{
	return (weir_stamp){.device = stat->st_dev,
			    .inode = stat->st_ino,
			    .size = stat->st_size,
			    .modified = stat->st_mtim,
			    .changed = stat->st_ctim};
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool weir_stamp_same(const weir_stamp *a, const weir_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       same_time(a->modified, b->modified) && same_time(a->changed, b->changed);
}

static int64_t ns_between(struct timespec from, struct timespec to)
{
	int64_t seconds = to.tv_sec - from.tv_sec;
	if (seconds > 1000 || seconds < -1000)
		return seconds > 0 ? INT64_MAX : INT64_MIN;
	return seconds * INT64_C(1000000000) + (to.tv_nsec - from.tv_nsec);
}

bool weir_stamp_fresh(const weir_stamp *stamp, struct timespec now)
{
	return ns_between(stamp->changed, now) < TICK_NS;
}

/* ---- lifetime ---- */

weir_page *weir_page_new(weir_page_kind kind, uint32_t site, uint64_t hash, weir_span path, const char *type,
			 weir_stage *closer)
{
	size_t type_bytes = type != NULL ? strlen(type) + 1 : 0;
	size_t bytes = sizeof(weir_page) + path.length + 1 + type_bytes;
	weir_page *page = weir_mem_zalloc(bytes);
	if (page == NULL)
		return NULL;
	page->kind = (uint8_t)kind;
	page->site = site;
	page->hash = hash;
	page->path_length = (uint32_t)path.length;
	page->closer = closer;
	page->bytes = bytes + MEMORY_OVERHEAD;
	page->plain = memchr(path.at, '%', path.length) == NULL;
	memcpy(page->path, path.at, path.length);
	if (type != NULL) {
		page->type = page->path + path.length + 1;
		memcpy(page->type, type, type_bytes);
	}
	atomic_init(&page->refs, 1);
	return page;
}

static void free_form(weir_form *form)
{
	if (form->fd >= 0)
		close(form->fd);
	weir_buf_unref(form->buf);
	weir_mem_free((char *)(uintptr_t)form->whole.head.at);
	weir_mem_free(form);
}

static void drop_form(weir_work *work)
{
	free_form((weir_form *)(void *)work);
}

static void run_form(weir_work *work)
{
	weir_done(&work->event);
	drop_form(work);
}

/* If the stage takes no more, the file is closed here: the world ends, and nobody waits. */
static void release_form(weir_form *form, weir_stage *closer)
{
	if (form->fd >= 0 && closer != NULL) {
		form->work.run = run_form;
		form->work.drop = drop_form;
		weir_event_init(&form->work.event, 0);
		if (weir_offer(closer, &form->work.event) == WEIR_ADMITTED)
			return;
	}
	free_form(form);
}

void weir_page_unref(weir_page *page)
{
	if (page == NULL || atomic_fetch_sub_explicit(&page->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned i = 0; i < WEIR_ENCODING_COUNT; i++)
		if (page->forms[i] != NULL)
			release_form(page->forms[i], page->closer);
	weir_mem_free(page->location);
	weir_mem_free(page);
}

/* ---- forms ---- */

/* From mtime, size and inode: each version and each encoding has its own tag. */
static void print_etag(weir_form *form)
{
	const weir_stamp *stamp = &form->stamp;
	uint64_t modified =
		(uint64_t)stamp->modified.tv_sec * WEIR_NS_PER_S + (uint64_t)stamp->modified.tv_nsec;
	int length =
		snprintf(form->etag, sizeof(form->etag), "\"%llx-%llx-%llx\"", (unsigned long long)modified,
			 (unsigned long long)stamp->size, (unsigned long long)stamp->inode);
	form->etag_length = (uint8_t)length;
}

static weir_form *new_form(weir_page *page, weir_encoding encoding, weir_buf *buf, int fd)
{
	weir_form *form = weir_mem_zalloc(sizeof(*form));
	if (form == NULL)
		return NULL;
	form->buf = buf;
	form->fd = fd;
	page->forms[encoding] = form;
	page->encodings |= (uint8_t)(1U << encoding);
	page->bytes += sizeof(*form) + MEMORY_OVERHEAD;
	if (buf != NULL) {
		form->length = buf->length;
		page->bytes += buf->capacity + sizeof(*buf) + MEMORY_OVERHEAD;
	}
	return form;
}

/* A date in the future must not be sent (RFC 9110 8.8.2.1); two versions may share that of this second. */
static void set_date(weir_page *page, struct timespec modified, struct timespec now)
{
	page->modified_s = modified.tv_sec < now.tv_sec ? modified.tv_sec : now.tv_sec;
	page->date_strong = ns_between(modified, now) > 2 * INT64_C(1000000000);
	weir_date_print(page->date, page->modified_s);
}

int weir_page_add(weir_page *page, weir_encoding encoding, const weir_stamp *stamp, weir_buf *buf, int fd,
		  struct timespec now)
{
	weir_form *form = new_form(page, encoding, buf, fd);
	if (form == NULL)
		return -ENOMEM;
	form->stamp = *stamp;
	form->unsure = weir_stamp_fresh(stamp, now);
	if (buf == NULL)
		form->length = (uint64_t)stamp->size;
	print_etag(form);
	if (encoding == WEIR_ENCODING_IDENTITY)
		set_date(page, stamp->modified, now);
	return 0;
}

int weir_page_add_listing(weir_page *page, weir_buf *buf)
{
	return new_form(page, WEIR_ENCODING_IDENTITY, buf, -1) != NULL ? 0 : -ENOMEM;
}

static void add_field(weir_form *form, weir_span name, weir_span value)
{
	form->fields[form->field_count++] = (weir_field){name, value};
}

static void make_fields(weir_page *page, weir_encoding encoding)
{
	weir_form *form = page->forms[encoding];
	add_field(form, WEIR_SPAN("Content-Type"), (weir_span){page->type, strlen(page->type)});
	if (page->kind == WEIR_PAGE_LISTING)
		return;
	add_field(form, WEIR_SPAN("Accept-Ranges"), WEIR_SPAN("bytes"));
	if (encoding != WEIR_ENCODING_IDENTITY)
		add_field(form, WEIR_SPAN("Content-Encoding"), weir_encoding_token(encoding));
	form->validators = form->field_count;
	add_field(form, WEIR_SPAN("Last-Modified"), (weir_span){page->date, WEIR_DATE_BYTES - 1});
	add_field(form, WEIR_SPAN("ETag"), (weir_span){form->etag, form->etag_length});
	if (page->encodings != 1U << WEIR_ENCODING_IDENTITY)
		add_field(form, WEIR_SPAN("Vary"), WEIR_SPAN("Accept-Encoding"));
}

static char *put(char *to, weir_span text)
{
	memcpy(to, text.at, text.length);
	return to + text.length;
}

/* Once for all answers, since each field would make every answer slower. */
static int prepare(weir_page *page, weir_form *form)
{
	const weir_span status = weir_status_line(200);
	char number[32];
	int digits = snprintf(number, sizeof(number), "Content-Length: %llu\r\n",
			      (unsigned long long)form->length);
	size_t length = status.length + (size_t)digits;
	for (unsigned i = 0; i < form->field_count; i++)
		length += form->fields[i].name.length + form->fields[i].value.length + 4;
	char *head = weir_mem_zalloc(length), *to = head;
	if (head == NULL)
		return -ENOMEM;
	to = put(to, status);
	for (unsigned i = 0; i < form->field_count; i++) {
		to = put(put(to, form->fields[i].name), WEIR_SPAN(": "));
		to = put(put(to, form->fields[i].value), WEIR_SPAN("\r\n"));
	}
	put(to, (weir_span){number, (size_t)digits});
	form->whole = (weir_prepared){.reply = {.status = 200,
						.fields = form->fields,
						.field_count = form->field_count,
						.buf = form->buf,
						.length = form->buf != NULL ? (size_t)form->length : 0,
						.file = form->fd,
						.file_length = form->buf != NULL ? 0 : form->length},
				      .head = {head, length},
				      .line_length = status.length};
	page->bytes += length + MEMORY_OVERHEAD;
	return 0;
}

int weir_page_finish(weir_page *page)
{
	int error = 0;
	for (unsigned i = 0; error == 0 && i < WEIR_ENCODING_COUNT; i++) {
		if (page->forms[i] == NULL)
			continue;
		make_fields(page, (weir_encoding)i);
		error = prepare(page, page->forms[i]);
	}
	return error;
}

weir_validators weir_page_validators(const weir_page *page, const weir_form *form)
{
	if (page->kind == WEIR_PAGE_LISTING)
		return (weir_validators){0};
	return (weir_validators){.etag = {form->etag, form->etag_length},
				 .date = {page->date, WEIR_DATE_BYTES - 1},
				 .modified_s = page->modified_s,
				 .date_strong = page->date_strong};
}

/* ---- paths in URLs ---- */

static bool stands_for_itself(unsigned char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c != '\0' && strchr("-._~/!$&()*+,;=:@", c) != NULL;
}

char *weir_path_encode(char *to, weir_span path)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < path.length; i++) {
		unsigned char c = (unsigned char)path.at[i];
		if (stands_for_itself(c)) {
			*to++ = (char)c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[c >> 4];
		*to++ = digits[c & 15];
	}
	*to = '\0';
	return to;
}
