/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include <stdlib.h>
#include <string.h>
#include <webmail/views.h>

const char *const rows_sorts[STORE_SORTS] = {
	[STORE_BY_DATE] = "date", [STORE_BY_AUTHOR] = "author", [STORE_BY_SUBJECT] = "subject"};

store_sort rows_sort_of(weir_span text)
{
	for (unsigned i = 0; i < STORE_SORTS; i++)
		if (text.length == strlen(rows_sorts[i]) && memcmp(text.at, rows_sorts[i], text.length) == 0)
			return (store_sort)i;
	return STORE_SORTS;
}

void rows_folders(visit *v, uint32_t except)
{
	for (size_t i = 0; i < v->folder_count; i++)
		if (v->folders[i].role != STORE_DRAFTS && v->folders[i].role != STORE_SENT &&
		    v->folders[i].id != except)
			put_option(&v->page,
				   &(view_option){.id = v->folders[i].id, .name = v->folders[i].name});
}

void rows_begin(visit *v, weir_span back, const store_folder *folder)
{
	put_tools(&v->page, &(view_tools){.csrf = page_span(v->csrf),
					  .back = back,
					  .trash = folder != NULL && folder->role == STORE_TRASH});
	rows_folders(v, folder != NULL ? folder->id : 0);
	put_list_tools_end(&v->page, &(view_list_tools_end){0});
}

/* A second click on the sort in force turns it round. */
void rows_sort(visit *v, weir_span base, store_sort sort, bool reversed)
{
	static const char *const labels[STORE_SORTS] = {"Date", "Author", "Subject"};
	for (unsigned i = 0; i < STORE_SORTS; i++)
		put_sort(&v->page, &(view_sort){.base = base,
						.name = page_span(rows_sorts[i]),
						.label = page_span(labels[i]),
						.current = i == sort,
						.reverse = i == sort && !reversed,
						.reversed = reversed});
}

void rows_open(visit *v)
{
	put_rows(&v->page, &(view_rows){0});
}

/* "Ann Lee" of "Ann Lee <ann@example.org>"; the address where there is no name. */
static weir_span name_of(weir_span person)
{
	const char *bracket = person.length > 0 ? memchr(person.at, '<', person.length) : NULL;
	size_t length = bracket != NULL ? (size_t)(bracket - person.at) : person.length;
	while (length > 0 && person.at[length - 1] == ' ')
		length--;
	return length > 0 ? (weir_span){person.at, length} : person;
}

void rows_put(const store_message *message, void *arg)
{
	rows *r = arg;
	visit_date date = visit_date_of(message->date_s, r->visit->now_s, false);
	weir_span subject = message->subject.length > 0 ? message->subject : WEIR_SPAN("(no subject)");
	weir_span who = r->to && message->to.length > 0 ? message->to : message->author;
	r->count++;
	put_row(&r->visit->page, &(view_row){.id = message->id,
					     .list = r->list,
					     .unread = (message->flags & STORE_SEEN) == 0,
					     .flagged = (message->flags & STORE_FLAGGED) != 0,
					     .answered = (message->flags & STORE_ANSWERED) != 0,
					     .attachment = (message->flags & STORE_ATTACHMENT) != 0,
					     .author = name_of(who),
					     .subject = subject,
					     .snippet = r->snippets ? message->snippet : (weir_span){NULL, 0},
					     .iso = page_span(date.iso),
					     .date = page_span(date.shown)});
}

void rows_end(visit *v)
{
	put_rows_end(&v->page, &(view_rows_end){0});
}

void rows_notice(visit *v, weir_span done, weir_span ids, weir_span back)
{
	static const struct {
		const char *done, *text;
		bool undo;
	} known[] = {{"delete", "Moved to the trash.", true}, {"refile", "Moved.", true},
		     {"undo", "Back where it was.", false},   {"purge", "Deleted for good.", false},
		     {"sent", "On its way.", false},          {"draft", "Kept as a draft.", false},
		     {"none", "Nothing was selected.", false}};
	for (size_t i = 0; i < ids.length; i++)
		if ((ids.at[i] < '0' || ids.at[i] > '9') && ids.at[i] != ',')
			ids.length = 0;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (done.length == strlen(known[i].done) && memcmp(done.at, known[i].done, done.length) == 0)
			put_notice(&v->page,
				   &(view_notice){.text = page_span(known[i].text),
						  .csrf = page_span(v->csrf),
						  .back = back,
						  .ids = known[i].undo ? ids : (weir_span){NULL, 0}});
}
