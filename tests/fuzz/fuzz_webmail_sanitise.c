/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as HTML. What comes out is harmless, also when it is sanitised a second time, and is valid UTF-8. The
 * text of it has no more bytes than were asked for.
 */
#include <glib.h>
#include <mail/sanitise.h>
#include <string.h>

#include "../support/harmless.h"
#include "target.h"

static bool find(void *arg, const char *content_id, char *ret_url, size_t size)
{
	return (size_t)snprintf(ret_url, size, "/part/%zu", strlen(content_id)) < size;
}

static char *sanitised(const char *html, size_t length, bool remote)
{
	sanitise_options options = {.remote = remote, .find = find};
	sanitise_result result;
	if (sanitise_html(html, length, &options, &result) != 0) {
		check_sentence();
		return NULL;
	}
	CHECK(strlen(result.html) == result.length);
	CHECK(g_utf8_validate(result.html, (gssize)result.length, NULL));
	CHECK(harmful_at(result.html, remote) == NULL);
	return result.html;
}

static void check_text(const char *html, size_t length, size_t max)
{
	char *text;
	if (sanitise_text(html, length, max, &text) != 0)
		return;
	CHECK(strlen(text) <= max && g_utf8_validate(text, -1, NULL));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *valid = g_utf8_make_valid((const char *)data, (gssize)size);
	size_t length = strlen(valid);
	for (int remote = 0; remote < 2; remote++) {
		char *once = sanitised(valid, length, remote);
		char *twice = once != NULL ? sanitised(once, strlen(once), remote) : NULL;
		free(twice);
		free(once);
	}
	check_text(valid, length, 1000);
	check_text(valid, length, 7);
	g_free(valid);
	return 0;
}
