/* SPDX-License-Identifier: Apache-2.0 */
/* Static files and the form to log in: what needs no database. On the reactor threads. */
#include "static.h"

#include <webmail/views.h>
#include <weir/form.h>

#include "webmail.h"

static const static_file *find(weir_span path)
{
	for (const static_file *file = static_files; file->path != NULL; file++)
		if (page_is(path, file->path))
			return file;
	return NULL;
}

int static_visit(visit *v)
{
	const static_file *file = find(weir_request_path(v->request));
	weir_field fields[] = {{WEIR_SPAN("Content-Type"), {NULL, 0}},
			       {WEIR_SPAN("Cache-Control"), WEIR_SPAN("public, max-age=31536000, immutable")},
			       {WEIR_SPAN("X-Content-Type-Options"), WEIR_SPAN("nosniff")}};
	if (file == NULL)
		return visit_sorry(v, 404, "Not here", "There is no such page.");
	fields[0].value = page_span(file->type);
	weir_request_reply(v->request, &(weir_reply){.status = 200,
						     .fields = fields,
						     .field_count = sizeof(fields) / sizeof(fields[0]),
						     .bytes = file->bytes,
						     .length = file->length});
	return 0;
}

int welcome_visit(visit *v)
{
	static const weir_span names[] = {WEIR_SPAN("next")};
	weir_span values[1];
	int failed = visit_query(v, names, 1, values);
	if (failed != 0)
		return failed;
	put_top(&v->page, &(view_top){.title = WEIR_SPAN("Webmail")});
	put_login(&v->page,
		  &(view_login){.next = visit_is_path(values[0]) ? values[0] : WEIR_SPAN(""), .fresh = true});
	return visit_reply(v, 200, NULL);
}
