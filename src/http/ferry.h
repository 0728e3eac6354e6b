/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_FERRY_H
#define WEIR_HTTP_FERRY_H

/*
 * Connects a request's home to a thread that streams its answer or reads its body (weir/stream.h): two
 * bounded queues of pieces, and orders.
 *
 *	owner: weir_request_stream_...        home
 *	begin ─ BEGIN ─▶                      head out; from here on the request is BEGUN
 *	write ─ pieces ─▶ out ─▶ sending ─▶   weir_request_write; after -ENOBUFS it waits for drained
 *	read  ─ READ, RESUME ─▶               weir_request_read, _resume; bytes ─▶ in ─▶ owner
 *	end   ─ END or ABORT ─▶               when all pieces are out: weir_request_end
 *
 * Invariants
 *	1. A ferry belongs to its request (request->ferry) and is freed with it, at home.
 *	2. While it has orders it is in its loop's list (`posted`). If the request is answered at home and
 *	   freed meanwhile, the list has the last pointer to the ferry, and a reference on the loop's share.
 *	   Then `request` is NULL, and whoever takes the ferry from the list frees it.
 *	3. The owner may touch the request and the ferry until it has given END or ABORT. These are given
 *	   under the lock, so home cannot end the request before the owner has let go.
 *	4. Home ends the request only after END or ABORT. A client that leaves only sets `gone` and wakes the
 *	   owner.
 *	5. out_bytes and in_bytes count each piece, with its header, from its creation until it is sent or
 *	   read. They bound memory.
 *	6. Once the loop is over there is no home. The owner carries out its orders itself, on a request that
 *	   is GONE.
 *
 * Lock: that of the loop's share, held only briefly. Only the owner waits for `change`, under the lock.
 *
 * Threads: as grouped below.
 */

#include "http/server.h"

#define WEIR_FERRY_IN_BYTES    65536u
#define WEIR_FERRY_PIECE_BYTES 16384u

/* Bytes in one of the queues. */
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

	/* the owner's; from BEGIN on, the reply is home's */
	weir_reply reply;
	uint64_t length; /* of the answer, announced */
	uint64_t left;   /* of the length */
	bool begun, reads;
	weir_piece *reading; /* taken from `in`; bytes before read_at have been read */
	size_t read_at;

	/* home's */
	weir_request *request; /* NULL: freed; written under the lock */
	weir_pieces sending;
	unsigned ending; /* END or ABORT was ordered */
	bool hooked;     /* the request's gone and drained are ours */
	bool pumping;
	bool broken; /* a part of the answer is lost, so it is cut in any case */
	void (*gone_fn)(weir_request *request, void *arg); /* the function that ours has replaced */
	void *gone_arg;

	/* under the lock */
	weir_ferry *next; /* in the loop's list */
	bool posted;
	unsigned orders;
	weir_pieces out, in;
	size_t out_bytes, in_bytes;
	bool paused;   /* home has paused the body; RESUME is needed */
	bool in_over;  /* the body has ended */
	bool gone;     /* the client has gone */
	int in_failed; /* there was no memory for a part of the body */
	pthread_cond_t change;
};

/* ---- ferry.c: the owner ---- */

/* Gives orders. true: there is no home, so call weir_ferry_arrive after unlocking. */
bool weir_ferry_order_locked(weir_ferry *ferry, unsigned orders);

/* ---- ferry_home.c: at home, or where the orders are carried out instead ---- */

/* Carries out its orders. This may free the request, and the ferry with it. */
void weir_ferry_arrive(weir_ferry *ferry);
/* Its request is being freed. */
void weir_ferry_leave(weir_ferry *ferry);
/* Its request is about to be answered by others: the body is not wanted any more. */
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

/* NULL: the queue is empty. */
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
