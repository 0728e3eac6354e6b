/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reload cannot change: keys whose rows in config_keys.c do not say that it can. The new configuration gets the values in force, so that it says what is, and the next
 * reload finds the same difference again.
 */
#include <string.h>

#include "base/text.h"
#include "service/config_inside.h"

typedef struct keeping {
	weir_config *config;
	const weir_config *old;
	char *text; /* the names so far */
	size_t size, used;
} keeping;

static void say(keeping *k, const weir_config_block *block, const weir_config_head *head, const char *key)
{
	char name[256];
	bool titled = block->count_offset != 0;
	snprintf(name, sizeof(name), "%s%s%s%.127s%s%s%s", k->used > 0 ? ", " : "", block->name,
		 titled ? " \"" : "", titled ? head->title : "", titled ? "\"" : "", key != NULL ? "." : "",
		 key != NULL ? key : "");
	size_t length = strlen(name);
	/* The bound is far beyond what a file has that was not made to reach it. */
	if (k->used + length + sizeof(" ...") > k->size)
		snprintf(k->text + k->used, k->size - k->used, " ...");
	else
		k->used += (size_t)snprintf(k->text + k->used, k->size - k->used, "%s", name);
}

/* ---- values ---- */

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static size_t list_length(const char *const *list)
{
	size_t length = 0;
	while (list != NULL && list[length] != NULL)
		length++;
	return length;
}

static bool same_list(const char *const *a, const char *const *b)
{
	size_t length = list_length(a);
	if (length != list_length(b))
		return false;
	for (size_t i = 0; i < length; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

static const char *const *copy_list(weir_config *config, const char *const *list)
{
	size_t length = list_length(list);
	const char **copy = length > 0 ? weir_config_alloc(config, (length + 1) * sizeof(*copy)) : NULL;
	for (size_t i = 0; copy != NULL && i < length; i++)
		copy[i] = weir_config_copy(config, list[i]);
	return copy;
}

static size_t plain_bytes(weir_config_kind kind)
{
	switch (kind) {
	case WEIR_CONFIG_SWITCH:
		return sizeof(bool);
	case WEIR_CONFIG_COUNT:
	case WEIR_CONFIG_SIZE32:
		return sizeof(uint32_t);
	case WEIR_CONFIG_CHOICE:
		return sizeof(unsigned);
	default:
		return sizeof(uint64_t); /* sizes and times, and numbers, which are as long */
	}
}

/* Takes the old value of a key over; false: it was the same. */
static bool keep_value(weir_config *config, const weir_config_key *key, weir_config_head *head,
		       const weir_config_head *old)
{
	void *to = (char *)head + key->offset;
	const void *from = (const char *)old + key->offset;
	switch (key->kind) {
	case WEIR_CONFIG_TEXT:
	case WEIR_CONFIG_PATH:
	case WEIR_CONFIG_OUTPUT:
		if (same_text(*(const char **)to, *(const char *const *)from))
			return false;
		*(const char **)to = weir_config_copy(config, *(const char *const *)from);
		return true;
	case WEIR_CONFIG_TEXTS:
	case WEIR_CONFIG_PATHS:
		if (same_list(*(const char *const **)to, *(const char *const *const *)from))
			return false;
		*(const char *const **)to = copy_list(config, *(const char *const *const *)from);
		return true;
	default:
		if (memcmp(to, from, plain_bytes(key->kind)) == 0)
			return false;
		memcpy(to, from, plain_bytes(key->kind));
		return true;
	}
}

/* ---- blocks ---- */

/* all: whatever their rows say, and without a word. */
static void keep_keys(keeping *k, const weir_config_block *block, weir_config_head *head,
		      const weir_config_head *old, bool all)
{
	for (const weir_config_key *key = block->keys; key->name != NULL; key++) {
		if (key->live && !all)
			continue;
		if (keep_value(k->config, key, head, old) && !key->live)
			say(k, block, head, key->name);
	}
}

/* With or without TLS is for good: then certificates and all else of it stay as well, so that there is no half of each. */
static void keep_listen(keeping *k, const weir_config_block *block)
{
	for (unsigned i = 0; i < k->config->listens; i++) {
		weir_config_listen *listen = &k->config->listen[i];
		const weir_config_listen *old = weir_config_listen_find(k->old, listen->head.title,
									weir_config_nth(k->config, listen));
		if (old != NULL)
			keep_keys(k, block, &listen->head, &old->head, listen->tls != old->tls);
	}
}

/* Its title is the address, which the check has looked at. */
static void keep_admin(keeping *k, const weir_config_block *block)
{
	weir_config_admin *admin = &k->config->admin;
	const weir_config_admin *old = &k->old->admin;
	keep_keys(k, block, &admin->head, &old->head, false);
	if (admin->off == old->off && admin->address_length == old->address_length &&
	    memcmp(&admin->address, &old->address, sizeof(admin->address)) == 0)
		return;
	say(k, block, &admin->head, NULL);
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
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++) {
		if (block->live)
			continue;
		if (strcmp(block->name, "listen") == 0)
			keep_listen(&k, block);
		else if (strcmp(block->name, "admin") == 0)
			keep_admin(&k, block);
		else
			keep_keys(&k, block, weir_config_element(config, block, 0),
				  weir_config_element(old, block, 0), false);
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
