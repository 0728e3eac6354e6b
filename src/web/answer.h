/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_ANSWER_H
#define WEIR_WEB_ANSWER_H

/*
 * Answers from a page: which of 200, 206, 301, 304, 412, 416, in which encoding. Any thread that owns the request's event.
 */

#include "web/page.h"

/* The caller's reference stays the caller's. page NULL: an error of that status. */
void weir_page_answer(weir_request *request, weir_page *page, unsigned status);

#endif
