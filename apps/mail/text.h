/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_TEXT_H
#define MAIL_TEXT_H

/*
 * Texts that peers sent: made valid, folded for comparison, cut without cutting a character, and their words.
 * Memory is the caller's. Threads: any.
 */

#include <weir/request.h>

/* Copies text as valid UTF-8 without control characters, at most size - 1 bytes and a NUL; the length. */
size_t text_clean(weir_span text, char *to, size_t size);
/* The same in lower case, without quotes and blanks at the beginning: for sorting. */
size_t text_fold(weir_span text, char *to, size_t size);
/* Writes about size bytes of text around the first place where word (folded) is; false if it is nowhere. */
bool text_excerpt(weir_span text, const char *word, char *to, size_t size);
/* Whether a text has these words (folded) in this order; the last may be the beginning of one. */
bool text_has(weir_span text, const char *words, bool begins);
/* Takes the next word off a text: letters, digits and all that is not ASCII. An empty one is the end. */
weir_span text_word(weir_span *rest);

#endif
