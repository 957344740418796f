# What cases ask of a record of `hairpin mesh`.

# Pairs with figures, such as "0-1".
def measured: [.pairs[] | select(.rtt_ns != null) | "\(.a)-\(.b)"];
# Every visit, with the ranks of its pair.
def visits: [.pairs[] | . as $pair | .visits[] | . + {a: $pair.a, b: $pair.b}];
# The reasons of the visits that are missing, of all pairs or of those of a rank.
def reasons: [visits[] | .missing // empty];
def reasons_of($rank): [visits[] | select(.a == $rank or .b == $rank) | .missing // empty];
# No rank is in two pairs of a round.
def rounds_are_disjoint: [visits | group_by(.round)[] | map(.a, .b) | length == (unique | length)] | all;
# Visits of a rank, with all its partners, begin at least the given ns after one another. Each client counts from its own first round, so they may be off by a little.
def visits_are_apart($ns):
    [visits | map(select(.missing == null)) as $all | [$all[].a, $all[].b] | unique[] as $rank
        | [$all[] | select(.a == $rank or .b == $rank) | .at_ns] | sort | [.[1:], .[:-1]] | transpose[] | .[0] - .[1] >= $ns] | all;
# Subjects that were found slow, such as {"rank": 4}.
def convicted: [.effects[] | select(.convicted) | .subject];
# The median of the p50 of a rank's pairs, and of all pairs without it.
def median: sort | .[length / 2 | floor];
def p50_of($rank): [.pairs[] | select(.a == $rank or .b == $rank) | .rtt_ns.p50] | median;
def p50_without($rank): [.pairs[] | select(.a != $rank and .b != $rank) | .rtt_ns.p50] | median;
