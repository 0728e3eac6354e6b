/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the client's side of HTTP/2: when they read and send, and how asks begin and end. */
#include <errno.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"

/* All streams together; it is given back as bytes come, so this bounds only what is on its way. */
#define CONNECTION_WINDOW 1048576

/* Most rounds of sending and refilling in one flush. */
#define ROUNDS 16

void weir_h2_client_doom(weir_h2_client *client, uint32_t code, const char *why)
{
	if (client->error != NULL)
		return;
	client->code = code;
	client->error = why;
}

/* ---- asks by number ---- */

static weir_h2_ask **slot_of(weir_h2_client *client, uint32_t id)
{
	return &client->slots[id / 2 % WEIR_H2_ASK_SLOTS];
}

weir_h2_ask *weir_h2_client_find(const weir_h2_client *client, uint32_t id)
{
	weir_h2_ask *ask = client->slots[id / 2 % WEIR_H2_ASK_SLOTS];
	while (ask != NULL && ask->id != id)
		ask = ask->next_same;
	return ask;
}

static void forget_number(weir_h2_ask *ask)
{
	if (ask->id == 0)
		return;
	weir_h2_ask **at = slot_of(ask->client, ask->id);
	while (*at != ask)
		at = &(*at)->next_same;
	*at = ask->next_same;
	weir_h2_ask_unset_ready(ask);
	ask->id = 0;
}

/* ---- the end of asks ---- */

static void free_ask(weir_h2_ask *ask)
{
	weir_h2_ask_free_pieces(ask);
	weir_buf_unref(ask->held);
	if (ask->saved != NULL) {
		weir_mem_free(ask->saved->fields);
		weir_mem_free(ask->saved->bytes);
		weir_mem_free(ask->saved);
	}
	weir_mem_free(ask->trailers);
	weir_pool_give(&ask->client->options.memory->asks, ask);
}

void weir_h2_client_enter(weir_h2_client *client)
{
	client->depth++;
}

void weir_h2_client_exit(weir_h2_client *client)
{
	weir_h2_ask *ask;
	if (--client->depth > 0)
		return;
	while ((ask = client->dead) != NULL) {
		client->dead = ask->next;
		free_ask(ask);
	}
}

void weir_h2_ask_close(weir_h2_ask *ask)
{
	const unsigned both = WEIR_H2_ASK_ENDED | WEIR_H2_ASK_OUT;
	if ((ask->flags & both) == both)
		forget_number(ask);
}

void weir_h2_ask_part(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	forget_number(ask);
	*ask->prev = ask->next;
	if (ask->next != NULL)
		ask->next->prev = ask->prev;
	weir_h2_ask_not_due(ask);
	ask->flags |= WEIR_H2_ASK_OVER;
	ask->next = client->dead;
	client->dead = ask;
	client->count--;
}

static void reset(const weir_h2_ask *ask, uint32_t code)
{
	if (ask->id != 0)
		weir_h2_client_say_reset(ask->client, ask->id, code);
}

void weir_h2_ask_fail(weir_h2_ask *ask, uint32_t code, weir_h2_fate fate, const char *text)
{
	reset(ask, code);
	weir_h2_ask_part(ask);
	ask->ops->failed(ask, fate, text);
}

/* A peer may take many resets for an attack. Then this connection takes no more, before the peer ends it. */
void weir_h2_ask_cancel(weir_h2_ask *ask, uint64_t now_ns)
{
	weir_h2_client *client = ask->client;
	weir_h2_client_enter(client);
	if (ask->id != 0 && weir_h2_guard_reset(&client->guard, now_ns) != NULL)
		client->leaving = true;
	reset(ask, WEIR_H2_CANCEL);
	weir_h2_ask_part(ask);
	weir_h2_client_wake(client);
	weir_h2_client_exit(client);
}

/* ---- asks ---- */

static void link_in(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	weir_h2_ask **slot = slot_of(client, ask->id);
	ask->next_same = *slot;
	*slot = ask;
	ask->next = client->asks;
	ask->prev = &client->asks;
	if (ask->next != NULL)
		ask->next->prev = &ask->next;
	client->asks = ask;
	client->count++;
}

weir_h2_ask *weir_h2_ask_new(weir_h2_client *client, const weir_h2_ask_ops *ops, void *arg,
			     weir_method method, const weir_buf *head, bool has_body)
{
	weir_pool *pool = &client->options.memory->asks;
	weir_h2_ask *ask = !weir_h2_client_is_leaving(client) ? weir_pool_take(pool) : NULL;
	if (ask == NULL)
		return NULL;
	*ask = (weir_h2_ask){.client = client,
			     .ops = ops,
			     .arg = arg,
			     .id = client->next_id,
			     .method = (uint8_t)method,
			     .send_window = client->peer_window,
			     .receive_window = WEIR_H2_CLIENT_WINDOW,
			     .length_left = WEIR_UNKNOWN_LENGTH};
	if (!has_body)
		ask->flags |= WEIR_H2_ASK_WHOLE | WEIR_H2_ASK_OUT;
	if (weir_h2_ask_submit(ask, head) != 0) {
		weir_pool_give(pool, ask);
		return NULL;
	}
	client->next_id += 2;
	link_in(ask);
	weir_h2_client_wake(client);
	return ask;
}

void *weir_h2_ask_arg(const weir_h2_ask *ask)
{
	return ask->arg;
}

void weir_h2_ask_pause(weir_h2_ask *ask)
{
	ask->flags |= WEIR_H2_ASK_PAUSED;
}

void weir_h2_ask_resume(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	if (!(ask->flags & WEIR_H2_ASK_PAUSED))
		return;
	weir_h2_client_enter(client);
	ask->flags &= (uint16_t)~WEIR_H2_ASK_PAUSED;
	weir_h2_ask_go_on(ask);
	weir_h2_client_wake(client);
	weir_h2_client_exit(client);
}

/* ---- out ---- */

void weir_h2_client_wake(weir_h2_client *client)
{
	/* Whoever reads or sends flushes afterwards. */
	if (!client->inside)
		client->options.ops->wake(client->options.arg);
}

/* One side has left, and nothing is in progress or left to send. */
static bool is_spent(const weir_h2_client *client)
{
	return client->left && client->count == 0 && client->out.end == 0;
}

int weir_h2_client_flush(weir_h2_client *client)
{
	int error;
	unsigned rounds = 0;
	if (client->inside)
		return 0;
	weir_h2_client_enter(client);
	do
		error = weir_h2_client_send(client);
	while (weir_h2_client_run_due(client) && error == 0 && ++rounds < ROUNDS);
	if (error == 0 && is_spent(client))
		weir_h2_client_doom(client, WEIR_H2_NO_ERROR, "the server has left");
	if (error != 0)
		weir_h2_client_doom(client, WEIR_H2_INTERNAL_ERROR, "the connection is ending");
	weir_h2_client_exit(client);
	return error == 0 && client->error != NULL ? -EPROTO : error;
}

/* ---- in ---- */

int weir_h2_client_take(weir_h2_client *client, weir_buf *buf, size_t offset, size_t length, uint64_t now_ns)
{
	int error = -EPROTO;
	weir_h2_client_enter(client);
	client->now_ns = now_ns;
	client->in = buf;
	client->inside = true;
	weir_h2_client_read(client, buf->data + offset, length);
	client->inside = false;
	client->in = NULL;
	if (client->error == NULL) {
		error = weir_h2_client_flush(client);
	} else {
		/* The server is told why, and nothing else unless some of it has gone out. */
		if (client->out.at == 0)
			client->out.end = 0;
		weir_h2_client_say_goaway(client, client->code);
		weir_h2_client_send(client);
	}
	weir_h2_client_exit(client);
	return error;
}

/* ---- the connection ---- */

int weir_h2_client_new(const weir_h2_client_options *options, weir_h2_client **ret_client)
{
	weir_h2_client *client = weir_mem_zalloc(sizeof(*client));
	if (client == NULL)
		return -ENOMEM;
	client->options = *options;
	client->now_ns = options->now_ns;
	client->ready_end = &client->ready;
	client->next_id = 1;
	client->peer_streams = UINT32_MAX;
	client->send_window = client->peer_window = WEIR_H2_WINDOW_FIRST;
	client->receive_window = CONNECTION_WINDOW;
	weir_h2_gather_next(&client->input);
	weir_hpack_decoder_init(&client->decoder);
	weir_hpack_encoder_init(&client->encoder);
	weir_h2_guard_init(&client->guard, options->streams, options->head_bytes, options->fields,
			   options->now_ns);
	client->block.fields = weir_mem_array(options->fields, sizeof(weir_head_field));
	weir_h2_client_say_hello(client);
	weir_h2_client_say_window(client, 0, CONNECTION_WINDOW - WEIR_H2_WINDOW_FIRST);
	if (client->block.fields == NULL || client->error != NULL) {
		weir_h2_client_free(client);
		return -ENOMEM;
	}
	*ret_client = client;
	return 0;
}

void weir_h2_client_free(weir_h2_client *client)
{
	if (client == NULL)
		return;
	weir_h2_client_enter(client);
	while (client->asks != NULL)
		weir_h2_ask_part(client->asks);
	weir_h2_client_exit(client);
	weir_h2_gather_fini(&client->input);
	weir_hpack_decoder_fini(&client->decoder);
	weir_hpack_encoder_fini(&client->encoder);
	weir_mem_free(client->block.fields);
	weir_mem_free(client->block.bytes);
	weir_mem_free(client->out.bytes);
	weir_mem_free(client);
}

const char *weir_h2_client_error(const weir_h2_client *client)
{
	return client->error != NULL ? client->error : "";
}

bool weir_h2_client_is_leaving(const weir_h2_client *client)
{
	return client->leaving || client->left || client->error != NULL || client->next_id > WEIR_H2_ID_MOST;
}

uint32_t weir_h2_client_most(const weir_h2_client *client)
{
	uint32_t most = client->settled ? client->peer_streams : 1;
	return most < client->options.streams ? most : client->options.streams;
}

uint32_t weir_h2_client_room(const weir_h2_client *client)
{
	if (weir_h2_client_is_leaving(client))
		return 0;
	uint32_t most = weir_h2_client_most(client);
	return most > client->count ? most - client->count : 0;
}

bool weir_h2_client_is_settled(const weir_h2_client *client)
{
	return client->settled;
}

uint32_t weir_h2_client_count(const weir_h2_client *client)
{
	return client->count;
}

void weir_h2_client_ping(weir_h2_client *client)
{
	if (client->pings)
		return;
	client->pings = true;
	weir_h2_client_say_ping(client);
	weir_h2_client_wake(client);
}

bool weir_h2_client_pings(const weir_h2_client *client)
{
	return client->pings;
}

void weir_h2_client_leave(weir_h2_client *client)
{
	client->leaving = true;
	weir_h2_client_say_goaway(client, WEIR_H2_NO_ERROR);
	weir_h2_client_flush(client);
}
