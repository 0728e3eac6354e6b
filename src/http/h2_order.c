/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a connection's streams while it sends in its turn (net/transmit.h): by the client's urgency
 * (RFC 9218), then by the key that also orders connections. nghttp2 serves streams of one urgency in the
 * order of their arrival, so that a small one would wait for all of a large one. Here streams that are not next are
 * deferred. Which one is next is decided anew for each frame.
 *
 * Streams are looked through for each frame: there are at most as many as the limit of a connection.
 */
#include "http/h2.h"
#include "net/transmit.h"

bool weir_h2_is_ahead(const weir_h2 *h2)
{
	const weir_conn *conn = h2->conn->link.conn;
	return weir_conn_is_paced(conn) && weir_link_output(&h2->conn->link) >= weir_conn_ahead(conn);
}

/* ---- what the client wants: RFC 9218 ---- */

static bool ends_member(const char *at, const char *end)
{
	return at == end || *at == ',' || *at == ';' || *at == ' ' || *at == '\t';
}

/* The member u of a dictionary, "u=5, i": a digit up to 7. Anything else leaves the urgency as it is. */
void weir_h2_note_urgency(weir_h2_stream *stream, const char *text, size_t length)
{
	const char *at = text, *end = text + length;
	while (at < end) {
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		if (end - at >= 3 && at[0] == 'u' && at[1] == '=' && at[2] >= '0' && at[2] <= '7' &&
		    ends_member(at + 3, end))
			stream->urgency = (uint8_t)(at[2] - '0');
		while (at < end && *at++ != ',')
			;
	}
}

/* ---- the order ---- */

typedef struct rank {
	unsigned urgency;
	double key;
} rank;

static uint64_t left_of(const weir_h2_stream *stream)
{
	uint64_t left = 0;
	for (const weir_h2_part *part = stream->first; part != NULL; part = part->next)
		left += part->length;
	const weir_request *request = stream->request;
	if (request != NULL && !(stream->flags & (WEIR_H2_WHOLE | WEIR_H2_COUNTS)) &&
	    request->answer_left != WEIR_UNKNOWN_LENGTH)
		left += request->answer_left;
	return left;
}

static rank rank_of(const weir_h2_stream *stream)
{
	const weir_h2 *h2 = stream->h2;
	const weir_request *request = stream->request;
	return (rank){stream->urgency,
		      weir_conn_key(h2->conn->link.conn, left_of(stream),
				    request != NULL ? request->began_ns : stream->progress_ns,
				    request != NULL ? request->klass : 0)};
}

static bool is_before(rank a, rank b)
{
	return a.urgency != b.urgency ? a.urgency < b.urgency : a.key < b.key;
}

/* It has data that the client would take. */
static bool can_send(const weir_h2_stream *stream)
{
	return stream->first != NULL && stream->flags & WEIR_H2_ANSWERED &&
	       !(stream->flags & WEIR_H2_RESET) &&
	       nghttp2_session_get_stream_remote_window_size(stream->h2->session, stream->id) > 0;
}

/* NULL: no stream can send. */
static weir_h2_stream *first_of(const weir_h2 *h2)
{
	weir_h2_stream *first = NULL;
	rank best = {0};
	for (weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next) {
		if (!can_send(stream))
			continue;
		rank own = rank_of(stream);
		if (first == NULL || is_before(own, best)) {
			first = stream;
			best = own;
		}
	}
	return first;
}

bool weir_h2_hold(weir_h2_stream *stream)
{
	const weir_h2 *h2 = stream->h2;
	if (!weir_conn_is_paced(h2->conn->link.conn))
		return false;
	/* nghttp2 asks again and again: it is the link that says when there is enough. */
	if (!weir_h2_is_ahead(h2) && (h2->stream_count == 1 || first_of(h2) == stream))
		return false;
	stream->flags |= WEIR_H2_HELD;
	return true;
}

bool weir_h2_release(weir_h2 *h2)
{
	weir_h2_stream *first;
	if (h2->stream_count == 0 || weir_h2_is_ahead(h2))
		return false;
	bool paced = weir_conn_is_paced(h2->conn->link.conn), any = false;
	if (paced) {
		first = first_of(h2);
		if (first == NULL || !(first->flags & WEIR_H2_HELD))
			return false;
		first->progress_ns = weir_h2_now(h2);
		first->flags &= (uint16_t) ~(WEIR_H2_DEFERRED | WEIR_H2_HELD);
		return nghttp2_session_resume_data(h2->session, first->id) == 0;
	}
	/* The uplink was crowded, and is not any more. */
	for (weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next) {
		if (!(stream->flags & WEIR_H2_HELD))
			continue;
		stream->progress_ns = weir_h2_now(h2);
		stream->flags &= (uint16_t) ~(WEIR_H2_DEFERRED | WEIR_H2_HELD);
		any |= nghttp2_session_resume_data(h2->session, stream->id) == 0;
	}
	return any;
}

bool weir_h2_is_held(const weir_h2_stream *stream)
{
	return stream->flags & WEIR_H2_HELD || weir_conn_waits_turn(stream->h2->conn->link.conn);
}

void weir_h2_left(weir_link *link, weir_conn_left *left)
{
	const weir_http_conn *conn = (const weir_http_conn *)(const void *)link;
	const weir_h2 *h2 = weir_h2_of(conn);
	if (h2 == NULL || h2->flags & WEIR_H2_CLOSED || !weir_conn_is_paced(link->conn))
		return;
	const weir_h2_stream *first = first_of(h2);
	if (first == NULL)
		return;
	left->bytes += left_of(first);
	if (first->request != NULL) {
		left->since_ns = first->request->began_ns;
		left->klass = first->request->klass;
	}
}
