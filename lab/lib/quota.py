# SPDX-License-Identifier: Apache-2.0
"""A share of a core for a program: a control group with a CPU quota, where this user may make one (version 1 or 2)."""
import contextlib
import os
import uuid

from lib.measure import Missing

PERIOD_US = 10000
V1, V2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"


def limited(path, share):
    """Writes the quota; raises OSError where that is not allowed."""
    quota = int(share * PERIOD_US)
    files = {"cpu.max": f"{quota} {PERIOD_US}"} if os.path.exists(os.path.join(path, "cpu.max")) else {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota}
    for name, value in files.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write(str(value))
    # It comes before others that want the same core, so that it really gets its share.
    for name, value in (("cpu.weight", 10000), ("cpu.shares", 102400)):
        with contextlib.suppress(OSError):
            with open(os.path.join(path, name), "r+", encoding="utf-8") as file:
                file.write(str(value))


@contextlib.contextmanager
def group(share):
    """The words that, put before a command, let it use this share of a core."""
    path = os.path.join(V1 if os.path.isdir(V1) else V2, f"weir-lab-{uuid.uuid4().hex[:8]}")
    try:
        os.mkdir(path)
    except OSError as error:
        raise Missing(f"CPU quotas: {error}") from None
    try:
        limited(path, share)
        yield ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', path]
    except OSError as error:
        raise Missing(f"CPU quotas: {error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(path)


def allowed():
    """Whether this user may make one."""
    try:
        with group(0.5):
            return True
    except Missing:
        return False
