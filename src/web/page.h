/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_PAGE_H
#define WEIR_WEB_PAGE_H

/*
 * A page: what a site has under one name, ready to be sent. A file in all encodings beside it, each with the
 * fields of its answer; or a folder requested without its '/', to be redirected; or a folder's listing.
 *
 * Invariants
 *	1. Immutable once published, except for the atomics below and the cache's links, under its lock.
 *	2. Reference-counted: the cache has one, each answer another. What is being sent may be evicted.
 *	3. A form has its bytes, or a descriptor of its own. The stage "site-work" closes descriptors, as the
 *	   last close of a deleted file may take long.
 *
 * Threads: any may take and release references.
 */

#include <stdatomic.h>
#include <sys/stat.h>
#include <weir/net.h>
#include <weir/stage.h>

#include "http/request.h"
#include "web/asked.h"

typedef enum weir_page_kind {
	WEIR_PAGE_FILE,
	WEIR_PAGE_FOLDER, /* without its '/' */
	WEIR_PAGE_LISTING,
} weir_page_kind;

/* Which file it is, and which version. */
typedef struct weir_stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
} weir_stamp;

#define WEIR_FORM_FIELDS 6
#define WEIR_ETAG_MOST   56
#define WEIR_DATE_BYTES  30

/* An event of the stage "site-work". */
typedef struct weir_work {
	weir_event event; /* first */
	void (*run)(struct weir_work *work);
	void (*drop)(struct weir_work *work); /* instead of run, if the world stops before */
} weir_work;

/* One representation of a file. */
typedef struct weir_form {
	weir_work work; /* for closing it; first */
	weir_buf *buf;  /* NULL: by descriptor */
	int fd;         /* -1: none */
	uint64_t length;
	uint8_t field_count;
	uint8_t validators; /* the fields from this one on also belong in a 304 */
	uint8_t etag_length;
	/* changed so shortly before the read that its stamp proves nothing: read it again */
	bool unsure;
	weir_stamp stamp;
	weir_field fields[WEIR_FORM_FIELDS];
	char etag[WEIR_ETAG_MOST];
	/* The answer, less the page reference that a descriptor needs. Its head is a separate block. */
	weir_prepared whole;
} weir_form;

typedef struct weir_page weir_page;
struct weir_page {
	/* the cache's, under its shard's lock */
	weir_page *next;
	weir_page *newer, *older; /* the clock's ring */

	/* const once published */
	uint64_t hash;
	uint32_t site;
	uint32_t path_length;
	bool plain; /* contains no '%', so that a path as it was sent finds it */
	uint8_t kind;
	uint8_t encodings; /* bits of its forms */
	bool date_strong;
	uint64_t bytes; /* its memory, for the bound */
	weir_stage *closer;
	weir_form *forms[WEIR_ENCODING_COUNT];
	int64_t modified_s;
	char date[WEIR_DATE_BYTES];
	char *type;
	char *location; /* of a folder */

	/* any thread */
	_Atomic uint32_t refs;
	_Atomic uint8_t used;        /* by the clock: how often it may be passed */
	_Atomic bool kept;           /* it is in the cache */
	_Atomic bool checking;       /* a check is in progress */
	_Atomic uint64_t checked_ns; /* when it was last checked */

	char path[]; /* normalised; ended by a NUL */
};

/* An empty page with one reference. type is copied; NULL: none. NULL: out of memory. */
weir_page *weir_page_new(weir_page_kind kind, uint32_t site, uint64_t hash, weir_span path, const char *type,
			 weir_stage *closer);
static inline weir_page *weir_page_ref(weir_page *page)
{
	atomic_fetch_add_explicit(&page->refs, 1, memory_order_relaxed);
	return page;
}
/* NULL is ignored. */
void weir_page_unref(weir_page *page);

/*
 * Adds a file's bytes, or its descriptor (buf NULL), which become the page's. now: the wall clock. 0 or
 * -ENOMEM: they are still the caller's.
 */
int weir_page_add(weir_page *page, weir_encoding encoding, const weir_stamp *stamp, weir_buf *buf, int fd,
		  struct timespec now);
/* Adds a listing's bytes, as weir_page_add. */
int weir_page_add_listing(weir_page *page, weir_buf *buf);
/* Call when all forms are there: makes their fields. 0 or -ENOMEM. */
int weir_page_finish(weir_page *page);

weir_stamp weir_stamp_of(const struct stat *stat);
bool weir_stamp_same(const weir_stamp *a, const weir_stamp *b);
/* Whether it may have changed again without a new stamp: the clocks of file systems tick slowly. */
bool weir_stamp_fresh(const weir_stamp *stamp, struct timespec now);
weir_validators weir_page_validators(const weir_page *page, const weir_form *form);

/* The room that weir_path_encode needs for a path of this length. */
#define WEIR_ENCODED_MOST(length) (3 * (length) + 1)
/* Encodes a path for a URL; returns its end, where a NUL is. */
char *weir_path_encode(char *to, weir_span path);

#endif
