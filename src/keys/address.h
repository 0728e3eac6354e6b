/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_ADDRESS_H
#define WEIR_KEYS_ADDRESS_H

/* Addresses as users write them. Names are not resolved. Threads: any. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Splits "host:port" or "[host]:port". */
bool weir_address_split(const char *text, char *ret_host, size_t size, uint16_t *ret_port);
#define WEIR_ADDRESS_LOCAL "unix:"
/* Whether it is written as the address of a Unix socket. */
bool weir_address_is_local(const char *text);
/* "unix:/run/weir.sock". -EINVAL with weir_error. */
int weir_address_read_local(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length);
/* "127.0.0.1:8080", "[::1]:8080", "*:8080", "localhost:8080", "unix:/PATH". -EINVAL with weir_error. */
int weir_address_read(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length);

#endif
