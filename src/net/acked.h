/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_ACKED_H
#define WEIR_NET_ACKED_H

/*
 * Progress that only the kernel sees: a slow peer takes seconds for what is in the socket's buffer, and
 * meanwhile nothing moves above it.
 *
 * Threads: the connection's.
 */

#include <weir/net.h>

/* Bytes that the peer has acknowledged since the connection began. false: the kernel does not say. */
bool weir_conn_acked(const weir_conn *conn, uint64_t *ret_bytes);

#endif
