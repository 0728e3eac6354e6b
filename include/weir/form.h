/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FORM_H
#define WEIR_FORM_H

/*
 * Percent decoding, and forms: the pairs of application/x-www-form-urlencoded, as queries and bodies have
 * them.
 *
 *	static const weir_span names[] = {WEIR_SPAN("user"), WEIR_SPAN("password")};
 *	weir_span values[2];
 *	weir_form_reader form;
 *	if (weir_request_form(request, 0, &form) != 0 || weir_form_read(&form, names, 2, values) != 0)
 *		return weir_request_reply_text(request, 400, WEIR_SPAN("no such form\n"));
 *
 * Pairs are separated by '&'; empty ones are skipped. The first '=' ends the name; without one the value is
 * empty. Names and values are decoded each: '+' is a space, "%41" is 'A'. What comes out are bytes: nobody
 * has looked whether they are UTF-8, or what they mean to HTML, SQL or a shell. Every name and value has a
 * NUL behind it that is not counted in its length.
 *
 * Strict by default. A '%' without two hexadecimal digits and a NUL, as it is or encoded, are refused: two
 * readers would understand them differently. Flags accept them.
 *
 * Bounds: a form has at most WEIR_FORM_PAIRS_MAX pairs; its memory is that of the encoded text, and a byte.
 *
 * Threads: any; a weir_form_reader is one thread's. The functions with a request: the thread of its owner.
 */

#include <weir/http.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_FORM_PAIRS_MAX 1000u

typedef enum weir_decode_flag {
	WEIR_DECODE_PLUS =
		1 << 0, /* '+' is a space: in queries and forms, where it is implied, but not in paths */
	WEIR_DECODE_NUL = 1 << 1,     /* NULs are accepted, so lengths count, not the NUL behind */
	WEIR_DECODE_LENIENT = 1 << 2, /* a '%' that begins no escape stands for itself, as in browsers */
} weir_decode_flag;

/*
 * Decodes text into to, with a NUL behind. It never gets longer: text.length + 1 bytes are always enough. to
 * may be where text is. -EILSEQ: a bad escape, or a NUL; -ENOBUFS: size is too small. What is in to after a
 * failure means nothing.
 */
WEIR_API int weir_percent_decode(weir_span text, unsigned flags, char *to, size_t size, size_t *ret_length);
/* The same into memory of the request: its path, say. Also -ENOMEM. */
WEIR_API int weir_request_decode(weir_request *request, weir_span text, unsigned flags, weir_span *ret_text);

/* A form that is being read. The members are the library's. */
typedef struct weir_form_reader {
	weir_span rest; /* not read yet */
	char *to;       /* where the next pair is decoded to */
	unsigned flags;
	unsigned pairs;
} weir_form_reader;

/*
 * Begins to read text. to has room for text.length + 1 bytes (else -ENOBUFS) and holds what is decoded for as
 * long as the caller wants it. It may be where text is, which is destroyed as it is read then.
 */
WEIR_API int weir_form_begin(weir_form_reader *form, weir_span text, unsigned flags, char *to, size_t size);
/*
 * The query of a request, decoded into its memory; without a query the form is empty. -ENOMEM: it is larger
 * than the request's memory.
 */
WEIR_API int weir_request_query_form(weir_request *request, unsigned flags, weir_form_reader *ret_form);
/*
 * The same for its body, which must have been collected (weir_route_options.collect_bytes) and be of the type
 * application/x-www-form-urlencoded. -EMEDIUMTYPE: of another type, or of none (415); -ENODATA: not
 * collected; -ENOMEM: a body larger than the request's memory (1 MB): decode such a one where it is, by
 * weir_form_begin.
 */
WEIR_API int weir_request_form(weir_request *request, unsigned flags, weir_form_reader *ret_form);
/*
 * The next pair. 1; 0: there are no more; -EILSEQ: as above; -E2BIG: too many pairs. A form that has failed
 * is not read on.
 */
WEIR_API int weir_form_next(weir_form_reader *form, weir_field *ret_pair);
/*
 * Reads all that is left, and finds the values of count names; of a name that comes twice the first counts.
 * at is NULL for names that the form does not have. 0, or as weir_form_next: then no value is set.
 */
WEIR_API int weir_form_read(weir_form_reader *form, const weir_span *names, size_t count,
			    weir_span *ret_values);

#ifdef __cplusplus
}
#endif
#endif
