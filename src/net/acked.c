/* SPDX-License-Identifier: Apache-2.0 */
#include "net/acked.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "net/conn_priv.h"

bool weir_conn_acked(const weir_conn *conn, uint64_t *ret_bytes)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);
	if (conn->fd < 0 || getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
	    length < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked))
		return false;
	*ret_bytes = info.tcpi_bytes_acked;
	return true;
}
