/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_OUTPUT_H
#define WEIR_NET_OUTPUT_H

/*
 * Bytes waiting to be sent: a list of blocks. A block is either an array of segments, each a part of a
 * buffer that is held until it is sent, or a part of a file, or what is in a pipe. A block of segments
 * contains the message header for sendmsg, so nothing is built or copied to send it. It stays in place
 * while an operation on it is in progress: only weir_output_sent and weir_output_clear release blocks.
 *
 * Segments may be added while the first block is being sent; that does not change the operation in
 * progress.
 *
 * bytes is what the bound refers to: bytes in memory and, for a file, a small number that stands for it
 * (weir_output_file). What is in a pipe counts in full. It is 0 exactly when nothing waits.
 *
 * The owner of a file that has been sent, or given up, is not told at once, because it may be within a
 * call: the file goes to the source's list, and weir_output_run_over tells the owner.
 *
 * Threads: the loop's.
 */

#include <sys/socket.h>
#include <sys/uio.h>
#include <weir/net.h>

#include "net/buf.h"
#include "net/pipes.h"
#include "net/pool.h"

#define WEIR_OUTPUT_SEGMENTS 8

/*
 * What a part of a file counts as: its remaining length, within these limits. The minimum stands for the
 * memory it takes.
 */
#define WEIR_OUTPUT_FILE_LEAST 512u
#define WEIR_OUTPUT_FILE_MOST  65536u

typedef struct weir_output_file {
	int fd;
	uint32_t counts, most; /* in the output's bytes: now, and at most */
	uint32_t looks;        /* checks since the disk was asked for its next part */
	uint64_t look_ns;      /* time of the next check */
	uint64_t offset, left;
	uint64_t near; /* up to this offset it was in the page cache lately */
	void (*over)(void *arg);
	void *arg;
	weir_pipe *
		pipe; /* not NULL: its bytes, instead of a file's; it goes back to the source's when they are sent */
} weir_output_file;

typedef struct weir_output_block {
	struct weir_output_block *next;
	uint16_t first, end; /* segments not yet sent */
	bool is_file;
	union {
		struct {
			struct msghdr message;
			struct iovec segment[WEIR_OUTPUT_SEGMENTS];
			weir_buf *buf[WEIR_OUTPUT_SEGMENTS];
		};
		weir_output_file file;
	};
} weir_output_block;

typedef struct weir_output {
	weir_output_block *head, *tail;
	size_t bytes;
	int64_t more; /* how many more bytes there really are, with all that is left of files */
} weir_output;

/* Where blocks and copies come from; shared by all outputs of a loop. */
typedef struct weir_output_source {
	weir_pool *blocks;
	weir_buf_pool *copies;
	weir_pipes *pipes;
	weir_output_block *over, *over_last; /* files whose owners must be told, in order */
} weir_output_source;

/* Appends length (not 0) bytes of the buffer, with a reference of its own. 0 or -ENOMEM. */
int weir_output_add(weir_output *output, const weir_output_source *source, weir_buf *buf, size_t offset,
		    size_t length);
/* Appends a copy. 0 or -ENOMEM, and then nothing has been taken. */
int weir_output_copy(weir_output *output, const weir_output_source *source, const void *data, size_t length);
/*
 * Appends a part (not empty) of a file, which counts as at most `most` bytes (or WEIR_OUTPUT_FILE_MOST,
 * if that is less). 0, or -ENOMEM: then over is not called.
 */
int weir_output_add_file(weir_output *output, const weir_output_source *source, const weir_output_file *file);
/*
 * Appends count (not 0) more bytes that are in the pipe: the one that is last in the output, or another,
 * which the output then owns. 0, or -ENOMEM: then the pipe is the caller's.
 */
int weir_output_add_piped(weir_output *output, const weir_output_source *source, weir_pipe *pipe,
			  size_t count);
/* The pipe that is last in the output; NULL: something else is. */
weir_pipe *weir_output_last_pipe(const weir_output *output);
/* What a part of a file of that length will count as. */
uint32_t weir_output_file_counts(uint64_t length, uint32_t most);
/* The first count bytes have been sent; if the first block is a file they do not go beyond it. */
void weir_output_sent(weir_output *output, weir_output_source *source, size_t count);
void weir_output_clear(weir_output *output, weir_output_source *source);
/* Tells the owners of files that are over. They may make any call. */
void weir_output_run_over(weir_output_source *source);

/* The header for sending the first block. */
static inline struct msghdr *weir_output_message(weir_output_block *block)
{
	block->message.msg_iov = &block->segment[block->first];
	block->message.msg_iovlen = block->end - block->first;
	return &block->message;
}

/* The flags of a send: whether more follows the first block. */
static inline int weir_output_flags(const weir_output_block *block)
{
	return block->next != NULL ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
}

#endif
