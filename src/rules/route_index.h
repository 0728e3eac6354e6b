/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_ROUTE_INDEX_H
#define WEIR_RULES_ROUTE_INDEX_H

/*
 * Finds the routes that a request may match without comparing it with all of them.
 *
 * A request belongs to the first route of the table whose rules all match. The index does not change that: it
 * leaves out only routes that cannot match, and gives the others in the order of the table. For this each
 * route has an anchor: one of its rules, about paths ("/a", "/a/\*") or hosts ("a.org", "*.a.org"), of which
 * one alternative has to match. A hash table leads from an anchor's text to its routes. Routes without such a
 * rule are always compared.
 *
 * A rule about a field or a cookie may find that a request is ambiguous, which counts even if the route does
 * not match. So an anchor stands before the first such rule of its route. Of several anchors a route takes the
 * one that the fewest routes have.
 *
 * Cost: one pass over the path and the host, and a look at the table for each length of an anchor.
 * Memory: about 100 bytes a route.
 *
 * Threads: immutable once made; any. It refers to the texts of the matchers, which must live as long.
 */

#include "rules/routes.h"

/* Distinct lengths of anchors, by kind; a route that needs more is always compared. */
enum { WEIR_INDEX_PREFIXES = 32, WEIR_INDEX_SUFFIXES = 16, WEIR_INDEX_TEXT = 255 };
/* The lists that one request can find: one for each length, both exact ones, and that of routes without an anchor. */
enum { WEIR_INDEX_LISTS = WEIR_INDEX_PREFIXES + WEIR_INDEX_SUFFIXES + 3 };

typedef struct weir_route_index weir_route_index;

/* The routes that a request may match; no longer than the index and the request. */
typedef struct weir_route_walk {
	struct weir_route_list {
		const uint32_t *at, *end;
	} list[WEIR_INDEX_LISTS];
	unsigned lists;
} weir_route_walk;

/* NULL: there are too few routes for it to be worth while, or there is no memory. */
weir_route_index *weir_route_index_new(const weir_routes *routes);
void weir_route_index_free(weir_route_index *index);
void weir_route_walk_begin(const weir_route_index *index, const weir_match_input *input,
			   weir_route_walk *walk);
/* The number of the next route, in the order of the table; UINT32_MAX: there are no more. */
uint32_t weir_route_walk_next(weir_route_walk *walk);

#endif
