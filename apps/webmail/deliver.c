/* SPDX-License-Identifier: Apache-2.0 */
#include "deliver.h"

#include <string.h>

#define AHEAD_MAX_S (24 * 3600)

static weir_span span_of(const char *text)
{
	return (weir_span){text, strlen(text)};
}

int deliver_prepare(deliver_mail *deliver, const mail_source *source, int64_t now_s)
{
	*deliver = (deliver_mail){.summary = NULL};
	int error = mail_summarise(source, &deliver->summary);
	if (error != 0)
		return error;
	const mail_summary *s = deliver->summary;
	bool dated = s->date_s > 0 && s->date_s <= now_s + AHEAD_MAX_S;
	deliver->mail = (store_mail){
		.head = {.from = span_of(s->from),
			 .author = span_of(s->author),
			 .subject = span_of(s->subject),
			 .to = span_of(s->to),
			 .cc = span_of(s->cc),
			 .snippet = span_of(s->snippet),
			 .message_id = span_of(s->message_id),
			 .date_s = dated ? s->date_s : now_s,
			 .flags = s->attachments ? STORE_ATTACHMENT : 0},
		.text = span_of(s->text),
		.sort_subject = span_of(s->sort_subject),
		.references = span_of(s->references),
		.raw = *source,
		.now_s = now_s,
	};
	return 0;
}

void deliver_release(deliver_mail *deliver)
{
	mail_summary_free(&deliver->summary);
}
