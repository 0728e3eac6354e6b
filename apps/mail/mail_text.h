/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_MAIL_TEXT_H
#define MAIL_MAIL_TEXT_H

/*
 * Texts of messages: any charset to UTF-8, and the forms in which texts are shown and sorted. All results are
 * valid UTF-8 without NUL, and the caller's to free with g_free. Threads: any.
 */

#include <weir/base.h>

/*
 * Converts bytes of a charset, which may be NULL or unknown: then they are taken for UTF-8 if they can be, else
 * for windows-1252. Bytes that fit no charset become U+FFFD. Line ends become "\n".
 */
char *mail_text_utf8(const char *bytes, size_t length, const char *charset);
/* Looks for charset= in the beginning of HTML. NULL: there is none. */
char *mail_text_html_charset(const char *html, size_t length);
/* One line without control characters, with single blanks, cut to max bytes. NULL text is "". */
char *mail_text_line(const char *text, size_t max);
/* The same, and without "Re:", "Fwd:" and their like, in lower case. */
char *mail_text_sort(const char *subject, size_t max);
/* The first words of a text, without lines that quote another message. */
char *mail_text_snippet(const char *text, size_t max);
/* The name of a file without folders, control characters and dots before it. */
char *mail_text_file_name(const char *name, size_t max);
/* Cuts to at most max bytes, not within a letter. */
void mail_text_cut(char *text, size_t max);

#endif
