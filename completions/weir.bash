# SPDX-License-Identifier: Apache-2.0
# Completion of `weir` for bash. The verbs come from the binary itself, so this file does not age.
_weir()
{
	local word=${COMP_WORDS[COMP_CWORD]}
	if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" = help ] && [[ $word != -* ]]; }; then
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" help --verbs 2>/dev/null)" -- "$word")
	elif [ "${COMP_WORDS[1]}" = sim ] && [ "${COMP_WORDS[COMP_CWORD - 1]}" = --law ]; then
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" sim --laws 2>/dev/null | grep -v '^ ')" -- "$word")
	elif [ "${COMP_WORDS[1]}" = check ] && [ "${COMP_WORDS[COMP_CWORD - 1]}" = --explain ]; then
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" check --list 2>/dev/null | grep -o '^[a-z]*')" -- "$word")
	elif [ "${COMP_WORDS[1]}" = uplink ] && [ "$COMP_CWORD" -eq 2 ] && [[ $word != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "install show remove" -- "$word")
	elif [[ $word == -* ]]; then
		# The options of a verb are the words in its help that begin with two dashes.
		local options
		options=$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -o -e '--[a-z][a-z0-9-]*' | sort -u)
		mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$word")
	fi
}
complete -o default -F _weir weir
