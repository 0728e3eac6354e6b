/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a server, and the windows of both sides. DATA is passed on as it comes; other frames when they are
 * complete. What breaks a rule of the connection (RFC 9113 4 to 6) ends it.
 */
#include "base/mem.h"
#include "http/h2_client_priv.h"

#define CONNECTION_OWED (1048576u / 2) /* bytes after which the connection's window is given back */
#define STREAM_OWED     (WEIR_H2_CLIENT_WINDOW / 2)

static void broken(weir_h2_client *client, const char *why)
{
	weir_h2_client_doom(client, WEIR_H2_PROTOCOL_ERROR, why);
}

static void flow_broken(weir_h2_client *client, const char *why)
{
	weir_h2_client_doom(client, WEIR_H2_FLOW_CONTROL_ERROR, why);
}

/* ---- what the peer may send ---- */

static void window_back(weir_h2_client *client, size_t length)
{
	client->receive_owed += (uint32_t)length;
	if (client->receive_owed < CONNECTION_OWED)
		return;
	client->receive_window += (int32_t)client->receive_owed;
	weir_h2_client_say_window(client, 0, client->receive_owed);
	client->receive_owed = 0;
}

void weir_h2_ask_window_back(weir_h2_ask *ask, size_t length)
{
	ask->receive_owed += (uint32_t)length;
	if (ask->receive_owed < STREAM_OWED || ask->id == 0 || ask->flags & WEIR_H2_ASK_ENDED)
		return;
	ask->receive_window += (int32_t)ask->receive_owed;
	weir_h2_client_say_window(ask->client, ask->id, ask->receive_owed);
	ask->receive_owed = 0;
}

/* ---- what we may send ---- */

/* false: it would be larger than a window may be. It may be negative, after a change of the settings. */
static bool widen(int32_t *window, int64_t more)
{
	if (*window + more > WEIR_H2_WINDOW_MOST)
		return false;
	*window = (int32_t)(*window + more);
	return true;
}

static bool is_idle(const weir_h2_client *client, uint32_t id)
{
	return id % 2 == 0 || id >= client->next_id;
}

static void take_window(weir_h2_client *client, const weir_h2_frame *frame, const uint8_t *payload)
{
	uint32_t more = weir_h2_get32(payload) & WEIR_H2_ID_MOST;
	weir_h2_ask *ask = frame->id != 0 ? weir_h2_client_find(client, frame->id) : NULL;
	if (more == 0) {
		broken(client, "the server widens a window by nothing");
	} else if (frame->id == 0) {
		if (!widen(&client->send_window, more))
			flow_broken(client, "the server makes the connection's window too large");
	} else if (ask == NULL) {
		if (is_idle(client, frame->id))
			broken(client, "the server widens a window of no stream");
	} else if (!widen(&ask->send_window, more)) {
		weir_h2_ask_fail(ask, WEIR_H2_FLOW_CONTROL_ERROR, WEIR_H2_NONSENSE,
				 "the server makes a stream's window too large");
	} else {
		weir_h2_ask_set_ready(ask);
	}
}

/* A change concerns the streams that are there, too. */
static void set_peer_window(weir_h2_client *client, int32_t size)
{
	int64_t more = (int64_t)size - client->peer_window;
	client->peer_window = size;
	for (weir_h2_ask *ask = client->asks; ask != NULL && more != 0; ask = ask->next) {
		if (!widen(&ask->send_window, more)) {
			flow_broken(client, "a setting makes a stream's window too large");
			return;
		}
		weir_h2_ask_unset_ready(ask);
		weir_h2_ask_set_ready(ask);
	}
}

/* ---- frames about the connection ---- */

static void take_settings(weir_h2_client *client, const weir_h2_frame *frame, const uint8_t *payload)
{
	weir_h2_settings settings = {.window = client->peer_window, .streams = client->peer_streams};
	weir_h2_code code;
	if (frame->flags & WEIR_H2_ACK)
		return;
	client->settled = true;
	const char *why = weir_h2_settings_read(payload, frame->length, &client->encoder, &settings, &code);
	if (why != NULL) {
		weir_h2_client_doom(client, code, why);
		return;
	}
	client->peer_streams = settings.streams;
	set_peer_window(client, settings.window);
	weir_h2_client_say_ack(client, WEIR_H2_SETTINGS, NULL, 0);
}

static void take_ping(weir_h2_client *client, const weir_h2_frame *frame, const uint8_t *payload)
{
	if (frame->flags & WEIR_H2_ACK)
		client->pings = false;
	else
		weir_h2_client_say_ack(client, WEIR_H2_PING, payload, frame->length);
}

/* The answer is complete, and the rest of the request is not wanted. */
static void drop_rest(weir_h2_ask *ask)
{
	ask->flags |= WEIR_H2_ASK_WHOLE | WEIR_H2_ASK_OUT;
	weir_h2_ask_free_pieces(ask);
	weir_h2_ask_close(ask);
}

/*
 * The server has not processed asks beyond the last one that it names, and will not. One whose answer has
 * begun was processed, whatever it says.
 */
static void take_goaway(weir_h2_client *client, const uint8_t *payload)
{
	uint32_t last = weir_h2_get32(payload) & WEIR_H2_ID_MOST;
	client->left = true;
	for (weir_h2_ask *ask = client->asks; ask != NULL;) {
		bool excluded = ask->id > last;
		if (excluded && ask->flags & WEIR_H2_ASK_ENDED)
			drop_rest(ask);
		if (!excluded || ask->flags & WEIR_H2_ASK_ENDED) {
			ask = ask->next;
			continue;
		}
		weir_h2_ask_part(ask);
		ask->ops->failed(ask, ask->flags & WEIR_H2_ASK_HEADED ? WEIR_H2_ABORTED : WEIR_H2_EXCLUDED,
				 "the server has left");
		/* Whoever was told may have ended others. */
		ask = client->asks;
	}
}

static void take_reset(weir_h2_client *client, const weir_h2_frame *frame, const uint8_t *payload)
{
	weir_h2_ask *ask = weir_h2_client_find(client, frame->id);
	uint32_t code = weir_h2_get32(payload);
	if (ask == NULL) {
		if (is_idle(client, frame->id))
			broken(client, "the server resets a stream that there is not");
		return;
	}
	if (ask->flags & WEIR_H2_ASK_ENDED) {
		drop_rest(ask);
		return;
	}
	bool refused = code == WEIR_H2_REFUSED_STREAM && !(ask->flags & WEIR_H2_ASK_HEADED);
	weir_h2_ask_part(ask);
	ask->ops->failed(ask, refused ? WEIR_H2_REFUSED : WEIR_H2_ABORTED,
			 refused ? "the server refused the stream" : "the server reset the stream");
}

/* ---- header blocks ---- */

static void take_fragment(weir_h2_client *client, const weir_h2_frame *frame, const uint8_t *bytes,
			  size_t length)
{
	weir_h2_input *in = &client->input;
	if (frame->type == WEIR_H2_HEADERS) {
		const char *why = weir_h2_frame_strip(frame, &bytes, &length);
		in->block = *frame;
		if (why != NULL) {
			broken(client, why);
			return;
		}
	}
	bool last = in->block.flags & WEIR_H2_END_STREAM, whole = frame->flags & WEIR_H2_END_HEADERS;
	if (whole && frame->type == WEIR_H2_HEADERS) {
		in->block.id = 0;
		weir_h2_client_take_block(client, frame->id, last, bytes, length);
	} else if (!weir_h2_gather_fragment(in, bytes, length)) {
		weir_h2_client_doom(client, WEIR_H2_INTERNAL_ERROR, "out of memory");
	} else if (whole) {
		in->block.id = 0;
		/* An empty block is a block, too. */
		weir_h2_client_take_block(client, frame->id, last,
					  in->fragments != NULL ? in->fragments : in->head,
					  in->fragment_bytes);
		weir_h2_gather_block_over(in);
	}
}

/* ---- DATA ---- */

static void end_data(weir_h2_client *client)
{
	const weir_h2_frame frame = client->input.frame;
	weir_h2_gather_next(&client->input);
	weir_h2_ask *ask = weir_h2_client_find(client, frame.id);
	if (ask != NULL && frame.flags & WEIR_H2_END_STREAM)
		weir_h2_ask_take_end(ask);
}

static void begin_payload_of_data(weir_h2_client *client, uint32_t length, uint32_t padding)
{
	weir_h2_input *in = &client->input;
	if (padding > length) {
		broken(client, "more padding than there is");
		return;
	}
	in->phase = WEIR_H2_IN_DATA;
	in->left = length - padding;
	in->padding = padding;
	if (length == 0)
		end_data(client);
}

/* Whether the stream may have DATA now. Fails the ask if it has no window for it. */
static bool judge_stream(weir_h2_client *client, const weir_h2_frame *frame)
{
	weir_h2_ask *ask = weir_h2_client_find(client, frame->id);
	if (ask == NULL) {
		if (is_idle(client, frame->id))
			broken(client, "the server answers what was not asked");
		return client->error == NULL;
	}
	if (!(ask->flags & WEIR_H2_ASK_HEADED) || ask->flags & WEIR_H2_ASK_ENDED) {
		broken(client, "the server sends a body where there is none");
		return false;
	}
	if ((int64_t)frame->length > ask->receive_window)
		weir_h2_ask_fail(ask, WEIR_H2_FLOW_CONTROL_ERROR, WEIR_H2_NONSENSE,
				 "the server sends more than the window of the stream");
	else
		ask->receive_window -= (int32_t)frame->length;
	return true;
}

static void begin_data(weir_h2_client *client)
{
	const weir_h2_frame *frame = &client->input.frame;
	if ((int64_t)frame->length > client->receive_window) {
		flow_broken(client, "the server sends more than the window of the connection");
		return;
	}
	if (!judge_stream(client, frame))
		return;
	client->receive_window -= (int32_t)frame->length;
	window_back(client, frame->length);
	if (!(frame->flags & WEIR_H2_PADDED))
		begin_payload_of_data(client, frame->length, 0);
	else if (frame->length == 0)
		broken(client, "padding without its length");
	else
		client->input.phase = WEIR_H2_IN_PADDING_LENGTH;
}

static void give_padding_back(const weir_h2_client *client, size_t length)
{
	weir_h2_ask *ask = length > 0 ? weir_h2_client_find(client, client->input.frame.id) : NULL;
	if (ask != NULL)
		weir_h2_ask_window_back(ask, length);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Bytes of DATA, then its padding. */
static const uint8_t *read_data(weir_h2_client *client, const uint8_t *at, const uint8_t *end)
{
	weir_h2_input *in = &client->input;
	size_t length = least((size_t)(end - at), in->left);
	weir_h2_ask *ask = length > 0 ? weir_h2_client_find(client, in->frame.id) : NULL;
	in->left -= (uint32_t)length;
	if (ask != NULL)
		weir_h2_ask_take_data(ask, at, length);
	at += length;
	length = in->left == 0 ? least((size_t)(end - at), in->padding) : 0;
	give_padding_back(client, length);
	in->padding -= (uint32_t)length;
	if (in->left == 0 && in->padding == 0)
		end_data(client);
	return at + length;
}

/* ---- the beginning of a frame ---- */

/* Ends the connection if a guard has objected. */
static bool judged(weir_h2_client *client, const char *why)
{
	if (why != NULL)
		weir_h2_client_doom(client, WEIR_H2_ENHANCE_YOUR_CALM, "the server floods the connection");
	return why == NULL;
}

static bool idling(weir_h2_client *client)
{
	return judged(client, weir_h2_guard_idling(&client->guard, client->now_ns));
}

/* A reset is part of an exchange; one that nobody waits for is not. Nor is a head. */
static bool judge_cost(weir_h2_client *client, const weir_h2_frame *frame)
{
	bool first = frame->type == WEIR_H2_HEADERS;
	switch (frame->type) {
	case WEIR_H2_DATA:
		if (frame->length > 0)
			weir_h2_guard_earned(&client->guard, 1);
		return frame->length > 0 || frame->flags & WEIR_H2_END_STREAM || idling(client);
	case WEIR_H2_HEADERS:
	case WEIR_H2_CONTINUATION:
		if (!judged(client, weir_h2_guard_block(&client->guard, first, frame->length)))
			return false;
		return !first || weir_h2_client_find(client, frame->id) != NULL || idling(client);
	case WEIR_H2_RST_STREAM:
		return weir_h2_client_find(client, frame->id) != NULL || idling(client);
	default:
		return idling(client);
	}
}

/* Whether the frame may come now. */
static bool judge_order(weir_h2_client *client, const weir_h2_frame *frame)
{
	bool continues = frame->type == WEIR_H2_CONTINUATION, inside = client->input.block.id != 0;
	if (!client->settled && (frame->type != WEIR_H2_SETTINGS || frame->flags & WEIR_H2_ACK))
		broken(client, "the server does not speak HTTP/2");
	else if (inside ? !continues || frame->id != client->input.block.id : continues)
		broken(client, "the server cuts a header block");
	return client->error == NULL;
}

static void take_frame(weir_h2_client *client, const uint8_t *payload);

static void begin_frame(weir_h2_client *client)
{
	weir_h2_input *in = &client->input;
	weir_h2_code code;
	const char *why = weir_h2_frame_check(&in->frame, &code);
	if (why != NULL) {
		weir_h2_client_doom(client, code, "the server does not speak HTTP/2, or breaks its rules");
		return;
	}
	if (!judge_order(client, &in->frame) || !judge_cost(client, &in->frame))
		return;
	if (in->frame.type == WEIR_H2_DATA) {
		begin_data(client);
	} else if (in->frame.type == WEIR_H2_PRIORITY || in->frame.type > WEIR_H2_CONTINUATION) {
		in->phase = in->frame.length > 0 ? WEIR_H2_IN_SKIPPED : WEIR_H2_IN_HEAD;
		in->left = in->frame.length;
	} else {
		in->phase = WEIR_H2_IN_PAYLOAD;
		if (in->frame.length == 0)
			take_frame(client, in->head);
	}
}

/* ---- complete frames ---- */

static void take_frame(weir_h2_client *client, const uint8_t *payload)
{
	const weir_h2_frame frame = client->input.frame;
	weir_h2_gather_next(&client->input);
	switch (frame.type) {
	case WEIR_H2_HEADERS:
	case WEIR_H2_CONTINUATION:
		take_fragment(client, &frame, payload, frame.length);
		break;
	case WEIR_H2_RST_STREAM:
		take_reset(client, &frame, payload);
		break;
	case WEIR_H2_SETTINGS:
		take_settings(client, &frame, payload);
		break;
	case WEIR_H2_PING:
		take_ping(client, &frame, payload);
		break;
	case WEIR_H2_GOAWAY:
		take_goaway(client, payload);
		break;
	default:
		take_window(client, &frame, payload);
		break;
	}
}

/* ---- bytes ---- */

static const uint8_t *read_payload(weir_h2_client *client, const uint8_t *at, const uint8_t *end)
{
	const uint8_t *payload;
	uint8_t *own;
	int got = weir_h2_gather_payload(&client->input, &at, end, &payload, &own);
	if (got < 0)
		weir_h2_client_doom(client, WEIR_H2_INTERNAL_ERROR, "out of memory");
	if (got > 0) {
		take_frame(client, payload);
		weir_mem_free(own);
	}
	return at;
}

static const uint8_t *read_some(weir_h2_client *client, const uint8_t *at, const uint8_t *end)
{
	weir_h2_input *in = &client->input;
	switch (in->phase) {
	case WEIR_H2_IN_HEAD:
		if (weir_h2_gather_head(in, &at, end))
			begin_frame(client);
		return at;
	case WEIR_H2_IN_PAYLOAD:
		return read_payload(client, at, end);
	case WEIR_H2_IN_PADDING_LENGTH:
		give_padding_back(client, 1);
		begin_payload_of_data(client, in->frame.length - 1, *at);
		return at + 1;
	case WEIR_H2_IN_DATA:
		return read_data(client, at, end);
	default:
		return weir_h2_gather_nothing(in, at, end);
	}
}

void weir_h2_client_read(weir_h2_client *client, const uint8_t *at, size_t length)
{
	const uint8_t *end = at + length;
	while (at < end && client->error == NULL)
		at = read_some(client, at, end);
}
