/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_SANITISE_H
#define MAIL_SANITISE_H

/*
 * Makes a stranger's HTML harmless, by an allow-list.
 *
 * The HTML is parsed as a browser parses it (HTML5), and what is allowed is written anew from the tree: known
 * elements, known attributes, known properties of styles with known forms of values. Everything else is left
 * out; so are scripts, styles, forms, frames, SVG and MathML with all that is in them. Text is escaped. The
 * result has no element whose content a browser reads in another way (raw text, foreign content), so reading
 * it again gives the same tree.
 *
 * URLs: links lead to http, https, mailto and tel, and open a new window without a referrer. Images are parts
 * of the message (cid:), or http and https if remote content is asked for. No other address is fetched by
 * the result; CSS has none.
 *
 * Bounds: input beyond SANITISE_BYTES_MAX or SANITISE_TAGS_MAX is cut off; elements nested deeper than
 * SANITISE_DEPTH_MAX lose their tags, not their text. The parser gets SANITISE_MEMORY_MAX bytes and a second
 * of processor time. What needs more is hostile, and gives -E2BIG.
 *
 * Threads: any.
 */

#include <weir/base.h>

#define SANITISE_BYTES_MAX  (1u << 20)
#define SANITISE_TAGS_MAX   20000u
#define SANITISE_DEPTH_MAX  200u
#define SANITISE_MEMORY_MAX (96u << 20)

typedef struct sanitise_options {
	bool remote; /* images of other servers stay */
	/*
	 * Writes the address of the part with this Content-ID. False: there is none, and the image is left out.
	 * NULL: images of the message are left out.
	 */
	bool (*find)(void *arg, const char *content_id, char *ret_url, size_t size);
	void *arg;
} sanitise_options;

typedef struct sanitise_result {
	char *html; /* UTF-8 with a NUL; yours, free() */
	size_t length;
	unsigned blocked; /* remote images left out */
	bool clipped;     /* the end of the input was cut off, or tags were too deep */
} sanitise_result;

/* Sanitises UTF-8. 0, -E2BIG or -ENOMEM, with weir_error. */
int sanitise_html(const char *html, size_t length, const sanitise_options *options,
		  sanitise_result *ret_result);
/*
 * The text of HTML, with line breaks where blocks end, at most max bytes. 0, -E2BIG or -ENOMEM. The text is
 * yours, free().
 */
int sanitise_text(const char *html, size_t length, size_t max, char **ret_text);
/*
 * Text as HTML that keeps its lines, without blank ones around it: escaped, web addresses as links, and lines that
 * quote another message in a span of class "quote". UTF-8 with a NUL; yours, free().
 */
char *sanitise_plain(const char *text);

#endif
