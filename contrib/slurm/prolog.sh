#!/bin/sh
# Prolog of Slurm: one second against the neighbour before a job begins, without a Slurm command.
#
#   slurm.conf, on every node:   Prolog=/etc/slurm/prolog.sh
#   on every node, as a service: hairpin serve --listen 0.0.0.0 --key-file /etc/hairpin/key      (one key for all, mode 0600)
#
# n1 and n2 measure each other, n3 and n4, and so on. Status 1: the way there is slow; Slurm drains this node and queues the job again. Anything else that goes
# wrong, such as a neighbour that is down or measured by somebody else, drains nobody.
key=${HAIRPIN_KEY:-/etc/hairpin/key}
# Well above the p50 of the slowest pair in a mesh of the healthy cluster.
limit_ns=${HAIRPIN_LIMIT_NS:-200000}
case $limit_ns in
*[!0-9]*)
    echo "HAIRPIN_LIMIT_NS is $limit_ns and not a number of nanoseconds: nothing is measured" >&2
    exit 0
    ;;
esac
# Slurm may give a prolog no search path.
PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}:/usr/local/bin
export PATH

node=${SLURMD_NODENAME:-$(hostname -s)}
name=${node%%[0-9]*}
number=$(printf '%s' "${node#"$name"}" | sed 's/^0*//')
case $number in '' | *[!0-9]*) exit 0 ;; esac
width=$((${#node} - ${#name}))
# n10 follows n9 in one cluster and n09 in another: whichever there is.
for width in "$width" 1; do
    neighbour=$(printf "%s%0${width}d" "$name" $(((number - 1 ^ 1) + 1)))
    timeout 2 getent ahosts "$neighbour" >/dev/null && break
done

# The median, which one disturbance of that second does not change; of a few round trips only, which are slow then, the shortest.
rtt_ns=$(timeout 5 hairpin ping "$neighbour" --key-file "$key" --path udp --duration 1s --warmup 100ms --timeout 1s --no-store --format csv 2>/dev/null |
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i } NR == 2 { p50 = $column["rtt_p50_ns"]; print p50 != "" ? p50 : $column["rtt_min_ns"] }')
case $rtt_ns in '' | *[!0-9]*) exit 0 ;; esac
[ "$rtt_ns" -le "$limit_ns" ] || { echo "the way from $node to $neighbour is slow: RTT p50 $rtt_ns ns, limit $limit_ns ns"; exit 1; }
