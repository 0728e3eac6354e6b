/* SPDX-License-Identifier: Apache-2.0 */
/* A page of a folder's messages: /folder/1?page=2&sort=author&order=reverse&count=50 */
#include <errno.h>
#include <webmail/views.h>

#include "rows.h"

#define COUNT          25u
#define COUNT_LEAST    10u
#define COUNT_DEGRADED 10u
#define PAGE_MOST      1000000u

enum { PAGE, SORT, ORDER, COUNT_OF, DONE, IDS, VALUES };

static const weir_span names[VALUES] = {
	[PAGE] = WEIR_SPAN("page"),      [SORT] = WEIR_SPAN("sort"), [ORDER] = WEIR_SPAN("order"),
	[COUNT_OF] = WEIR_SPAN("count"), [DONE] = WEIR_SPAN("done"), [IDS] = WEIR_SPAN("ids")};

typedef struct list_page {
	store_list list;
	uint32_t number;
	bool counted;    /* the count was given */
	weir_span query; /* all but the page: "sort=date&" */
} list_page;

static list_page read_page(visit *v, uint32_t folder, const weir_span values[VALUES])
{
	store_sort sort = rows_sort_of(values[SORT]);
	uint32_t count = visit_count(values[COUNT_OF], COUNT), number = visit_count(values[PAGE], 1);
	list_page p = {.list = {.folder = folder,
				.sort = sort < STORE_SORTS ? sort : STORE_BY_DATE,
				.reversed = values[ORDER].length > 0},
		       .number = number >= 1 && number <= PAGE_MOST ? number : 1,
		       .counted = values[COUNT_OF].length > 0};
	p.list.count = count < COUNT_LEAST ? COUNT_LEAST : count > STORE_PAGE_MAX ? STORE_PAGE_MAX : count;
	if (visit_is_degraded(v))
		p.list.count = COUNT_DEGRADED;
	p.list.skip = (p.number - 1) * p.list.count;
	p.query =
		visit_print(v, "sort=%s%s", rows_sorts[p.list.sort], p.list.reversed ? "&order=reverse" : "");
	if (p.counted)
		p.query = visit_print(v, "%s&count=%u", p.query.at, p.list.count);
	return p;
}

static void put_pages(visit *v, const list_page *p, unsigned shown, uint32_t total)
{
	bool degraded = visit_is_degraded(v), older = p->list.skip + shown < total;
	view_pager pager = {.from = shown > 0 ? p->list.skip + 1 : 0,
			    .to = p->list.skip + shown,
			    .total = degraded ? 0 : total};
	if (p->number > 1)
		pager.newer =
			visit_print(v, "/folder/%u?%s&page=%u", p->list.folder, p->query.at, p->number - 1);
	if (older)
		pager.older =
			visit_print(v, "/folder/%u?%s&page=%u", p->list.folder, p->query.at, p->number + 1);
	if (p->number > 1 || older)
		put_pager(&v->page, &pager);
}

static int put_messages(visit *v, const list_page *p, const store_folder *folder, unsigned *ret_shown)
{
	weir_span back = visit_print(v, "/folder/%u?%s&page=%u", folder->id, p->query.at, p->number);
	rows r = {.visit = v,
		  .list = visit_print(v, "?%s", p->query.at),
		  .snippets = !visit_is_degraded(v),
		  .to = folder->role == STORE_SENT || folder->role == STORE_DRAFTS};
	rows_begin(v, back, folder);
	rows_sort(v, visit_print(v, "/folder/%u?", folder->id), p->list.sort, p->list.reversed);
	rows_open(v);
	int found = store_messages(v->db, v->session.user, &p->list, rows_put, &r);
	rows_end(v);
	*ret_shown = r.count;
	return found < 0 ? found : 0;
}

static int put_all(visit *v, const list_page *p, const store_folder *folder, const weir_span values[VALUES])
{
	bool degraded = visit_is_degraded(v);
	unsigned shown = 0;
	int failed = 0;
	visit_begin(v, folder->name, folder->id, (weir_span){NULL, 0});
	rows_notice(v, values[DONE], values[IDS], visit_print(v, "/folder/%u", folder->id));
	put_list(&v->page, &(view_list){.name = folder->name,
					.counted = !degraded,
					.total = folder->total,
					.unread = folder->unread});
	if (folder->total > 0 || degraded)
		failed = put_messages(v, p, folder, &shown);
	else
		put_empty(&v->page, &(view_empty){.text = WEIR_SPAN("There is nothing here.")});
	if (failed != 0)
		return failed;
	put_pages(v, p, shown, folder->total);
	if ((folder->role == STORE_TRASH || folder->role == STORE_JUNK) && folder->total > 0)
		put_empty_trash(&v->page,
				&(view_empty_trash){.csrf = page_span(v->csrf), .folder = folder->id});
	return visit_send(v, 200);
}

int list_visit(visit *v)
{
	weir_span values[VALUES];
	uint32_t id = visit_number(v, "/folder/", NULL);
	int failed = visit_folders(v);
	const store_folder *folder = failed == 0 ? visit_folder(v, id) : NULL;
	if (failed == 0 && folder == NULL && visit_is_degraded(v)) { /* it may be new */
		failed = visit_folders_anew(v);
		folder = visit_folder(v, id);
	}
	if (failed == 0 && folder == NULL)
		failed = -ENOENT;
	if (failed == 0)
		failed = visit_query(v, names, VALUES, values);
	if (failed != 0)
		return failed;
	list_page p = read_page(v, id, values);
	return put_all(v, &p, folder, values);
}
