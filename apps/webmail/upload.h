/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_UPLOAD_H
#define WEBMAIL_UPLOAD_H

/*
 * A form with files (multipart/form-data, RFC 7578), read from a request whose route does not collect
 * bodies. The body goes into a file without a name, and its fields are ranges of that file: so memory does
 * not grow with it.
 *
 * Bounds: the bytes of the body are given; at most UPLOAD_FIELDS_MAX fields, with heads of at most
 * UPLOAD_HEAD_MAX bytes.
 *
 * Threads: the owner of the request, on a thread that may wait.
 */

#include <weir/request.h>

#define UPLOAD_FIELDS_MAX 200u
#define UPLOAD_HEAD_MAX   4096u

typedef struct upload_field {
	weir_span name;
	weir_span file; /* its name as the browser gave it; at is NULL if it is no file */
	weir_span type; /* of a file; may be empty */
	weir_span value;
} upload_field;

typedef struct upload {
	upload_field fields[UPLOAD_FIELDS_MAX];
	size_t count;
	/* its own */
	void *map;
	size_t bytes;
} upload;

/*
 * Reads the body, of at most `most` bytes; the file is made in the folder `spool`. -EMEDIUMTYPE: it is no
 * such form; -E2BIG: it is over a bound; -EINVAL: it is broken; else as weir_request_stream_read. Free it
 * with upload_free.
 */
int upload_read(weir_request *request, const char *spool, uint64_t most, upload **ret_upload);
/* Reads the fields of a body in memory, which must outlive them. Errors as above. */
int upload_parse(weir_span body, weir_span boundary, upload *to);
/* The boundary of a Content-Type; empty: it has none. */
weir_span upload_boundary(weir_span type);
/* Frees; NULL is ignored. */
void upload_free(upload *u);
/* The value of the first field of this name that is no file; empty: there is none. */
weir_span upload_value(const upload *u, const char *name);

#endif
