/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/route_index.h"

#include <string.h>

#include "base/mem.h"
#include "rules/match_priv.h"

/* With fewer routes, comparing all of them is as fast. */
#define ROUTES_LEAST 8
#define NO_RULE      UINT32_MAX

/* FNV-1a, a byte at a time: one pass gives the hashes of all beginnings. Hosts are hashed from their end. */
#define HASH_BEGIN UINT32_C(0x811c9dc5)
#define HASH_NEXT  UINT32_C(0x01000193)

typedef struct anchor {
	const char *text; /* NULL: free */
	uint32_t hash;
	uint8_t length, kind;
	uint32_t uses;         /* while the index is made: routes that could have this anchor */
	uint32_t first, count; /* its routes, in `numbers` */
} anchor;

struct weir_route_index {
	anchor *slots;
	uint32_t mask;
	uint32_t *numbers; /* of routes: the lists of all anchors, and of those without one */
	uint32_t rest_first, rest_count;
	/* ascending */
	uint8_t prefix[WEIR_INDEX_PREFIXES], suffix[WEIR_INDEX_SUFFIXES];
	unsigned prefixes, suffixes;
	bool paths, hosts; /* some anchor is a whole path, or a whole host */
};

/* ---- hashes ---- */

static inline uint32_t hash_byte(uint32_t hash, char byte)
{
	return (hash ^ (uint8_t)byte) * HASH_NEXT;
}

static bool is_host(unsigned kind)
{
	return kind == WEIR_MATCH_HOST_IS || kind == WEIR_MATCH_HOST_ENDS;
}

static uint32_t hash_of(const char *text, uint32_t length, unsigned kind)
{
	uint32_t hash = HASH_BEGIN;
	for (uint32_t i = 0; i < length; i++)
		hash = hash_byte(hash, is_host(kind) ? text[length - 1 - i] : text[i]);
	return hash;
}

/* Kinds with the same text are different anchors. The last bits of a product are the worst. */
static inline uint32_t place_of(const weir_route_index *index, uint32_t hash, unsigned kind)
{
	return ((hash ^ hash >> 15) + kind) & index->mask;
}

/* Hosts are mostly written in small letters. */
static inline bool is_text(const anchor *at, weir_span text)
{
	if (memcmp(at->text, text.at, text.length) == 0)
		return true;
	for (size_t i = 0; i < text.length && is_host(at->kind); i++)
		if (weir_match_lower(text.at[i]) != at->text[i])
			return false;
	return is_host(at->kind);
}

/* The anchor of the text, or the free one where it would be. At most half of them are taken. */
static anchor *find(const weir_route_index *index, weir_span text, uint32_t hash, unsigned kind)
{
	uint32_t place = place_of(index, hash, kind);
	for (;; place = (place + 1) & index->mask) {
		anchor *at = &index->slots[place];
		if (at->text == NULL ||
		    (at->hash == hash && at->kind == kind && at->length == text.length && is_text(at, text)))
			return at;
	}
}

/* ---- anchors: the rules that a route could be found by ---- */

static bool is_anchor(const weir_match_entry *entry)
{
	bool fits = entry->length > 0 && entry->length <= WEIR_INDEX_TEXT && !entry->negate;
	return fits && (entry->kind == WEIR_MATCH_PATH_IS || entry->kind == WEIR_MATCH_PATH_BEGINS ||
			is_host(entry->kind));
}

static bool is_of_field(const weir_match_entry *entry)
{
	return entry->kind >= WEIR_MATCH_HEADER_THERE && entry->kind <= WEIR_MATCH_COOKIE_SIGNED;
}

static uint32_t rule_end(const weir_matcher *matcher, uint32_t at)
{
	while (!matcher->entries[at].last)
		at++;
	return at + 1;
}

/* The next rule all of whose alternatives are anchors, from this one on; NO_RULE: there is none. */
static uint32_t next_anchor(const weir_matcher *matcher, uint32_t from)
{
	while (matcher != NULL && from < matcher->count && !is_of_field(&matcher->entries[from])) {
		uint32_t end = rule_end(matcher, from), at = from;
		while (at < end && is_anchor(&matcher->entries[at]))
			at++;
		if (at == end)
			return from;
		from = end;
	}
	return NO_RULE;
}

static anchor *slot_of(const weir_route_index *index, const weir_matcher *matcher,
		       const weir_match_entry *entry)
{
	weir_span text = {matcher->bytes + entry->at, entry->length};
	uint32_t hash = hash_of(text.at, entry->length, entry->kind);
	anchor *at = find(index, text, hash, entry->kind);
	if (at->text == NULL)
		*at = (anchor){
			.text = text.at, .hash = hash, .length = (uint8_t)entry->length, .kind = entry->kind};
	return at;
}

/* ---- making: which anchor each route has ---- */

/* Adds the length to the list, which is ascending; false: there is no room. */
static bool add_length(uint8_t *list, unsigned *count, unsigned most, uint8_t length)
{
	unsigned at = 0;
	while (at < *count && list[at] < length)
		at++;
	if (at < *count && list[at] == length)
		return true;
	if (*count == most)
		return false;
	memmove(list + at + 1, list + at, *count - at);
	list[at] = length;
	++*count;
	return true;
}

static bool add_kind(weir_route_index *index, const weir_match_entry *entry)
{
	uint8_t length = (uint8_t)entry->length;
	index->paths = index->paths || entry->kind == WEIR_MATCH_PATH_IS;
	index->hosts = index->hosts || entry->kind == WEIR_MATCH_HOST_IS;
	if (entry->kind == WEIR_MATCH_PATH_BEGINS)
		return add_length(index->prefix, &index->prefixes, WEIR_INDEX_PREFIXES, length);
	return entry->kind != WEIR_MATCH_HOST_ENDS ||
	       add_length(index->suffix, &index->suffixes, WEIR_INDEX_SUFFIXES, length);
}

/* How many routes could share the rule's most common alternative. */
static uint32_t uses_of(const weir_route_index *index, const weir_matcher *matcher, uint32_t rule)
{
	uint32_t most = 0;
	for (uint32_t i = rule, end = rule_end(matcher, rule); i < end; i++) {
		uint32_t uses = slot_of(index, matcher, &matcher->entries[i])->uses;
		most = uses > most ? uses : most;
	}
	return most;
}

static uint32_t choose(weir_route_index *index, const weir_matcher *matcher)
{
	uint32_t best = NO_RULE, least = UINT32_MAX;
	for (uint32_t rule = next_anchor(matcher, 0); rule != NO_RULE;
	     rule = next_anchor(matcher, rule_end(matcher, rule))) {
		uint32_t uses = uses_of(index, matcher, rule);
		if (uses < least) {
			least = uses;
			best = rule;
		}
	}
	for (uint32_t i = best; best != NO_RULE && i < rule_end(matcher, best); i++)
		if (!add_kind(index, &matcher->entries[i]))
			return NO_RULE;
	return best;
}

static void count_uses(const weir_route_index *index, const weir_matcher *matcher)
{
	for (uint32_t rule = next_anchor(matcher, 0); rule != NO_RULE;
	     rule = next_anchor(matcher, rule_end(matcher, rule)))
		for (uint32_t i = rule; i < rule_end(matcher, rule); i++)
			slot_of(index, matcher, &matcher->entries[i])->uses++;
}

/* ---- making: the lists ---- */

/* Calls with each anchor of a route's anchor, once. */
static void each_slot(const weir_route_index *index, const weir_matcher *matcher, uint32_t rule,
		      void (*call)(weir_route_index *index, anchor *at, uint32_t number), uint32_t number)
{
	for (uint32_t i = rule; i < rule_end(matcher, rule); i++)
		call((weir_route_index *)index, slot_of(index, matcher, &matcher->entries[i]), number);
}

static void count_one(weir_route_index *index, anchor *at, uint32_t number)
{
	at->count++;
}

static void add_one(weir_route_index *index, anchor *at, uint32_t number)
{
	index->numbers[at->first + at->count++] = number;
}

static void fill_lists(weir_route_index *index, const weir_routes *routes, const uint32_t *rules)
{
	uint32_t first = 0;
	for (uint32_t i = 0; i < routes->route_count; i++)
		if (rules[i] != NO_RULE)
			each_slot(index, routes->routes[i].matcher, rules[i], count_one, i);
	for (uint32_t i = 0; i <= index->mask; i++) {
		index->slots[i].first = first;
		first += index->slots[i].count;
		index->slots[i].count = 0;
	}
	index->rest_first = first;
	for (uint32_t i = 0; i < routes->route_count; i++)
		if (rules[i] != NO_RULE)
			each_slot(index, routes->routes[i].matcher, rules[i], add_one, i);
		else
			index->numbers[index->rest_first + index->rest_count++] = i;
}

static uint32_t count_entries(const weir_routes *routes)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < routes->route_count; i++)
		count += routes->routes[i].matcher != NULL ? routes->routes[i].matcher->count : 1;
	return count;
}

void weir_route_index_free(weir_route_index *index)
{
	if (index == NULL)
		return;
	weir_mem_free(index->slots);
	weir_mem_free(index->numbers);
	weir_mem_free(index);
}

weir_route_index *weir_route_index_new(const weir_routes *routes)
{
	if (routes->route_count < ROUTES_LEAST)
		return NULL;
	weir_route_index *index = weir_mem_zalloc(sizeof(*index));
	uint32_t *rules = weir_mem_array(routes->route_count, sizeof(*rules));
	uint32_t entries = count_entries(routes), size = 16;
	while (size < 2 * entries)
		size *= 2;
	if (index != NULL) {
		index->mask = size - 1;
		index->slots = weir_mem_array(size, sizeof(*index->slots));
		index->numbers = weir_mem_array(entries, sizeof(*index->numbers));
	}
	if (index == NULL || rules == NULL || index->slots == NULL || index->numbers == NULL) {
		weir_route_index_free(index);
		weir_mem_free(rules);
		return NULL;
	}
	for (uint32_t i = 0; i < routes->route_count; i++)
		count_uses(index, routes->routes[i].matcher);
	for (uint32_t i = 0; i < routes->route_count; i++)
		rules[i] = choose(index, routes->routes[i].matcher);
	fill_lists(index, routes, rules);
	weir_mem_free(rules);
	return index;
}

/* ---- look-up ---- */

static void add_list(const weir_route_index *index, weir_route_walk *walk, uint32_t first, uint32_t count)
{
	const uint32_t *at = index->numbers + first;
	if (count > 0)
		walk->list[walk->lists++] = (struct weir_route_list){at, at + count};
}

static void look(const weir_route_index *index, weir_route_walk *walk, weir_span text, uint32_t hash,
		 unsigned kind)
{
	const anchor *at = find(index, text, hash, kind);
	if (at->text != NULL)
		add_list(index, walk, at->first, at->count);
}

static void look_for_path(const weir_route_index *index, weir_span path, weir_route_walk *walk)
{
	uint32_t hash = HASH_BEGIN;
	size_t at = 0;
	for (unsigned i = 0; i < index->prefixes && index->prefix[i] <= path.length; i++) {
		for (; at < index->prefix[i]; at++)
			hash = hash_byte(hash, path.at[at]);
		look(index, walk, (weir_span){path.at, at}, hash, WEIR_MATCH_PATH_BEGINS);
	}
	if (!index->paths || path.length > WEIR_INDEX_TEXT)
		return;
	for (; at < path.length; at++)
		hash = hash_byte(hash, path.at[at]);
	look(index, walk, path, hash, WEIR_MATCH_PATH_IS);
}

/* From the end to the beginning, so that one pass has the hashes of all endings. */
static void look_for_host(const weir_route_index *index, weir_span host, weir_route_walk *walk)
{
	uint32_t hash = HASH_BEGIN;
	size_t length = 0;
	for (unsigned i = 0; i < index->suffixes && index->suffix[i] < host.length; i++) {
		for (; length < index->suffix[i]; length++)
			hash = hash_byte(hash, weir_match_lower(host.at[host.length - 1 - length]));
		look(index, walk, (weir_span){host.at + host.length - length, length}, hash,
		     WEIR_MATCH_HOST_ENDS);
	}
	if (!index->hosts || host.length > WEIR_INDEX_TEXT)
		return;
	for (; length < host.length; length++)
		hash = hash_byte(hash, weir_match_lower(host.at[host.length - 1 - length]));
	look(index, walk, host, hash, WEIR_MATCH_HOST_IS);
}

void weir_route_walk_begin(const weir_route_index *index, const weir_match_input *input,
			   weir_route_walk *walk)
{
	walk->lists = 0;
	add_list(index, walk, index->rest_first, index->rest_count);
	look_for_path(index, input->path, walk);
	if (index->hosts || index->suffixes > 0)
		look_for_host(index, weir_match_bare_host(input->host), walk);
}

uint32_t weir_route_walk_next(weir_route_walk *walk)
{
	uint32_t least = UINT32_MAX;
	if (walk->lists == 1 && walk->list[0].at < walk->list[0].end)
		return *walk->list[0].at++;
	for (unsigned i = 0; i < walk->lists; i++)
		if (walk->list[i].at < walk->list[i].end && *walk->list[i].at < least)
			least = *walk->list[i].at;
	/* A route with several alternatives may be in several lists. */
	for (unsigned i = 0; i < walk->lists; i++)
		while (walk->list[i].at < walk->list[i].end && *walk->list[i].at == least)
			walk->list[i].at++;
	return least;
}
