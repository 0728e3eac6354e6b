/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_LOAD_H
#define WEIR_WEB_LOAD_H

/* The inside of a load: what load.c (beginning, waiting, end) and load_file.c (the steps) share. */

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

	/* owned by the thread that began it */
	weir_page *old;  /* the page being checked; NULL: none */
	bool comparing;  /* no difference found so far */
	weir_page *page; /* as far as it is complete */
	unsigned candidate, encoding, tries;
	bool has_turn;
	weir_file *file;
	weir_file_op op;
	void (*then)(weir_load *load); /* after the close */
	unsigned status;               /* if it ends without a page */
	weir_stamp stamp;
	weir_buf *buf, *before; /* before: the first of two reads, to compare */
	int64_t got;            /* bytes read */
	weir_load *next_reader;
	weir_listing listing;
	char *name; /* the file's, below the root */
	size_t name_length;
	char text[]; /* path and name */
};

/* load_file.c: the first step; weir_load_finish follows, perhaps before this returns. */
void weir_load_start(weir_load *load);
/* Inserts it in the list of those who wait to read: the shortest first; equals in the order of arrival. */
void weir_load_queue(weir_load **waiting, weir_load *load);
/* Releases bytes that were read. */
void weir_load_drop_bytes(weir_load *load);
/* load.c: the page is complete (0), or there is none for this reason. Frees the load. */
void weir_load_finish(weir_load *load, unsigned status);

#endif
