#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The layer check finds what it should find, and this tree passes it.
set -eu
"$SOURCE/tools/check-layers" --self-test
"$SOURCE/tools/check-layers" "$SOURCE"
