/* SPDX-License-Identifier: Apache-2.0 */
/* The folders, and mail on its way out. "/" leads to the inbox. */
#include <webmail/views.h>

#include "webmail.h"

static int put_all(visit *v)
{
	weir_span csrf = page_span(v->csrf);
	visit_begin(v, WEIR_SPAN("Folders"), 0, (weir_span){NULL, 0});
	put_folders(&v->page, &(view_folders){0});
	for (size_t i = 0; i < v->folder_count; i++) {
		const store_folder *each = &v->folders[i];
		put_folder(&v->page, &(view_folder){.id = each->id,
						    .name = each->name,
						    .icon = page_span(visit_icon(each->role)),
						    .counted = !visit_is_degraded(v),
						    .total = each->total,
						    .unread = visit_is_degraded(v) ? 0 : each->unread,
						    .own = each->role == STORE_PLAIN,
						    .csrf = csrf});
	}
	put_folders_end(&v->page, &(view_folders_end){.csrf = csrf});
	return visit_send(v, 200);
}

static void put_waiting(const store_outgoing *outgoing, void *arg)
{
	visit *v = arg;
	put_outbox_row(&v->page, &(view_outbox_row){.id = outgoing->message,
						    .recipients = outgoing->recipients,
						    .error = outgoing->error,
						    .tries = outgoing->tries});
}

static int put_outgoing(visit *v)
{
	visit_begin(v, WEIR_SPAN("Outbox"), 0, (weir_span){NULL, 0});
	put_outbox(&v->page, &(view_outbox){0});
	int found = store_outgoing_list(v->db, v->session.user, put_waiting, v);
	put_outbox_end(&v->page, &(view_outbox_end){0});
	if (found == 0)
		put_empty(&v->page, &(view_empty){.text = WEIR_SPAN("Everything was sent.")});
	return found < 0 ? found : visit_send(v, 200);
}

int folders_visit(visit *v)
{
	weir_span path = weir_request_path(v->request);
	int failed = visit_folders(v);
	if (failed != 0)
		return failed;
	const store_folder *inbox = visit_folder_of(v, STORE_INBOX), *sent = visit_folder_of(v, STORE_SENT);
	if (page_is(path, "/outbox"))
		return put_outgoing(v);
	if (page_is(path, "/") && inbox != NULL)
		return visit_redirect(v, visit_print(v, "/folder/%u", inbox->id), NULL);
	if (page_is(path, "/sent") && sent != NULL)
		return visit_redirect(v, visit_print(v, "/folder/%u?done=sent", sent->id), NULL);
	return put_all(v);
}
