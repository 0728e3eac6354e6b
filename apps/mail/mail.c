/* SPDX-License-Identifier: Apache-2.0 */
#include "mail.h"
#include "mail_parse.h"
#include "mail_text.h"

#include <string.h>

#define DATE_MAX_S INT64_C(253402300799) /* the year 9999 */

void mail_init(void)
{
	g_mime_init();
	GMimeParserOptions *options = g_mime_parser_options_get_default();
	const char *charsets[] = {"utf-8", "windows-1252", NULL};
	g_mime_parser_options_set_fallback_charsets(options, charsets);
}

/* ---- addresses ---- */

/* "Name <address>", with quotes where the name needs them. */
static void write_mailbox(GString *to, const char *name, const char *address)
{
	char *shown = mail_text_line(name, MAIL_NAME_BYTES_MAX),
	     *where = mail_text_line(address, MAIL_NAME_BYTES_MAX);
	if (*shown == '\0') {
		g_string_append(to, where);
	} else if (strpbrk(shown, ",;:<>@()[]\"\\") == NULL) {
		g_string_append_printf(to, "%s <%s>", shown, where);
	} else {
		g_string_append_c(to, '"');
		for (const char *at = shown; *at != '\0'; at++) {
			if (*at == '"' || *at == '\\')
				g_string_append_c(to, '\\');
			g_string_append_c(to, *at);
		}
		g_string_append_printf(to, "\" <%s>", where);
	}
	g_free(shown);
	g_free(where);
}

static void write_address(GString *to, InternetAddress *address);

/* At most max bytes, in whole addresses. */
static void write_addresses(GString *to, InternetAddressList *list, size_t max)
{
	int count = list != NULL ? internet_address_list_length(list) : 0;
	for (int i = 0; i < count; i++) {
		size_t before = to->len;
		if (before > 0)
			g_string_append(to, ", ");
		write_address(to, internet_address_list_get_address(list, i));
		if (to->len <= max)
			continue;
		g_string_truncate(to, before);
		return;
	}
}

static void write_address(GString *to, InternetAddress *address)
{
	if (INTERNET_ADDRESS_IS_MAILBOX(address))
		write_mailbox(to, internet_address_get_name(address),
			      internet_address_mailbox_get_addr(INTERNET_ADDRESS_MAILBOX(address)));
	else if (INTERNET_ADDRESS_IS_GROUP(address))
		write_mailbox(to, internet_address_get_name(address), "");
}

static char *addresses(GMimeMessage *message, GMimeAddressType type)
{
	GString *to = g_string_new(NULL);
	write_addresses(to, g_mime_message_get_addresses(message, type), MAIL_LIST_BYTES_MAX);
	return g_string_free(to, FALSE);
}

static InternetAddress *first_author(GMimeMessage *message)
{
	InternetAddressList *list = g_mime_message_get_from(message);
	if (list == NULL || internet_address_list_length(list) == 0)
		list = g_mime_message_get_addresses(message, GMIME_ADDRESS_TYPE_SENDER);
	bool none = list == NULL || internet_address_list_length(list) == 0;
	return none ? NULL : internet_address_list_get_address(list, 0);
}

static void summarise_author(mail_summary *s, GMimeMessage *message)
{
	InternetAddress *author = first_author(message);
	GString *from = g_string_new(NULL);
	if (author != NULL)
		write_address(from, author);
	s->from = g_string_free(from, FALSE);
	s->author =
		mail_text_line(author != NULL ? internet_address_get_name(author) : "", MAIL_NAME_BYTES_MAX);
	if (*s->author == '\0' && author != NULL && INTERNET_ADDRESS_IS_MAILBOX(author)) {
		g_free(s->author);
		s->author =
			mail_text_line(internet_address_mailbox_get_addr(INTERNET_ADDRESS_MAILBOX(author)),
				       MAIL_NAME_BYTES_MAX);
	}
}

/* ---- ids ---- */

/* Ids have no blanks, so that lists of them can be separated by these. */
static char *clean_id(const char *id)
{
	char *line = mail_text_line(id, MAIL_NAME_BYTES_MAX), *to = line;
	for (const char *at = line; *at != '\0'; at++)
		if (strchr(" <>", *at) == NULL)
			*to++ = *at;
	*to = '\0';
	return line;
}

/* Adds the ids of a field that are not there, in order. */
static void add_ids(GPtrArray *ids, GMimeMessage *message, const char *field)
{
	const char *text = g_mime_object_get_header(GMIME_OBJECT(message), field);
	GMimeReferences *found = text != NULL ? g_mime_references_parse(NULL, text) : NULL;
	int count = found != NULL ? g_mime_references_length(found) : 0;
	for (int i = count > 200 ? count - 200 : 0; i < count; i++) {
		char *id = clean_id(g_mime_references_get_message_id(found, i));
		if (*id == '\0' || g_ptr_array_find_with_equal_func(ids, id, g_str_equal, NULL))
			g_free(id);
		else
			g_ptr_array_add(ids, id);
	}
	if (found != NULL)
		g_mime_references_free(found);
}

/* If there are too many, those that are nearest to the message stay. */
static char *references(GMimeMessage *message)
{
	GPtrArray *ids = g_ptr_array_new_with_free_func(g_free);
	add_ids(ids, message, "References");
	add_ids(ids, message, "In-Reply-To");
	size_t bytes = 0;
	unsigned first = ids->len;
	while (first > 0 && (bytes += strlen(ids->pdata[first - 1]) + 1) <= MAIL_LIST_BYTES_MAX)
		first--;
	GString *to = g_string_new(NULL);
	for (unsigned i = first; i < ids->len; i++)
		g_string_append_printf(to, "%s%s", i > first ? " " : "", (const char *)ids->pdata[i]);
	g_ptr_array_free(ids, TRUE);
	return g_string_free(to, FALSE);
}

/* ---- summaries ---- */

static int64_t date_of(GMimeMessage *message)
{
	GDateTime *date = g_mime_message_get_date(message);
	int64_t seconds = date != NULL ? g_date_time_to_unix(date) : 0;
	return seconds < 0 ? 0 : seconds > DATE_MAX_S ? DATE_MAX_S : seconds;
}

/* Pictures of the HTML and signatures do not count. */
static bool has_attachments(const mail_parsed *parsed)
{
	for (unsigned i = 0; i < parsed->extras->len; i++) {
		const mail_extra *extra = &g_array_index(parsed->extras, mail_extra, i);
		bool shown = extra->related && g_mime_object_get_content_id(extra->object) != NULL;
		if (!shown && !extra->minor)
			return true;
	}
	return false;
}

mail_summary *mail_parsed_summary(const mail_parsed *parsed)
{
	mail_summary *s = g_new0(mail_summary, 1);
	GMimeMessage *message = parsed->message;
	summarise_author(s, message);
	s->reply_to = addresses(message, GMIME_ADDRESS_TYPE_REPLY_TO);
	if (*s->reply_to == '\0') {
		g_free(s->reply_to);
		s->reply_to = g_strdup(s->from);
	}
	s->to = addresses(message, GMIME_ADDRESS_TYPE_TO);
	s->cc = addresses(message, GMIME_ADDRESS_TYPE_CC);
	s->bcc = addresses(message, GMIME_ADDRESS_TYPE_BCC);
	const char *subject = g_mime_message_get_subject(message);
	s->subject = mail_text_line(subject, MAIL_NAME_BYTES_MAX);
	s->sort_subject = mail_text_sort(subject, MAIL_NAME_BYTES_MAX);
	s->message_id = clean_id(g_mime_message_get_message_id(message));
	s->references = references(message);
	s->date_s = date_of(message);
	s->attachments = has_attachments(parsed);
	s->text = mail_parsed_body(parsed, MAIL_TEXT_BYTES_MAX, NULL);
	s->snippet = mail_text_snippet(s->text, MAIL_SNIPPET_BYTES);
	return s;
}

int mail_summarise(const mail_source *source, mail_summary **ret_summary)
{
	mail_parsed parsed;
	int error = mail_parsed_init(&parsed, source);
	if (error != 0)
		return error;
	*ret_summary = mail_parsed_summary(&parsed);
	mail_parsed_fini(&parsed);
	return 0;
}

void mail_summary_free(mail_summary **summary)
{
	mail_summary *s = *summary;
	if (s == NULL)
		return;
	char *texts[] = {s->from,    s->author,  s->reply_to,     s->to,         s->cc,         s->bcc,
			 s->subject, s->snippet, s->sort_subject, s->message_id, s->references, s->text};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		g_free(texts[i]);
	g_free(s);
	*summary = NULL;
}
