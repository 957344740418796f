# What cases ask of a record of `hairpin mesh`.
