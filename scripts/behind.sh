#!/bin/sh
# Runs a command at the lowest priority, beside what measures:
#
#     setsid scripts/behind.sh COMMAND…
#
# SCHED_IDLE takes what nobody else wants of a core. Where the kernel shares the cores between sessions, this one gets the least (sched(7)).
echo 19 2>/dev/null >/proc/self/autogroup || :
chrt --idle --pid 0 $$ 2>/dev/null || renice -n 19 $$ >/dev/null
exec "$@"
