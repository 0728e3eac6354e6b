/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_FERRY_H
#define WEIR_HTTP_FERRY_H

/*
 * Between a request's home and a thread that streams its answer or reads its body (weir/stream.h): pieces of
 * bytes in two bounded queues, and orders.
 *
 *	owner: weir_request_stream_...        home
 *	begin ─ BEGIN ─▶                      head out; from here on the request is BEGUN
 *	write ─ pieces ─▶ out ─▶ sending ─▶   weir_request_write; -ENOBUFS: goes on when drained
 *	read  ─ READ, RESUME ─▶               weir_request_read, _resume; bytes ─▶ in ─▶ owner
 *	end   ─ END or ABORT ─▶               when all pieces are out: weir_request_end
 *
 * Invariants
 *	1. A ferry belongs to its request and is freed with it, at home, where it is known by request->ferry.
 *	2. While orders wait it is in its loop's list (`posted`). If somebody at home answers the request
 *	   then and it is freed, the list has the last pointer to the ferry, and a reference on the loop's
 *	   share: `request` is NULL, and whoever takes the ferry from the list frees it.
 *	3. The owner touches the request and the ferry until it has given END or ABORT. These are given under
 *	   the lock, so home cannot end the request before the owner has let go.
 *	4. Home ends the request after END or ABORT only. A client that leaves sets `gone` and wakes the
 *	   owner, nothing more.
 *	5. out_bytes and in_bytes count each piece from its making to its sending or reading, with its header:
 *	   they bound memory.
 *	6. Once the loop is over there is no home: the owner carries out its orders itself, on a request that
 *	   is GONE.
 *
 * Lock: that of the loop's share, held for a few words. `change` is waited for under it, by the owner alone.
 *
 * Threads: as grouped below.
 */

#include "http/server.h"

#define WEIR_FERRY_IN_BYTES    65536u
#define WEIR_FERRY_PIECE_BYTES 16384u

/* Bytes on their way. */
typedef struct weir_piece {
	struct weir_piece *next;
	size_t length;
	char bytes[];
} weir_piece;

typedef struct weir_pieces {
	weir_piece *first, **end;
} weir_pieces;

enum weir_ferry_order {
	WEIR_FERRY_BEGIN = 1 << 0,
	WEIR_FERRY_READ = 1 << 1,
	WEIR_FERRY_RESUME = 1 << 2,
	WEIR_FERRY_END = 1 << 3,
	WEIR_FERRY_ABORT = 1 << 4,
};

struct weir_ferry {
	/* const after init */
	weir_http_loop *loop;
	size_t out_most, piece_most;

	/* the owner's; the reply is home's from BEGIN on */
	weir_reply reply;
	uint64_t length; /* of the answer, announced */
	uint64_t left;   /* of it */
	bool begun, reads;
	weir_piece *reading; /* taken from `in`; its bytes from read_at on have not been read */
	size_t read_at;

	/* home's */
	weir_request *request; /* NULL: freed; written under the lock */
	weir_pieces sending;
	unsigned ending; /* END or ABORT was ordered */
	bool hooked;     /* gone and drained of the request are ours */
	bool pumping;
	bool broken; /* something is missing in the answer, so it is cut whatever the owner says */
	void (*gone_fn)(weir_request *request, void *arg); /* whose place ours has taken */
	void *gone_arg;

	/* under the lock */
	weir_ferry *next; /* in the loop's list */
	bool posted;
	unsigned orders;
	weir_pieces out, in;
	size_t out_bytes, in_bytes;
	bool paused;   /* home has paused the body: RESUME is wanted */
	bool in_over;  /* the body's end has come */
	bool gone;     /* the client has */
	int in_failed; /* there was no memory for a part of the body */
	pthread_cond_t change;
};

/* ---- ferry.c: away ---- */

/* Gives orders; the lock is held. true: there is no home, so call weir_ferry_arrive once it is not. */
bool weir_ferry_order_locked(weir_ferry *ferry, unsigned orders);

/* ---- ferry_home.c: at home, or where the orders are carried out instead ---- */

/* Carries out its orders. The request may be freed by this, and the ferry with it. */
void weir_ferry_arrive(weir_ferry *ferry);
/* Its request is being freed. */
void weir_ferry_leave(weir_ferry *ferry);
/* Its request is about to be answered by others: no more of the body is wanted. */
void weir_ferry_let_go(weir_request *request);

/* ---- pieces ---- */

static inline void weir_pieces_init(weir_pieces *pieces)
{
	pieces->first = NULL;
	pieces->end = &pieces->first;
}

static inline void weir_pieces_add(weir_pieces *pieces, weir_piece *piece)
{
	piece->next = NULL;
	*pieces->end = piece;
	pieces->end = &piece->next;
}

/* NULL: there is none. */
static inline weir_piece *weir_pieces_take(weir_pieces *pieces)
{
	weir_piece *piece = pieces->first;
	if (piece == NULL)
		return NULL;
	pieces->first = piece->next;
	if (pieces->first == NULL)
		pieces->end = &pieces->first;
	return piece;
}

/* A copy of the bytes; NULL: out of memory. */
weir_piece *weir_piece_new(const void *bytes, size_t length);
void weir_pieces_free(weir_pieces *pieces);

static inline size_t weir_piece_cost(const weir_piece *piece)
{
	return sizeof(*piece) + piece->length;
}

#endif
