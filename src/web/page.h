/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_PAGE_H
#define WEIR_WEB_PAGE_H

/*
 * A page: what a site has under one name, ready to be answered with. A file in all encodings that lie beside it, each with the fields of its answer; or a folder asked for without its '/', to be
 * redirected; or a folder's listing.
 *
 * Invariants
 *	1. Immutable once it is published, but for the atomics below and the links that the cache has under its lock.
 *	2. Reference-counted: the cache has one, whoever answers with it another. What is being sent may be evicted.
 *	3. A form has its bytes, or a descriptor of its own. A descriptor is closed by the stage "site-work", as the last close of a deleted file may take its time.
 *
 * Threads: any may hold and let go.
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

/* Which file it is and which version of it. */
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
	void (*drop)(struct weir_work *work); /* instead of run: the world ends without patience */
} weir_work;

/* One representation of a file. */
typedef struct weir_form {
	weir_work work; /* its way to be closed; first */
	weir_buf *buf;  /* NULL: by descriptor */
	int fd;         /* -1: none */
	uint64_t length;
	uint8_t field_count;
	uint8_t validators; /* from this field on they belong in a 304 too */
	uint8_t etag_length;
	bool unsure; /* it was changed so shortly before it was read that its stamp does not prove anything: read it again */
	weir_stamp stamp;
	weir_field fields[WEIR_FORM_FIELDS];
	char etag[WEIR_ETAG_MOST];
	/* The whole of it, but for the hold on the page that a descriptor needs. Its head is a block of its own. */
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
	bool plain; /* a path as it is sent finds it: nothing in it could be an escape */
	uint8_t kind;
	uint8_t encodings; /* bits of its forms */
	bool date_strong;
	uint64_t bytes; /* what it counts as */
	weir_stage *closer;
	weir_form *forms[WEIR_ENCODING_COUNT];
	int64_t modified_s;
	char date[WEIR_DATE_BYTES];
	char *type;
	char *location; /* of a folder */

	/* any thread */
	_Atomic uint32_t refs;
	_Atomic uint8_t used;        /* by the clock: times it may be passed by */
	_Atomic bool kept;           /* it is in the cache */
	_Atomic bool checking;       /* somebody looks at the disk for it */
	_Atomic uint64_t checked_ns; /* when it was last known to be so */

	char path[]; /* clean; ended by a NUL */
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

/* A file's bytes, or its descriptor (buf NULL), which become the page's. now: the wall clock. 0 or -ENOMEM: then they are still the caller's. */
int weir_page_add(weir_page *page, weir_encoding encoding, const weir_stamp *stamp, weir_buf *buf, int fd,
		  struct timespec now);
/* A listing's bytes, as weir_page_add. */
int weir_page_add_listing(weir_page *page, weir_buf *buf);
/* All forms are there: makes the fields. 0 or -ENOMEM. */
int weir_page_finish(weir_page *page);

weir_stamp weir_stamp_of(const struct stat *stat);
bool weir_stamp_same(const weir_stamp *a, const weir_stamp *b);
/* Whether it may have changed since without its stamp showing it: clocks of file systems tick slowly. */
bool weir_stamp_fresh(const weir_stamp *stamp, struct timespec now);
weir_validators weir_page_validators(const weir_page *page, const weir_form *form);

/* Room that weir_page_encode needs for a path of so many bytes. */
#define WEIR_ENCODED_MOST(length) (3 * (length) + 1)
/* A path as it may stand in a URL; returns its end, where a NUL is. */
char *weir_path_encode(char *to, weir_span path);

#endif
