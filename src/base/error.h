/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

/* Errors as sentences: weir_error and weir_error_set. */
#include <weir/base.h>

#endif
