/* SPDX-License-Identifier: Apache-2.0 */
#include "http/status.h"

/* As registered by IANA. X(status, reason) */
/* clang-format off */
#define STATUSES(X)                              \
	X(100, "Continue")                       \
	X(101, "Switching Protocols")            \
	X(102, "Processing")                     \
	X(103, "Early Hints")                    \
	X(200, "OK")                             \
	X(201, "Created")                        \
	X(202, "Accepted")                       \
	X(203, "Non-Authoritative Information")  \
	X(204, "No Content")                     \
	X(205, "Reset Content")                  \
	X(206, "Partial Content")                \
	X(207, "Multi-Status")                   \
	X(208, "Already Reported")               \
	X(226, "IM Used")                        \
	X(300, "Multiple Choices")               \
	X(301, "Moved Permanently")              \
	X(302, "Found")                          \
	X(303, "See Other")                      \
	X(304, "Not Modified")                   \
	X(305, "Use Proxy")                      \
	X(307, "Temporary Redirect")             \
	X(308, "Permanent Redirect")             \
	X(400, "Bad Request")                    \
	X(401, "Unauthorized")                   \
	X(402, "Payment Required")               \
	X(403, "Forbidden")                      \
	X(404, "Not Found")                      \
	X(405, "Method Not Allowed")             \
	X(406, "Not Acceptable")                 \
	X(407, "Proxy Authentication Required")  \
	X(408, "Request Timeout")                \
	X(409, "Conflict")                       \
	X(410, "Gone")                           \
	X(411, "Length Required")                \
	X(412, "Precondition Failed")            \
	X(413, "Content Too Large")              \
	X(414, "URI Too Long")                   \
	X(415, "Unsupported Media Type")         \
	X(416, "Range Not Satisfiable")          \
	X(417, "Expectation Failed")             \
	X(421, "Misdirected Request")            \
	X(422, "Unprocessable Content")          \
	X(423, "Locked")                         \
	X(424, "Failed Dependency")              \
	X(425, "Too Early")                      \
	X(426, "Upgrade Required")               \
	X(428, "Precondition Required")          \
	X(429, "Too Many Requests")              \
	X(431, "Request Header Fields Too Large") \
	X(451, "Unavailable For Legal Reasons")  \
	X(500, "Internal Server Error")          \
	X(501, "Not Implemented")                \
	X(502, "Bad Gateway")                    \
	X(503, "Service Unavailable")            \
	X(504, "Gateway Timeout")                \
	X(505, "HTTP Version Not Supported")     \
	X(506, "Variant Also Negotiates")        \
	X(507, "Insufficient Storage")           \
	X(508, "Loop Detected")                  \
	X(511, "Network Authentication Required")
/* clang-format on */

#define LEAST 100
#define MOST  599

static const weir_span lines[MOST - LEAST + 1] = {
#define X(status, reason)                                          \
	[status - LEAST] = {"HTTP/1.1 " #status " " reason "\r\n", \
			    sizeof("HTTP/1.1 " #status " " reason "\r\n") - 1},
	STATUSES(X)
#undef X
};

/* Valid until the next call on this thread. */
static weir_span unknown(unsigned status)
{
	static _Thread_local char line[] = "HTTP/1.1 000 \r\n";
	line[9] = (char)('0' + status / 100);
	line[10] = (char)('0' + status / 10 % 10);
	line[11] = (char)('0' + status % 10);
	return (weir_span){line, sizeof(line) - 1};
}

weir_span weir_status_line(unsigned status)
{
	if (status >= LEAST && status <= MOST && lines[status - LEAST].at != NULL)
		return lines[status - LEAST];
	return unknown(status);
}
