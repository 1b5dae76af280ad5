# doors.awk - the class of every function of the driver; any POSIX awk.
#
#   awk -f doors.awk -v what=table|stubs TABLE DOORS_DEF TEXT
#
# TABLE is what hooks.awk prints; TEXT is C after the preprocessor, in parts that begin with a line "@@ cuda" (cuda.h)
# or "@@ other".
#
#   table  door_table.inc, a row a symbol that is hook or count, in the table's order:
#            DOOR_ROW(symbol, CLASS, first, second, per_thread)   numbers of arguments; 0 where the class has none
#          and, where cuda.h declares a function whose arguments count, what must be so for the numbers to be right:
#            DOOR_TYPE(symbol, (types))   it has these parameters
#            DOOR_WORD(type)              a parameter before a counted one is passed as one integer
#   stubs  door_stubs.inc, for the assembler: door_SYMBOL is 1 where the stub has a door
#
# A function that no rule classes is said by name, and the status is 1.

function bad(text)
{
	print "doors: " text > "/dev/stderr"
	failed = 1
}

# ---- the table ----

function see_row(    column)
{
	if (split($0, column, /[(),"]+ */) < 3 || $0 !~ /^HOOK_ROW_(HOOK|COUNT)/)
		return
	symbols[count++] = column[2]
	lib_of[column[2]] = column[3]
	how_of[column[2]] = column[1] == "HOOK_ROW_HOOK" ? "hook" : "count"
}

# ---- doors.def ----

function see_class(    numbers, class, i)
{
	sub(/#.*/, "")
	if (NF == 0)
		return
	class = $1
	if (!(class in arguments)) {
		bad(FILENAME ":" FNR ": unknown class " class)
		return
	}
	numbers = arguments[class]
	for (i = 2; i < 2 + numbers; i++)
		if ($i !~ /^[0-9]$/)
			bad(FILENAME ":" FNR ": expected the number of an argument, not " $i)
	for (i = 2 + numbers; i <= NF; i++) {
		if ($i in line_of)
			bad(FILENAME ":" FNR ": " $i " is listed already in line " line_of[$i])
		line_of[$i] = FNR
		class_of[$i] = class
		first_of[$i] = numbers > 0 ? $2 : 0
		second_of[$i] = numbers > 1 ? $3 : 0
	}
}

# ---- headers ----

# CUresult NAME(PARAMETERS): the type of each parameter, and where a stream is.
function see_function(text,    name, list, n, i, type)
{
	if (!match(text, /CUresult +(__stdcall +)?cu[A-Z][A-Za-z0-9_]* *\(/) || text ~ /typedef|static/)
		return
	name = substr(text, RSTART + 8, RLENGTH - 9)
	list = substr(text, RSTART + RLENGTH)
	gsub(/__stdcall| /, "", name)
	if (name in types_of || !sub(/\) *$/, "", list))
		return
	declared[name] = part
	types_of[name] = ""
	if (list ~ /^ *(void)? *$/)
		return
	n = split(list, parameter, ",")
	for (i = 1; i <= n; i++) {
		type = parameter[i]
		gsub(/\[[^]]*\]/, "", type) && type = type "*" # an array is a pointer, after the name is gone
		type = without_name(type)
		types_of[name] = types_of[name] (i > 1 ? "," : "") type
		if (type ~ /^ *(const +)?CUstream *$/ && !(name in stream_at))
			stream_at[name] = i - 1
	}
}

# "const char *name" is "const char *". A parameter that has no name ends in a type, or has one word.
function without_name(type,    star, word)
{
	star = sub(/\*$/, "", type)
	gsub(/^ +| +$/, "", type)
	if (match(type, /[ *][A-Za-z_][A-Za-z0-9_]*$/)) {
		word = substr(type, RSTART + 1)
		if (word !~ /^(char|short|int|long|unsigned|float|double)$/ && substr(type, 1, RSTART) !~ /^(const|struct|enum) *$/)
			type = substr(type, 1, RSTART)
	}
	sub(/ +$/, "", type)
	if (star)
		type = type (type ~ /\*$/ ? "*" : " *")
	return type
}

# ---- what comes of it ----

# The name under which doors.def lists a symbol: its own, or its function's.
function listed(symbol)
{
	if (symbol in class_of)
		return symbol
	sub(/_pt[ds][sz]$/, "", symbol)
	if (symbol in class_of)
		return symbol
	sub(/_v[0-9]+$/, "", symbol)
	return symbol in class_of ? symbol : ""
}

function print_proof(symbol, last,    n, i)
{
	if (declared[symbol] != "cuda" || what != "table")
		return
	print "DOOR_TYPE(" symbol ", (" types_of[symbol] "))"
	n = split(types_of[symbol], parameter, ",")
	if (n <= last)
		bad(symbol " has no argument " last)
	for (i = 1; i <= last; i++)
		print "DOOR_WORD(" parameter[i] ")"
}

function class_symbol(symbol,    name, class, first, second)
{
	name = listed(symbol)
	first = second = 0
	if (name != "") {
		used[name] = 1
		class = class_of[name]
		first = first_of[name]
		second = second_of[name]
	} else if (symbol in stream_at) {
		class = "stream"
		first = stream_at[symbol]
	} else if (symbol in declared) {
		bad(symbol " takes no stream as an argument and has no class in doors.def")
		return
	} else {
		class = "wait"
	}
	if (class == "stream" && (symbol in stream_at) && stream_at[symbol] != first)
		bad(symbol "'s stream is argument " stream_at[symbol] ", not " first)
	if (class == "own" && how_of[symbol] != "hook")
		bad(symbol " is own and has no C body")
	print_row(symbol, class, first, second)
	if (arguments[class])
		print_proof(symbol, first > second ? first : second)
}

function print_row(symbol, class, first, second)
{
	if (what == "table")
		print "DOOR_ROW(" symbol ", " toupper(class) ", " first ", " second ", " (symbol ~ /_pt[ds][sz]$/ ? 1 : 0) ")"
	else if (how_of[symbol] == "count")
		print ".set door_" symbol ", " (class != "none")
}

BEGIN {
	arguments["stream"] = arguments["event"] = arguments["recorded"] = arguments["gone"] = 1
	arguments["streams"] = arguments["events"] = 2
	arguments["wait"] = arguments["unnamed"] = arguments["none"] = arguments["own"] = 0
	file = 0
}

FNR == 1 { file++ }
file == 1 { see_row(); next }
file == 2 { see_class(); next }
/^@@ / { part = $2; text = ""; next }
/^#/ { next }
{
	text = text " " $0
	while (match(text, /[;{}]/)) {
		at = RSTART # see_function matches too
		see_function(substr(text, 1, at - 1))
		text = substr(text, at + 1)
	}
}

END {
	if (!failed && (count == 0 || file < 3))
		bad("no rows")
	print "/* Generated by shim/doors.awk from shim/hooks.def, shim/doors.def and the driver's headers. */"
	for (i = 0; i < count; i++)
		if (lib_of[symbols[i]] == "CUDA")
			class_symbol(symbols[i])
		else
			print_row(symbols[i], "none", 0, 0)
	for (name in class_of)
		if (!(name in used))
			bad("doors.def names " name ", which is no function of hooks.def that is hook or count")
	exit failed
}
