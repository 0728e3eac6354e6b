/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_LOAD_H
#define WEIR_WEB_LOAD_H

/*
 * The inside of a load: what load.c (beginning, waiting, end) and load_file.c (the steps) share.
 */

#include "web/cache.h"

struct weir_load {
	/* const */
	weir_cache *cache;
	const weir_loader *loader;
	uint64_t hash;
	weir_span path;
	bool folder; /* its path ends with '/' */
	uint16_t home;

	/* under the shard's lock */
	weir_load *next;
	weir_want *wants, **wants_end;

	/* the thread that began it */
	weir_page *old;  /* the page that is checked, NULL: none */
	bool comparing;  /* still the same, as far as is known */
	weir_page *page; /* as far as it is made */
	unsigned candidate, encoding, tries;
	bool has_turn;
	weir_file *file;
	weir_file_op op;
	void (*then)(weir_load *load); /* after the close */
	unsigned status;               /* for what ends without a page */
	weir_stamp stamp;
	weir_buf *buf, *before; /* before: read first, to be compared with */
	int64_t got;            /* bytes read */
	weir_load *next_reader;
	weir_listing listing;
	char *name; /* the file's, below the root */
	size_t name_length;
	char text[]; /* path and name */
};

/* load_file.c: the first step; weir_load_finish follows, perhaps from within. */
void weir_load_start(weir_load *load);
/* Into the list of those who wait to read: the shortest first, and of equals who came first. */
void weir_load_queue(weir_load **waiting, weir_load *load);
/* Lets go of bytes that were read. */
void weir_load_drop_bytes(weir_load *load);
/* load.c: the page is made (0), or there is none for this reason. The load is gone then. */
void weir_load_finish(weir_load *load, unsigned status);

#endif
