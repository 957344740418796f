#compdef hairpin
# Completions of hairpin for zsh: hairpin itself is asked for the words, each with what it is for.
_hairpin() {
    local line
    local -a whole begun
    for line in "${(@f)$(HAIRPIN_COMPLETE=zsh hairpin -- "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            'begun '*) begun+=("${line#begun }") ;;
            'whole '*) whole+=("${line#whole }") ;;
        esac
    done
    # No space is set behind a word that goes on.
    (( $#begun )) && _describe -V word begun -S ''
    (( $#whole )) && _describe -V word whole
}
if [[ $funcstack[1] == _hairpin ]]; then _hairpin "$@"; else compdef _hairpin hairpin; fi
