/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

/*
 * Streams from threads that may wait: handlers of elastic domains, and threads of one's own that hold a
 * request (weir_hold). On a request's home thread use weir_request_begin, _write, _end and _read instead,
 * which never wait.
 *
 *	         _read ...      _begin        _write ...
 *	OWNED ───────────────────────▶ BEGUN ─────────────▶ _end or _abort: not yours any more
 *	  └── weir_request_reply, _reject, an offer to another stage: as ever, also after a part of the body
 *
 * Ownership. The caller owns the request's event all the time, from before the first call until end or abort,
 * which settle it. So its stage counts a stream as in flight until its end, because a thread is busy with it,
 * and a stop of the world waits for it. Between begin and end nothing else is called on the request: no
 * looks, no weir_request_alloc, no other answers.
 *
 * Waiting. Bytes go to the home thread through a queue that is bounded: weir_http_limits.output_bytes on
 * their way to the client, and as much again in the connection's own output; 64 KB of a body. A write waits
 * while the queue is full, a read while it is empty, and both for timeout_ns at most.
 *
 *	-EPIPE      the client has gone, or was cut
 *	-ETIMEDOUT  it was not read, or nothing came, for so long
 *	-ECANCELED  the world has stopped
 *	-EINVAL     misuse: on a reactor thread, or out of order
 *	-ENOMEM
 *
 * After any failure of a write the answer is not whole: call weir_request_stream_abort. For a client that has
 * gone weir_request_stream_end does as well. Nobody else ends it.
 *
 * Threads: the owner's, which must not be a reactor; one at a time.
 */

#include <weir/http.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The head of a streamed answer of that many bytes; WEIR_UNKNOWN_LENGTH: as many as come. Does not wait. The
 * members of reply that are about a body are ignored; what it points to is copied. On failure (also -EINVAL
 * for what no answer can be) nothing has begun.
 */
WEIR_API int weir_request_stream_begin(weir_request *request, const weir_reply *reply, uint64_t length);
/*
 * Bytes of the body, copied. 0: all are on their way. Also -EMSGSIZE: more than announced, and nothing is
 * taken. After other failures some of them may be on their way.
 */
WEIR_API int weir_request_stream_write(weir_request *request, const void *bytes, size_t length,
				       uint64_t timeout_ns);
/*
 * The end: what was written is sent, then the request is over. Does not wait. Fewer bytes than announced: it
 * is cut, as by abort. 0, or -EINVAL: nothing has begun.
 */
WEIR_API int weir_request_stream_end(weir_request *request);
/* Cuts the answer, so that the client knows that it is not whole. As end. */
WEIR_API int weir_request_stream_abort(weir_request *request);

/*
 * Up to size bytes of a body that its route did not collect, as soon as there are any; "100 Continue" is sent
 * if the client waits for it. 0 with *ret_length 0: that was all. Before begin only. Use this or
 * weir_request_read, not both.
 */
WEIR_API int weir_request_stream_read(weir_request *request, void *to, size_t size, uint64_t timeout_ns,
				      size_t *ret_length);

#ifdef __cplusplus
}
#endif
#endif
