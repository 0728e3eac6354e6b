/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that a reload cannot change: those without WEIR_KEY_LIVE. The new configuration gets the values in
 * force, so that it says what is true, and the next reload finds the same difference again.
 */
#include <string.h>

#include "service/config_inside.h"

typedef struct keeping {
	weir_config *config;
	const weir_config *old;
	char *text; /* the names so far */
	size_t size, used;
} keeping;

static void say(keeping *k, const weir_block_head *head, const char *key)
{
	char name[256];
	bool titled = !head->block->is->single;
	snprintf(name, sizeof(name), "%s%s%s%.127s%s%s%s", k->used > 0 ? ", " : "", head->block->is->name,
		 titled ? " \"" : "", titled ? head->title : "", titled ? "\"" : "", key != NULL ? "." : "",
		 key != NULL ? key : "");
	size_t length = strlen(name);
	/* Only a file made for the purpose reaches this bound. */
	if (k->used + length + sizeof(" ...") > k->size)
		snprintf(k->text + k->used, k->size - k->used, " ...");
	else
		k->used += (size_t)snprintf(k->text + k->used, k->size - k->used, "%s", name);
}

/* ---- blocks ---- */

/* all: live keys as well, without naming them. */
static void keep_keys(keeping *k, weir_block_head *head, const weir_block_head *old, bool all)
{
	weir_key_memory memory = weir_config_key_memory(k->config);
	for (unsigned i = 0; i < head->block->row_count; i++) {
		const weir_key *key = head->block->rows[i].key;
		bool live = (key->flags & WEIR_KEY_LIVE) != 0;
		if ((live && !all) || weir_key_same(key, head, old))
			continue;
		weir_key_copy(key, head, old, &memory);
		if (!live)
			say(k, head, key->name);
	}
}

/* A reload cannot turn TLS on or off. If it tries, no key changes, so that nothing is half changed. */
static void keep_listen(keeping *k)
{
	for (unsigned i = 0; i < k->config->listens; i++) {
		weir_config_listen *listen = &k->config->listen[i];
		const weir_config_listen *old = weir_config_listen_find(k->old, listen->head.title,
									weir_config_nth(k->config, listen));
		bool all = old != NULL && listen->tls != old->tls;
		if (old != NULL)
			keep_keys(k, &listen->head, &old->head, all);
		if (all)
			listen->file = old->file;
	}
}

/* The title of admin is its address, which the check has already read. */
static void keep_admin(keeping *k)
{
	weir_config_admin *admin = &k->config->admin;
	const weir_config_admin *old = &k->old->admin;
	keep_keys(k, &admin->head, &old->head, false);
	if (admin->off == old->off && admin->address_length == old->address_length &&
	    memcmp(&admin->address, &old->address, sizeof(admin->address)) == 0)
		return;
	say(k, &admin->head, NULL);
	admin->head.title = weir_config_copy(k->config, old->head.title);
	admin->off = old->off;
	admin->loopback = old->loopback;
	admin->address = old->address;
	admin->address_length = old->address_length;
}

bool weir_config_keep(weir_config *config, const weir_config *old, char *ret_names, size_t size)
{
	keeping k = {.config = config, .old = old, .text = ret_names, .size = size};
	ret_names[0] = '\0';
	for (unsigned i = 0; i < config->block_count; i++) {
		const weir_config_block *block = &config->block[i];
		if (block->is->live)
			continue;
		if (block->count == &config->listens)
			keep_listen(&k);
		else if (block->one == &config->admin)
			keep_admin(&k);
		else if (block->one != NULL)
			keep_keys(&k, block->one, weir_config_block_find(old, block->is->name)->one, false);
	}
	return ret_names[0] != '\0';
}

/* ---- which listen block is which ---- */

unsigned weir_config_nth(const weir_config *config, const weir_config_listen *listen)
{
	unsigned nth = 0;
	for (const weir_config_listen *at = config->listen; at < listen; at++)
		nth += strcmp(at->head.title, listen->head.title) == 0;
	return nth;
}

const weir_config_listen *weir_config_listen_find(const weir_config *config, const char *title, unsigned nth)
{
	for (unsigned i = 0; i < config->listens; i++)
		if (strcmp(config->listen[i].head.title, title) == 0 && nth-- == 0)
			return &config->listen[i];
	return NULL;
}
