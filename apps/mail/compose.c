/* SPDX-License-Identifier: Apache-2.0 */
#include "compose.h"
#include "mail_stream.h"
#include "mail_text.h"
#include "spool.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDS_BYTES_MAX 4000u /* of References */

typedef struct composing {
	const compose_form *form;
	GMimeMessage *message;
	char *sender;
	GPtrArray *recipients; /* addresses, each once */
	int error;
} composing;

/* ---- what was typed ---- */

static bool has_control(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	return false;
}

static int check_typed(const char *name, const char *text)
{
	if (text == NULL)
		return 0;
	if (strlen(text) > COMPOSE_FIELD_BYTES_MAX)
		return weir_error_set(-E2BIG, "%s is too long", name);
	if (!g_utf8_validate(text, -1, NULL) || has_control(text))
		return weir_error_set(-EINVAL, "%s has characters that cannot be sent", name);
	return 0;
}

/* An address as it goes over the wire, where the domain is ASCII. NULL: it is none. */
static char *wire_address(const char *address)
{
	const char *at = address != NULL ? strrchr(address, '@') : NULL;
	if (at == NULL || at == address || at - address > 64 || strlen(at) > 254)
		return NULL;
	for (const char *c = address; c < at; c++)
		if (!g_ascii_isalnum(*c) && strchr("!#$%&'*+-/=?^_`{|}~.", *c) == NULL)
			return NULL;
	char *domain = g_hostname_to_ascii(at + 1);
	bool valid = domain != NULL && *domain != '\0' && *domain != '.';
	for (const char *c = domain; valid && *c != '\0'; c++)
		valid = g_ascii_isalnum(*c) || strchr("-.[]:", *c) != NULL;
	char *result = valid ? g_strdup_printf("%.*s@%s", (int)(at - address), address, domain) : NULL;
	g_free(domain);
	return result;
}

static void add_recipient(composing *c, char *wire)
{
	if (g_ptr_array_find_with_equal_func(c->recipients, wire, g_str_equal, NULL))
		g_free(wire);
	else
		g_ptr_array_add(c->recipients, wire);
	if (c->recipients->len > COMPOSE_RECIPIENTS_MAX)
		c->error =
			weir_error_set(-E2BIG, "there are more than %u recipients", COMPOSE_RECIPIENTS_MAX);
}

static void add_mailbox(composing *c, InternetAddressList *to, InternetAddress *address)
{
	const char *typed = INTERNET_ADDRESS_IS_MAILBOX(address)
				    ? internet_address_mailbox_get_addr(INTERNET_ADDRESS_MAILBOX(address))
				    : NULL;
	char *wire = wire_address(typed);
	if (wire == NULL && !c->form->draft) {
		const char *name = typed != NULL ? typed : internet_address_get_name(address);
		c->error = weir_error_set(-EINVAL, "\"%s\" is no address", name != NULL ? name : "");
		return;
	}
	if (wire == NULL && typed == NULL)
		return;
	InternetAddress *clean =
		internet_address_mailbox_new(internet_address_get_name(address), wire ? wire : typed);
	internet_address_list_add(to, clean);
	g_object_unref(clean);
	if (wire != NULL)
		add_recipient(c, wire);
}

/* Whether each '@' outside of quotes is of an address: nobody gets a mail because a mistake was overread. */
static bool is_all_read(const char *typed, int count)
{
	bool quoted = false;
	for (; *typed != '\0'; typed++) {
		if (*typed == '\\' && quoted && typed[1] != '\0')
			typed++;
		else if (*typed == '"')
			quoted = !quoted;
		else if (*typed == '@' && !quoted)
			count--;
	}
	return count == 0;
}

/* A field of addresses. Bcc is written in drafts only. */
static void add_addresses(composing *c, const char *name, const char *typed, InternetAddressList *to)
{
	if (typed == NULL || c->error != 0 || (c->error = check_typed(name, typed)) != 0)
		return;
	InternetAddressList *list = internet_address_list_parse(NULL, typed);
	int count = list != NULL ? internet_address_list_length(list) : 0;
	bool empty = typed[strspn(typed, " ,;")] == '\0';
	for (int i = 0; i < count && c->error == 0; i++)
		add_mailbox(c, to, internet_address_list_get_address(list, i));
	if (c->error == 0 && !c->form->draft && !empty && (count == 0 || !is_all_read(typed, count)))
		c->error = weir_error_set(-EINVAL, "%s has something that is no address", name);
	g_clear_object(&list);
}

static void add_sender(composing *c)
{
	const char *from = c->form->from != NULL ? c->form->from : "";
	if ((c->error = check_typed("the sender", from)) != 0)
		return;
	InternetAddressList *list = internet_address_list_parse(NULL, from);
	InternetAddress *one = list != NULL && internet_address_list_length(list) == 1
				       ? internet_address_list_get_address(list, 0)
				       : NULL;
	if (one != NULL && INTERNET_ADDRESS_IS_MAILBOX(one))
		c->sender = wire_address(internet_address_mailbox_get_addr(INTERNET_ADDRESS_MAILBOX(one)));
	if (c->sender == NULL)
		c->error = weir_error_set(-EINVAL, "the sender is no address");
	else
		g_mime_message_add_mailbox(c->message, GMIME_ADDRESS_TYPE_FROM,
					   internet_address_get_name(one), c->sender);
	g_clear_object(&list);
}

/* ---- fields ---- */

/* Ids come back from a form, so what cannot be in one is left out. */
static char *bracketed_ids(const char *ids)
{
	GString *to = g_string_new(NULL);
	char **words = g_strsplit(ids != NULL ? ids : "", " ", -1);
	unsigned count = g_strv_length(words), first = count;
	size_t bytes = 0;
	while (first > 0 && (bytes += strlen(words[first - 1]) + 3) <= IDS_BYTES_MAX)
		first--;
	for (unsigned i = first; i < count; i++) {
		bool valid = *words[i] != '\0' && strpbrk(words[i], "<>\"\\(),;") == NULL &&
			     !has_control(words[i]) && g_str_is_ascii(words[i]);
		if (valid)
			g_string_append_printf(to, "%s<%s>", to->len > 0 ? " " : "", words[i]);
	}
	g_strfreev(words);
	return g_string_free(to, FALSE);
}

static void add_ids(composing *c, const char *field, const char *ids)
{
	char *value = bracketed_ids(ids);
	if (*value != '\0')
		g_mime_object_set_header(GMIME_OBJECT(c->message), field, value, "utf-8");
	g_free(value);
}

static void add_message_id(composing *c)
{
	unsigned char bytes[16];
	char id[400], *given = bracketed_ids(c->form->message_id);
	size_t at = 0;
	if (getentropy(bytes, sizeof(bytes)) != 0)
		c->error = weir_error_set(-EIO, "the system has no random numbers");
	for (size_t i = 0; i < sizeof(bytes); i++)
		at += (size_t)snprintf(id + at, sizeof(id) - at, "%02x", bytes[i]);
	snprintf(id + at, sizeof(id) - at, "%s", strrchr(c->sender, '@'));
	g_mime_message_set_message_id(c->message, *given != '\0' ? c->form->message_id : id);
	g_free(given);
}

static void add_fields(composing *c)
{
	const compose_form *f = c->form;
	GMimeMessage *m = c->message;
	add_sender(c);
	add_addresses(c, "To", f->to, g_mime_message_get_addresses(m, GMIME_ADDRESS_TYPE_TO));
	add_addresses(c, "Cc", f->cc, g_mime_message_get_addresses(m, GMIME_ADDRESS_TYPE_CC));
	InternetAddressList *hidden = internet_address_list_new();
	add_addresses(c, "Bcc", f->bcc,
		      f->draft ? g_mime_message_get_addresses(m, GMIME_ADDRESS_TYPE_BCC) : hidden);
	g_object_unref(hidden);
	if (c->error == 0)
		c->error = check_typed("the subject", f->subject);
	if (c->error == 0 && c->recipients->len == 0 && !f->draft)
		c->error = weir_error_set(-EINVAL, "there is no recipient");
	if (c->error != 0)
		return;
	g_mime_message_set_subject(m, f->subject != NULL ? f->subject : "", "utf-8");
	GDateTime *date = g_date_time_new_from_unix_utc(f->now_s);
	g_mime_message_set_date(m, date);
	g_date_time_unref(date);
	add_message_id(c);
	add_ids(c, "In-Reply-To", f->in_reply_to);
	add_ids(c, "References", f->references);
}

/* ---- parts ---- */

static GMimeObject *text_part(const char *typed)
{
	char *text = mail_text_utf8(typed, strlen(typed), "utf-8");
	GMimePart *part = g_mime_part_new_with_type("text", "plain");
	GMimeStream *stream = g_mime_stream_mem_new_with_buffer(text, strlen(text));
	bool plain = g_str_is_ascii(text);
	for (const char *line = text; plain && *line != '\0';) {
		size_t length = strcspn(line, "\n");
		plain = length < 900 && strncmp(line, "From ", 5) != 0;
		line += length + (line[length] == '\n');
	}
	GMimeContentEncoding how =
		plain ? GMIME_CONTENT_ENCODING_7BIT : GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE;
	GMimeDataWrapper *content =
		g_mime_data_wrapper_new_with_stream(stream, GMIME_CONTENT_ENCODING_DEFAULT);
	g_mime_object_set_content_type_parameter(GMIME_OBJECT(part), "charset", "utf-8");
	g_mime_part_set_content(part, content);
	g_mime_part_set_content_encoding(part, how);
	g_object_unref(content);
	g_object_unref(stream);
	g_free(text);
	return GMIME_OBJECT(part);
}

/* What is no simple type is not passed on. */
static GMimePart *part_of_type(const char *type)
{
	char **words = g_strsplit(type != NULL ? type : "", "/", 3);
	bool valid = g_strv_length(words) == 2;
	for (int i = 0; valid && i < 2; i++) {
		valid = *words[i] != '\0' && strlen(words[i]) < 100;
		for (const char *at = words[i]; valid && *at != '\0'; at++)
			valid = g_ascii_isalnum(*at) || strchr("!#$&-^_.+", *at) != NULL;
	}
	valid = valid && g_ascii_strcasecmp(words[0], "message") != 0 &&
		g_ascii_strcasecmp(words[0], "multipart") != 0;
	GMimePart *part = g_mime_part_new_with_type(valid ? words[0] : "application",
						    valid ? words[1] : "octet-stream");
	g_strfreev(words);
	return part;
}

static GMimeObject *file_part(const compose_file *file)
{
	GMimePart *part = part_of_type(file->type);
	GMimeStream *stream = mail_stream_reading(file->content, NULL);
	GMimeDataWrapper *content =
		g_mime_data_wrapper_new_with_stream(stream, GMIME_CONTENT_ENCODING_DEFAULT);
	char *name = mail_text_file_name(file->name, 255);
	g_mime_part_set_content(part, content);
	g_mime_part_set_content_encoding(part, GMIME_CONTENT_ENCODING_BASE64);
	g_mime_object_set_disposition(GMIME_OBJECT(part), "attachment");
	if (*name != '\0')
		g_mime_part_set_filename(part, name);
	g_free(name);
	g_object_unref(content);
	g_object_unref(stream);
	return GMIME_OBJECT(part);
}

static int check_sizes(const compose_form *form)
{
	uint64_t bytes = form->text != NULL ? strlen(form->text) : 0;
	if (bytes > COMPOSE_TEXT_BYTES_MAX)
		return weir_error_set(-E2BIG, "the text is too long");
	if (form->file_count > COMPOSE_FILES_MAX)
		return weir_error_set(-E2BIG, "there are more than %u attachments", COMPOSE_FILES_MAX);
	for (size_t i = 0; i < form->file_count; i++)
		bytes += form->files[i].content->bytes;
	if (bytes > COMPOSE_BYTES_MAX)
		return weir_error_set(-E2BIG, "the attachments are too large: at most %u MB",
				      COMPOSE_BYTES_MAX >> 20);
	return 0;
}

static void add_parts(composing *c)
{
	const compose_form *form = c->form;
	GMimeObject *body = text_part(form->text != NULL ? form->text : "");
	if (form->file_count > 0) {
		GMimeMultipart *mixed = g_mime_multipart_new_with_subtype("mixed");
		g_mime_multipart_add(mixed, body);
		g_object_unref(body);
		for (size_t i = 0; i < form->file_count; i++) {
			GMimeObject *part = file_part(&form->files[i]);
			g_mime_multipart_add(mixed, part);
			g_object_unref(part);
		}
		body = GMIME_OBJECT(mixed);
	}
	g_mime_message_set_mime_part(c->message, body);
	g_object_unref(body);
}

/* ---- the message ---- */

static int write_piece(void *arg, const void *bytes, size_t length)
{
	compose_message *message = arg;
	message->source.bytes += length;
	return spool_write(message->fd, bytes, length);
}

/* Lines end in CRLF, as SMTP has it. */
static int write_message(composing *c, const char *spool, compose_message *message)
{
	int error;
	message->fd = spool_open(spool);
	if (message->fd < 0)
		return message->fd;
	GMimeStream *out = mail_stream_writing(write_piece, message, &error);
	GMimeStream *filtered = g_mime_stream_filter_new(out);
	GMimeFilter *crlf = g_mime_filter_unix2dos_new(TRUE);
	g_mime_stream_filter_add(GMIME_STREAM_FILTER(filtered), crlf);
	ssize_t written = g_mime_object_write_to_stream(GMIME_OBJECT(c->message), NULL, filtered);
	if (g_mime_stream_flush(filtered) != 0)
		written = -1;
	g_object_unref(crlf);
	g_object_unref(filtered);
	g_object_unref(out);
	if (error == 0 && written < 0)
		error = weir_error_set(-EIO, "an attachment cannot be read");
	message->source = mail_from_fd(message->fd, message->source.bytes);
	return error;
}

static char *join(GPtrArray *lines)
{
	GString *to = g_string_new(NULL);
	for (unsigned i = 0; i < lines->len; i++)
		g_string_append_printf(to, "%s%s", i > 0 ? "\n" : "", (const char *)lines->pdata[i]);
	return g_string_free(to, FALSE);
}

int compose_build(const compose_form *form, const char *spool, compose_message *ret_message)
{
	compose_message message = {.fd = -1};
	composing c = {.form = form, .error = check_sizes(form)};
	if (c.error != 0)
		return c.error;
	c.message = g_mime_message_new(TRUE);
	c.recipients = g_ptr_array_new_with_free_func(g_free);
	add_fields(&c);
	if (c.error == 0) {
		add_parts(&c);
		c.error = write_message(&c, spool, &message);
	}
	if (c.error == 0) {
		message.recipients = join(c.recipients);
		message.recipient_count = c.recipients->len;
		message.sender = g_steal_pointer(&c.sender);
		*ret_message = message;
	} else if (message.fd >= 0) {
		close(message.fd);
	}
	g_ptr_array_free(c.recipients, TRUE);
	g_object_unref(c.message);
	g_free(c.sender);
	return c.error;
}

void compose_message_fini(compose_message *message)
{
	if (message->fd >= 0)
		close(message->fd);
	message->fd = -1;
	g_free(message->sender);
	g_free(message->recipients);
	message->sender = message->recipients = NULL;
}
