# Completions of hairpin for bash: hairpin itself is asked for the words.
_hairpin() {
    # Of the line and not of COMP_WORDS, which bash parts at colons and equal signs.
    local line=${COMP_LINE:0:COMP_POINT} words mark before kept=
    IFS=$' \t' read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local word=${words[-1]}
    for mark in : =; do
        before=${word%"${word##*"$mark"}"}
        [[ $COMP_WORDBREAKS == *"$mark"* && ${#before} -gt ${#kept} ]] && kept=$before
    done
    mapfile -t COMPREPLY < <(HAIRPIN_COMPLETE=bash "$1" -- "${words[@]}" 2>/dev/null)
    # What bash takes for the last word begins after the last such mark.
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:/] ]] && compopt -o nospace
    return 0
}
complete -o bashdefault -F _hairpin hairpin
