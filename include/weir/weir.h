/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

/* All of libweir. Each header begins with the purpose of its part. */

#include <weir/base.h>
#include <weir/cookie.h>
#include <weir/event.h>
#include <weir/file.h>
#include <weir/form.h>
#include <weir/http.h>
#include <weir/inspect.h>
#include <weir/law.h>
#include <weir/log.h>
#include <weir/loop.h>
#include <weir/monitor.h>
#include <weir/net.h>
#include <weir/random.h>
#include <weir/request.h>
#include <weir/sim.h>
#include <weir/stage.h>
#include <weir/stream.h>
#include <weir/throttle.h>
#include <weir/tls.h>
#include <weir/upload.h>

#endif
