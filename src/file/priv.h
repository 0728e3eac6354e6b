/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FILE_PRIV_H
#define WEIR_FILE_PRIV_H

/*
 * The internals of asynchronous files: what file.c (order, bounds, results) and the two back ends share.
 *
 *                  admitted                       first of its file              over
 *  caller's op ───────────────▶ waits in its file ─────────────────▶ in progress ─────▶ caller's op
 *              way->admit                          way->start                 weir_file_finish: done
 *
 * Invariants
 * 1. A file's requests form a queue. The first is in progress, or about to be; no other is.
 * 2. A request is an event of the stage "file" from admit (for the pool: a ticket) until right before its
 *    done function.
 * 3. way->start never finishes a request from within: done functions are called by the loop only.
 *
 * Threads: everything belongs to the reactor thread that made the request, except what a pool thread has
 * while it runs one: moved, outcome, the op's stat, and the file's fd. It gets them with the event and
 * gives them back with the post.
 */

#include <linux/openat2.h>
#include <stdatomic.h>
#include <weir/file.h>

#include "loop/uring.h"
#include "stage/friends.h"

typedef enum weir_file_kind {
	WEIR_FILE_OPEN,
	WEIR_FILE_STAT,
	WEIR_FILE_STAT_PATH,
	WEIR_FILE_READ,
	WEIR_FILE_WRITE,
	WEIR_FILE_SYNC,
	WEIR_FILE_CLOSE,
	WEIR_FILE_NOTHING,
} weir_file_kind;

#define WEIR_FILE_IN_USE 0xf11e0b05u

typedef struct weir_file_request weir_file_request;

/* Lives in weir_file_op.runtime. */
struct weir_file_request {
	weir_event event;
	weir_uring_op ring;
	weir_post post;
	weir_ticket ticket; /* pool: its place, until it is started */
	weir_file *file;
	weir_file_request *next; /* next request on the same file */
	char *bytes;
	size_t length, moved; /* in bytes: requested, and read or written so far */
	off_t offset;
	int64_t outcome;
	uint32_t magic;
	uint8_t kind;
	bool unowned;           /* no stage owns the event any more */
	_Atomic bool abandoned; /* written by the reactor thread */
};

_Static_assert(sizeof(weir_file_request) <= sizeof(((weir_file_op *)0)->runtime), "enlarge runtime");
_Static_assert(_Alignof(weir_file_request) <= _Alignof(uintptr_t), "runtime must be aligned for it");

/* A back end for requests. */
typedef struct weir_file_way {
	/* Offers it to the stage. If it is admitted, start will follow. */
	weir_verdict (*admit)(weir_file_request *request);
	/* Runs it; weir_file_finish is called on this thread later, never from within. */
	void (*start)(weir_file_request *request);
	/* As start, for an open that has become the close of the file that it opened. */
	void (*discard)(weir_file_request *request);
	/* Cuts it short if possible; it has been abandoned, and is the first of its file. */
	void (*abandon)(weir_file_request *request);
} weir_file_way;

extern const weir_file_way weir_file_way_uring;
extern const weir_file_way weir_file_way_pool;

typedef enum weir_file_state {
	/* Closed. Kept for reuse, so that a late caller gets an error instead of accessing freed memory. */
	WEIR_FILE_GONE,
	WEIR_FILE_OPENING,
	WEIR_FILE_READY,
	WEIR_FILE_CLOSING,
} weir_file_state;

/* A reactor thread's part of a weir_files. */
typedef struct weir_files_part {
	_Alignas(64) weir_files *files;
	weir_loop *loop;
	uint32_t inside;                /* requests, including closes */
	weir_file *live;                /* all that are not GONE */
	weir_file *spare, **spare_last; /* GONE ones, oldest first */
} weir_files_part;

struct weir_file {
	weir_files_part *part;
	const weir_file_way *way;
	weir_file_state state;
	int fd; /* -1: none */
	/* The operation in the kernel. Stored here, because a request may be freed before the files are. */
	weir_file_kind in_ring;
	weir_file_request *first, **last;
	weir_file *next, **link; /* in part->live; next only, in part->spare */
	/* for open and stat_path */
	char *path;
	int dir_fd, flags;
	mode_t mode;
	bool patient;        /* the open may wait: see weir_file_open_flags */
	bool beneath;        /* must stay below dir_fd */
	uint8_t tries;       /* of such an open: a rename elsewhere may disturb it */
	struct open_how how; /* for the ring */
	struct statx statx;  /* result buffer of the ring's stat */
};

struct weir_files {
	weir_world *world;
	weir_stage *stage;
	weir_files_options options;
	weir_files_part parts[WEIR_THREADS_MAX]; /* by slot - 1 */
};

static inline weir_file_op *weir_file_op_of(weir_file_request *request)
{
	return (weir_file_op *)(void *)((char *)request - offsetof(weir_file_op, runtime));
}

static inline bool weir_file_abandoned(const weir_file_request *request)
{
	return atomic_load_explicit(&request->abandoned, memory_order_relaxed);
}

/* The position of the next bytes; NULL if there is no buffer, because nothing may be added to NULL. */
static inline char *weir_file_position(const weir_file_request *request)
{
	return request->bytes != NULL ? request->bytes + request->moved : NULL;
}

/* Whether it need not be run, because nobody wants the result. A close must always be run. */
static inline bool weir_file_pointless(const weir_file_request *request)
{
	return weir_file_abandoned(request) && request->kind != WEIR_FILE_CLOSE;
}

/* Removes a file that has no requests; it is kept for reuse. */
void weir_file_release(weir_file *file);
/* The flags for its open. */
int weir_file_open_flags(const weir_file *file);
/*
 * Processes the result of one system call or ring operation. true: there is more to run; false: outcome
 * is set.
 */
bool weir_file_advance(weir_file_request *request, int64_t result);
/* Ends a request whose outcome is set; not from within start. */
void weir_file_finish(weir_file_request *request);
/* Makes the loop finish it. Any thread. */
void weir_file_finish_soon(weir_file_request *request);
/* The stage's functions, for the pool. */
void weir_file_pool_handle(weir_stage *stage, weir_event **events, size_t count, void *arg);
void weir_file_pool_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg);

#endif
