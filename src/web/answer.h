/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_ANSWER_H
#define WEIR_WEB_ANSWER_H

/* Answers from a page: 200, 206, 301, 304, 412 or 416, and the encoding. Any thread that owns the event. */

#include "web/page.h"

/* Does not take the caller's reference. page NULL: answers with an error of that status. */
void weir_page_answer(weir_request *request, weir_page *page, unsigned status);

#endif
