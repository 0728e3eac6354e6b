/* SPDX-License-Identifier: Apache-2.0 */
#include "compose.h"

#include <glib.h>

static char *text_of(const smtp_mail *mail)
{
	GString *text = g_string_new("Your message could not be delivered to:\n\n");
	for (unsigned i = 0; i < mail->count; i++) {
		if (mail->codes[i] < 500)
			continue;
		g_string_append_printf(text, "    %s\n", mail->recipients[i]);
		if (mail->answers[i] != NULL)
			g_string_append_printf(text, "        %s\n", mail->answers[i]);
	}
	g_string_append(text, "\nIt was given up, and will not be tried again. The beginning of your message "
			      "is attached.\n");
	return g_string_free(text, FALSE);
}

int compose_bounce(const smtp_mail *mail, const char *host, const mail_source *beginning, int64_t now_s,
		   const char *spool, compose_message *ret_message)
{
	char *text = text_of(mail);
	char *from = g_strdup_printf("Mail delivery <postmaster@%s>", host != NULL ? host : "localhost");
	compose_file original = {.name = "original.txt", .type = "text/plain", .content = beginning};
	compose_form form = {.from = from,
			     .to = mail->sender,
			     .subject = "Your message was not delivered",
			     .text = text,
			     .files = &original,
			     .file_count = 1,
			     .now_s = now_s};
	int error = compose_build(&form, spool, ret_message);
	g_free(from);
	g_free(text);
	return error;
}
