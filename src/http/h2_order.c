/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stream sends next. By itself a connection sends streams by the client's urgency (RFC 9218), those
 * of one urgency one after the other, or in turns if the client can use parts of them.
 *
 * While the connection sends in its turn (net/transmit.h), streams of one urgency go by the key that also
 * orders connections, so that a small one does not wait for all of a large one. Which one is next is
 * decided anew for each frame. Then streams are looked through for each frame: there are at most as many as
 * the limit of a connection.
 */
#include <string.h>

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

/*
 * The members u and i of a dictionary, "u=5, i": u is a digit up to 7, i is there, or ?0 or ?1. Anything
 * else leaves them as they are.
 */
static void note_member(const char *at, const char *end, unsigned *urgency, bool *turns)
{
	size_t left = (size_t)(end - at);
	if (left >= 3 && at[0] == 'u' && at[1] == '=' && at[2] >= '0' && at[2] <= '7' &&
	    ends_member(at + 3, end))
		*urgency = (unsigned)(at[2] - '0');
	else if (left >= 4 && memcmp(at, "i=?", 3) == 0 && (at[3] == '0' || at[3] == '1') &&
		 ends_member(at + 4, end))
		*turns = at[3] == '1';
	else if (left >= 1 && at[0] == 'i' && ends_member(at + 1, end))
		*turns = true;
}

void weir_h2_note_priority(weir_h2_stream *stream, const char *text, size_t length)
{
	const char *at = text, *end = text + length;
	unsigned urgency = stream->urgency;
	bool turns = stream->flags & WEIR_H2_TURNS;
	while (at < end) {
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		note_member(at, end, &urgency, &turns);
		while (at < end && *at++ != ',')
			;
	}
	/* It may be in the list of its urgency. */
	weir_h2_unset_ready(stream);
	stream->urgency = (uint8_t)urgency;
	stream->flags = turns ? stream->flags | WEIR_H2_TURNS : stream->flags & ~(uint32_t)WEIR_H2_TURNS;
	weir_h2_set_ready(stream);
}

/* ---- streams that are ready ---- */

static bool can_send(const weir_h2_stream *stream)
{
	if (!(stream->flags & WEIR_H2_ANSWERED) || stream->flags & (WEIR_H2_RESET | WEIR_H2_OUT))
		return false;
	return stream->first != NULL ? stream->send_window > 0 : stream->flags & WEIR_H2_WHOLE;
}

void weir_h2_set_ready(weir_h2_stream *stream)
{
	weir_h2 *h2 = stream->h2;
	if (stream->flags & WEIR_H2_READY || !can_send(stream))
		return;
	weir_h2_list *list = &h2->ready[stream->urgency];
	stream->flags |= WEIR_H2_READY;
	stream->next_ready = NULL;
	stream->prev_ready = list->last;
	if (list->last != NULL)
		list->last->next_ready = stream;
	else
		list->first = stream;
	list->last = stream;
	h2->ready_bits |= (uint16_t)(1u << stream->urgency);
}

void weir_h2_unset_ready(weir_h2_stream *stream)
{
	weir_h2 *h2 = stream->h2;
	weir_h2_list *list = &h2->ready[stream->urgency];
	if (!(stream->flags & WEIR_H2_READY))
		return;
	stream->flags &= ~(uint32_t)WEIR_H2_READY;
	if (stream->prev_ready != NULL)
		stream->prev_ready->next_ready = stream->next_ready;
	else
		list->first = stream->next_ready;
	if (stream->next_ready != NULL)
		stream->next_ready->prev_ready = stream->prev_ready;
	else
		list->last = stream->prev_ready;
	if (list->first == NULL)
		h2->ready_bits &= (uint16_t) ~(1u << stream->urgency);
}

/* One that has only its end to send, which no window and no order holds back. */
static weir_h2_stream *only_end(const weir_h2 *h2)
{
	weir_h2_stream *stream = h2->streams;
	while (stream != NULL && (!(stream->flags & WEIR_H2_READY) || stream->first != NULL))
		stream = stream->next;
	return stream;
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

/* NULL: no stream has data that the client would take. */
static weir_h2_stream *first_of(const weir_h2 *h2)
{
	weir_h2_stream *first = NULL;
	rank best = {0};
	for (weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next) {
		if (stream->first == NULL || !(stream->flags & WEIR_H2_READY))
			continue;
		rank own = rank_of(stream);
		if (first == NULL || is_before(own, best)) {
			first = stream;
			best = own;
		}
	}
	return first;
}

static weir_h2_stream *next_in_turn(weir_h2 *h2)
{
	weir_h2_stream *stream = only_end(h2);
	h2->flags |= WEIR_H2_PACED;
	/* It is the link that says when there is enough. */
	if (stream != NULL || weir_h2_is_ahead(h2) || h2->send_window <= 0)
		return stream;
	return first_of(h2);
}

weir_h2_stream *weir_h2_next(weir_h2 *h2)
{
	if (h2->ready_bits == 0)
		return NULL;
	if (weir_conn_is_paced(h2->conn->link.conn))
		return next_in_turn(h2);
	weir_h2_note_pace(h2);
	return h2->send_window > 0 ? h2->ready[__builtin_ctz(h2->ready_bits)].first : only_end(h2);
}

void weir_h2_note_pace(weir_h2 *h2)
{
	if (!(h2->flags & WEIR_H2_PACED) || weir_conn_is_paced(h2->conn->link.conn))
		return;
	/* The uplink was crowded, and is not any more. */
	h2->flags &= (uint16_t)~WEIR_H2_PACED;
	for (weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next)
		if (stream->flags & WEIR_H2_READY)
			stream->progress_ns = weir_h2_now(h2);
}

bool weir_h2_is_held(const weir_h2_stream *stream)
{
	const weir_h2 *h2 = stream->h2;
	const weir_conn *conn = h2->conn->link.conn;
	bool could = stream->flags & WEIR_H2_READY && h2->send_window > 0;
	return (could && weir_conn_is_paced(conn)) || weir_conn_waits_turn(conn);
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
