/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLOAD_H
#define WEIR_UPLOAD_H

/*
 * A form with files (multipart/form-data, RFC 7578), read from a request whose route does not collect
 * bodies. The body goes into a file without a name, and its fields are ranges of that file: so memory does
 * not grow with it.
 *
 *	weir_upload *form;
 *	int failed = weir_upload_read(request, "/srv/spool", 32 << 20, &form);
 *	if (failed != 0)
 *		return weir_request_reply_text(request, failed == -E2BIG ? 413 : 400, WEIR_SPAN("no such form\n"));
 *	weir_span title = weir_upload_value(form, "title");
 *
 * Names, types and values are as the browser sent them: nobody has looked whether they are UTF-8, or whether a
 * file's name is one.
 *
 * Bounds: the bytes of the body are given; at most WEIR_UPLOAD_FIELDS_MAX fields, with heads of at most
 * WEIR_UPLOAD_HEAD_MAX bytes.
 *
 * Threads: the owner of the request, on a thread that may wait (weir/stream.h).
 */

#include <weir/request.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_UPLOAD_FIELDS_MAX 200u
#define WEIR_UPLOAD_HEAD_MAX   4096u

typedef struct weir_upload_field {
	weir_span name;
	weir_span file; /* its name as the browser gave it; at is NULL if it is no file */
	weir_span type; /* of a file; may be empty */
	weir_span value;
} weir_upload_field;

typedef struct weir_upload {
	weir_upload_field fields[WEIR_UPLOAD_FIELDS_MAX];
	size_t count;
	/* the library's */
	void *map;
	size_t bytes;
} weir_upload;

/*
 * Reads the body, of at most `most` bytes; the file is made in the folder `spool`. -EMEDIUMTYPE: it is no
 * such form; -E2BIG: it is over a bound; -EINVAL: it is broken; an error of the folder's; else as
 * weir_request_stream_read. Free it with weir_upload_free.
 */
WEIR_API int weir_upload_read(weir_request *request, const char *spool, uint64_t most,
			      weir_upload **ret_upload);
/* Reads the fields of a body in memory, which must outlive them. Errors as above. */
WEIR_API int weir_upload_parse(weir_span body, weir_span boundary, weir_upload *to);
/* The boundary of a Content-Type; empty: it has none. */
WEIR_API weir_span weir_upload_boundary(weir_span type);
/* Frees; NULL is ignored. */
WEIR_API void weir_upload_free(weir_upload *upload);
/* The value of the first field of this name that is no file; empty: there is none. */
WEIR_API weir_span weir_upload_value(const weir_upload *upload, const char *name);

#ifdef __cplusplus
}
#endif

#endif
