/* SPDX-License-Identifier: Apache-2.0 */
/* What a search has found: /search?q=words&page=2 */
#include <errno.h>
#include <webmail/views.h>

#include "rows.h"

#define COUNT          25u
#define COUNT_DEGRADED 10u
#define PAGE_MOST      1000u

enum { QUERY, PAGE, DONE, IDS, VALUES };

static const weir_span names[VALUES] = {[QUERY] = WEIR_SPAN("q"),
					[PAGE] = WEIR_SPAN("page"),
					[DONE] = WEIR_SPAN("done"),
					[IDS] = WEIR_SPAN("ids")};

/* The address of a page of the results. */
static weir_span address(visit *v, weir_span words, uint32_t number)
{
	webpage to = {NULL, false};
	page_query(&to, words);
	weir_span query = page_written(&to);
	weir_span link = visit_print(v, "/search?q=%.*s&page=%u", (int)query.length, query.at, number);
	page_drop(&to);
	return link;
}

static void put_pages(visit *v, weir_span words, uint32_t number, unsigned shown, uint32_t each)
{
	view_pager pager = {.from = shown > 0 ? (number - 1) * each + 1 : 0,
			    .to = (number - 1) * each + shown};
	if (number > 1)
		pager.newer = address(v, words, number - 1);
	if (shown == each && number < PAGE_MOST)
		pager.older = address(v, words, number + 1);
	if (pager.newer.length > 0 || pager.older.length > 0)
		put_pager(&v->page, &pager);
}

/* Returns how many were found, or an error. -EINVAL: there is no word to look for. */
static int put_results(visit *v, weir_span words, uint32_t number)
{
	bool degraded = visit_is_degraded(v);
	store_query query = {
		.words = words, .count = degraded ? COUNT_DEGRADED : COUNT, .no_excerpts = degraded};
	rows r = {.visit = v, .snippets = !degraded};
	query.skip = (number - 1) * query.count;
	rows_begin(v, address(v, words, number), NULL);
	rows_open(v);
	int found = store_search(v->db, v->session.user, &query, rows_put, &r);
	rows_end(v);
	if (found > 0)
		put_pages(v, words, number, r.count, query.count);
	return found;
}

int search_visit(visit *v)
{
	weir_span values[VALUES];
	int failed = visit_folders(v);
	if (failed == 0)
		failed = visit_query(v, names, VALUES, values);
	if (failed != 0)
		return failed;
	uint32_t number = visit_count(values[PAGE], 1);
	number = number >= 1 && number <= PAGE_MOST ? number : 1;
	visit_begin(v, WEIR_SPAN("Search"), 0, values[QUERY]);
	rows_notice(v, values[DONE], values[IDS], address(v, values[QUERY], number));
	put_found(&v->page, &(view_found){.query = values[QUERY]});
	size_t length = v->page.buf != NULL ? v->page.buf->length : 0;
	int found = put_results(v, values[QUERY], number);
	if (found < 0 && found != -EINVAL)
		return found;
	if (found <= 0 && !v->page.failed) { /* without the tools for what is not there */
		v->page.buf->length = (uint32_t)length;
		put_empty(&v->page,
			  &(view_empty){.text = found == 0 ? WEIR_SPAN("Nothing was found.")
							   : WEIR_SPAN("What are you looking for?")});
		put_search_help(&v->page, &(view_search_help){0});
	}
	return visit_send(v, 200);
}
