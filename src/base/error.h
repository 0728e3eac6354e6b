/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <weir/base.h>

/* Keeps a sentence for weir_error() on this thread and returns code, so that one can `return weir_error_set(-EINVAL, ...)`. */
int weir_error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
