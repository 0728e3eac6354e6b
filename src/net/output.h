/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_OUTPUT_H
#define WEIR_NET_OUTPUT_H

/*
 * Bytes that wait to be sent: a list of blocks of segments, each a part of a buffer that is held until it is out. A block
 * carries the message header for sendmsg, so nothing is built or copied to send it, and it stays where it is while an
 * operation on it is under way: only weir_output_sent and weir_output_clear let blocks go.
 *
 * Segments may be added while the first block is being sent; what is under way is not changed by it.
 *
 * Threads: the loop's.
 */

#include <sys/socket.h>
#include <sys/uio.h>
#include <weir/net.h>

#include "net/buf.h"
#include "net/pool.h"

#define WEIR_OUTPUT_SEGMENTS 8

typedef struct weir_output_block {
	struct weir_output_block *next;
	uint32_t first, end; /* segments not yet sent */
	struct msghdr message;
	struct iovec segment[WEIR_OUTPUT_SEGMENTS];
	weir_buf *buf[WEIR_OUTPUT_SEGMENTS];
} weir_output_block;

typedef struct weir_output {
	weir_output_block *head, *tail;
	size_t bytes;
} weir_output;

/* Where blocks and copies come from. */
typedef struct weir_output_source {
	weir_pool *blocks;
	weir_buf_pool *copies;
} weir_output_source;

/* Appends length (not 0) bytes of the buffer, with a reference of its own. 0 or -ENOMEM. */
int weir_output_add(weir_output *output, const weir_output_source *source, weir_buf *buf, size_t offset,
		    size_t length);
/* Appends a copy. 0 or -ENOMEM, and then nothing has been taken. */
int weir_output_copy(weir_output *output, const weir_output_source *source, const void *data, size_t length);
/* The first count bytes are out. */
void weir_output_sent(weir_output *output, weir_pool *blocks, size_t count);
void weir_output_clear(weir_output *output, weir_pool *blocks);

/* The header to send the first block with. */
static inline struct msghdr *weir_output_message(weir_output_block *block)
{
	block->message.msg_iov = &block->segment[block->first];
	block->message.msg_iovlen = block->end - block->first;
	return &block->message;
}

/* For the flags of a send: more follows the first block. */
static inline int weir_output_flags(const weir_output_block *block)
{
	return block->next != NULL ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
}

#endif
