# bash completion for turbo. Commands, their flags and the options are what the command itself says they are.

_turbo_words()
{
	case $1 in
	commands) "$2" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' ;;
	flags) "$2" help "$3" | grep -oE '(^|[ [|,])--?[a-z][a-z-]*' | grep -oE -- '-.*' | sort -u ;;
	options) "$2" options --markdown | sed -n 's/^| `\([A-Z_]*\)`.*/\1=/p' ;;
	esac 2>/dev/null
}

_turbo()
{
	local turbo=${COMP_WORDS[0]} command=${COMP_WORDS[1]} word=${COMP_WORDS[COMP_CWORD]} words= i
	if [ "$COMP_CWORD" = 1 ]; then
		words="help --version $(_turbo_words commands "$turbo")"
	elif [ "$command" = help ]; then
		words=$(_turbo_words commands "$turbo")
	elif [ "$command" = run ]; then
		# Behind CMD everything is CMD's.
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			-o | --preset) i=$((i + 1)) ;;
			-- | [^-]*) break ;;
			esac
		done
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		-o)
			words=$(_turbo_words options "$turbo")
			compopt -o nospace 2>/dev/null
			;;
		--preset) words='off observe safe max' ;;
		*) [ $i -lt "$COMP_CWORD" ] || [[ $word != -* ]] || words="$(_turbo_words flags "$turbo" run) --" ;;
		esac
	elif [[ $word = -* ]]; then
		words=$(_turbo_words flags "$turbo" "$command")
	fi
	if [ -n "$words" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	elif [ "$command" = run ]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -o filenames -F _turbo turbo
