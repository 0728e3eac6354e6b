/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the client's side of HTTP/2: bytes into and out of nghttp2, and how asks begin and end. */
#include <errno.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"

/* All streams together; it is given back as bytes come, so this bounds only what is on its way. */
#define CONNECTION_WINDOW 1048576

#define HEAD_MOST (4u << 20)

/* Most rounds of sending and refilling in one flush. */
#define ROUNDS 16

void *weir_h2_client_alloc(weir_h2_client *client, size_t bytes)
{
	const nghttp2_mem *mem = &client->options.memory->mem;
	return mem->malloc(bytes, mem->mem_user_data);
}

void weir_h2_client_release(weir_h2_client *client, void *bytes)
{
	const nghttp2_mem *mem = &client->options.memory->mem;
	mem->free(bytes, mem->mem_user_data);
}

/* ---- the end of asks ---- */

static void free_ask(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	weir_h2_ask_free_pieces(ask);
	weir_buf_unref(ask->held);
	if (ask->saved != NULL) {
		weir_mem_free(ask->saved->fields);
		weir_mem_free(ask->saved->bytes);
		weir_mem_free(ask->saved);
	}
	weir_mem_free(ask->trailers);
	weir_h2_client_release(client, ask);
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

static void unlink_ask(weir_h2_ask *ask)
{
	*ask->prev = ask->next;
	if (ask->next != NULL)
		ask->next->prev = ask->prev;
}

void weir_h2_ask_part(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	if (ask->id != 0)
		nghttp2_session_set_stream_user_data(client->session, ask->id, NULL);
	ask->id = 0;
	unlink_ask(ask);
	weir_h2_ask_not_due(ask);
	ask->flags |= WEIR_H2_ASK_OVER;
	ask->next = client->dead;
	client->dead = ask;
	client->count--;
}

static void reset(const weir_h2_ask *ask, uint32_t code)
{
	if (ask->id != 0)
		nghttp2_submit_rst_stream(ask->client->session, NGHTTP2_FLAG_NONE, ask->id, code);
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
	if (ask->id != 0 && ask->flags & WEIR_H2_ASK_SENT &&
	    weir_h2_guard_reset(&client->guard, now_ns) != NULL)
		client->leaving = true;
	reset(ask, NGHTTP2_CANCEL);
	weir_h2_ask_part(ask);
	weir_h2_client_wake(client);
	weir_h2_client_exit(client);
}

/* ---- asks ---- */

weir_h2_ask *weir_h2_ask_new(weir_h2_client *client, const weir_h2_ask_ops *ops, void *arg,
			     weir_method method, const weir_buf *head, bool has_body)
{
	weir_h2_ask *ask = weir_h2_client_alloc(client, sizeof(*ask));
	if (ask == NULL)
		return NULL;
	*ask = (weir_h2_ask){.client = client, .ops = ops, .arg = arg, .method = (uint8_t)method};
	if (!has_body)
		ask->flags |= WEIR_H2_ASK_WHOLE;
	int32_t id = weir_h2_client_submit(client, ask, head, has_body);
	if (id < 0) {
		weir_h2_client_release(client, ask);
		return NULL;
	}
	ask->id = id;
	ask->next = client->asks;
	ask->prev = &client->asks;
	if (ask->next != NULL)
		ask->next->prev = &ask->next;
	client->asks = ask;
	client->count++;
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
	/* Whoever has called nghttp2 flushes afterwards. */
	if (!client->inside)
		client->options.ops->wake(client->options.arg);
}

static int send_frames(weir_h2_client *client)
{
	const weir_h2_client_options *options = &client->options;
	const uint8_t *bytes;
	ssize_t length = 0;
	int error = 0;
	client->inside = true;
	while (error == 0 && !options->ops->is_full(options->arg)) {
		length = nghttp2_session_mem_send(client->session, &bytes);
		if (length <= 0)
			break;
		error = options->ops->write(options->arg, bytes, (size_t)length);
	}
	client->inside = false;
	return length < 0 ? -EPROTO : error;
}

static bool is_spent(const weir_h2_client *client)
{
	return !nghttp2_session_want_read(client->session) && !nghttp2_session_want_write(client->session);
}

int weir_h2_client_flush(weir_h2_client *client)
{
	int error;
	unsigned rounds = 0;
	if (client->inside)
		return 0;
	weir_h2_client_enter(client);
	do
		error = send_frames(client);
	while (weir_h2_client_run_due(client) && error == 0 && ++rounds < ROUNDS);
	/* nghttp2 has told the peer what it broke, or the peer has left and nothing is in progress. */
	if (error == 0 && is_spent(client))
		error = -EPROTO;
	if (error != 0 && client->error == NULL)
		client->error = error == -EPROTO ? "the server has left" : "the connection is ending";
	weir_h2_client_exit(client);
	return error;
}

/* ---- in ---- */

static const char *why_fatal(ssize_t error)
{
	switch (error) {
	case NGHTTP2_ERR_FLOODED:
		return "the server sends too many frames that want an answer";
	case NGHTTP2_ERR_NOMEM:
		return "out of memory";
	default:
		return "the server does not speak HTTP/2";
	}
}

int weir_h2_client_take(weir_h2_client *client, weir_buf *buf, size_t offset, size_t length, uint64_t now_ns)
{
	int error = -EPROTO;
	weir_h2_client_enter(client);
	client->now_ns = now_ns;
	client->in = buf;
	client->inside = true;
	ssize_t used = nghttp2_session_mem_recv(client->session, buf->data + offset, length);
	client->inside = false;
	client->in = NULL;
	if (used >= 0) {
		error = weir_h2_client_flush(client);
	} else {
		if (client->error == NULL)
			client->error = why_fatal(used);
		nghttp2_session_terminate_session(client->session, NGHTTP2_ENHANCE_YOUR_CALM);
		send_frames(client);
	}
	weir_h2_client_exit(client);
	return error;
}

/* ---- the connection ---- */

static int make_session(weir_h2_client *client)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option = NULL;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return -ENOMEM;
	weir_h2_client_hear(callbacks);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, weir_h2_client_send_data);
	int error = nghttp2_option_new(&option);
	if (error == 0) {
		nghttp2_option_set_no_auto_window_update(option, 1);
		nghttp2_option_set_max_outbound_ack(option, 256);
		/* Heads were within the limits of the server that read them. */
		nghttp2_option_set_max_send_header_block_length(option, HEAD_MOST);
		/* Unknown types are skipped, but must be counted first. */
		for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++)
			nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
		error = nghttp2_session_client_new3(&client->session, callbacks, client, option,
						    &client->options.memory->mem);
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return error == 0 ? 0 : -ENOMEM;
}

static int say_settings(weir_h2_client *client)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WEIR_H2_CLIENT_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, client->options.head_bytes},
	};
	int error = nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings,
					    sizeof(settings) / sizeof(settings[0]));
	if (error == 0)
		error = nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
							      CONNECTION_WINDOW);
	return error == 0 ? 0 : -ENOMEM;
}

int weir_h2_client_new(const weir_h2_client_options *options, weir_h2_client **ret_client)
{
	weir_h2_client *client = weir_mem_zalloc(sizeof(*client));
	if (client == NULL)
		return -ENOMEM;
	client->options = *options;
	client->now_ns = options->now_ns;
	weir_h2_guard_init(&client->guard, options->streams, options->head_bytes, options->fields,
			   options->now_ns);
	client->block.fields = weir_mem_array(options->fields, sizeof(weir_head_field));
	if (client->block.fields == NULL || make_session(client) != 0 || say_settings(client) != 0) {
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
	nghttp2_session_del(client->session);
	weir_h2_client_exit(client);
	weir_mem_free(client->block.fields);
	weir_mem_free(client->block.bytes);
	weir_mem_free(client);
}

const char *weir_h2_client_error(const weir_h2_client *client)
{
	return client->error != NULL ? client->error : "";
}

bool weir_h2_client_is_leaving(const weir_h2_client *client)
{
	return client->leaving || client->error != NULL ||
	       nghttp2_session_check_request_allowed(client->session) == 0;
}

uint32_t weir_h2_client_most(const weir_h2_client *client)
{
	uint32_t most = 1;
	if (client->settled)
		most = nghttp2_session_get_remote_settings(client->session,
							   NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
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
	if (client->pings || nghttp2_submit_ping(client->session, NGHTTP2_FLAG_NONE, NULL) != 0)
		return;
	client->pings = true;
	weir_h2_client_wake(client);
}

bool weir_h2_client_pings(const weir_h2_client *client)
{
	return client->pings;
}

void weir_h2_client_leave(weir_h2_client *client)
{
	client->leaving = true;
	nghttp2_session_terminate_session(client->session, NGHTTP2_NO_ERROR);
	weir_h2_client_flush(client);
}
