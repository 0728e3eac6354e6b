/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_STATUS_H
#define WEIR_HTTP_STATUS_H

/* Status lines of HTTP/1, ready to send. Any thread. */

#include <weir/http.h>

/* "HTTP/1.1 200 OK\r\n", for 100 to 599; an unknown status has no reason. */
weir_span weir_status_line(unsigned status);

#endif
