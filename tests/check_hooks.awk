# check_hooks.awk - compare the hook table with preprocessed headers (see check_hooks.sh).
#
#   awk -v def=NAME -f check_hooks.awk TABLE TEXT
#
# TABLE is what hooks.awk prints; TEXT is C after the preprocessor, in parts that begin with
# a line "@@ cuda", "@@ nccl" or "@@ cupti".

function fault(text)
{
	print def ": " text
	faults++
}

# Does the text name a stream, or a structure that holds one?
function names_stream(text,    words, n, i)
{
	gsub(/[^A-Za-z0-9_]+/, " ", text)
	n = split(text, words, " ")
	for (i = 1; i <= n; i++)
		if (words[i] in carriers)
			return 1
	return 0
}

# typedef ... NAME;  A structure with a stream inside, or another name of one, is a carrier.
function see_type(text,    words, n, i)
{
	if (text ~ /\(/ || !(holds_stream || names_stream(text)))
		return
	gsub(/[^A-Za-z0-9_]+/, " ", text)
	n = split(text, words, " ")
	for (i = 1; i <= n; i++)
		if (words[i] !~ /^(typedef|struct|union|enum|const)$/)
			carriers[words[i]] = 1
}

function see_function(text,    name, rest)
{
	if (text ~ /(^|[^A-Za-z0-9_])static[^A-Za-z0-9_]/)
		return
	while (match(text, /[A-Za-z_][A-Za-z0-9_]* *\(/)) {
		name = substr(text, RSTART, RLENGTH - 1)
		rest = substr(text, RSTART + RLENGTH)
		sub(/ +$/, "", name)
		if (name ~ ours[part]) {
			functions[name] = part
			found[part]++
			if (names_stream(rest))
				takes_stream[name] = 1
			return
		}
		text = rest
	}
}

function see_statement(text)
{
	if (text ~ /^ *typedef / || text !~ /\(/)
		see_type(text)
	else
		see_function(text)
	holds_stream = 0
}

# One piece of text and the ; { or } that ends it. Bodies are skipped, but for whether a
# structure holds a stream; extern "C" and namespace braces enclose statements like any.
function see_piece(piece, end)
{
	if (depth == 0)
		statement = statement " " piece
	else if (names_stream(piece))
		holds_stream = 1
	if (end == "{") {
		if (depth == 0 && statement ~ /(extern_C|namespace *[A-Za-z0-9_]*) *$/)
			statement = ""
		else
			depth++
	} else if (end == "}") {
		if (depth > 0)
			depth--
		if (depth == 0 && statement ~ /\)[^=]*$/ && statement !~ /^ *typedef /) {
			see_statement(statement)
			statement = ""
		}
	} else if (depth == 0) {
		see_statement(statement)
		statement = ""
	}
}

BEGIN {
	ours["cuda"] = "^cu[A-Z]"
	ours["nccl"] = "^p?nccl[A-Z]"
	ours["cupti"] = "^[cC]upti[A-Z]"
	carriers["CUstream"] = 1
}

FNR == NR {
	if (split($0, column, /[(),"]+ */) >= 3 && $0 ~ /^HOOK_ROW_/) {
		how[column[2]] = tolower(substr(column[1], 10))
		lib[column[2]] = tolower(column[3])
	}
	next
}

/^@@ / { part = $2; parts[part] = 1; depth = 0; statement = text = ""; holds_stream = 0; next }
/^#/ { next }
{
	gsub(/extern *"C"/, "extern_C")
	gsub(/"[^"]*"/, "")
	text = text " " $0
	while (match(text, /[;{}]/)) {
		at = RSTART # see_piece matches too
		see_piece(substr(text, 1, at - 1), substr(text, at, 1))
		text = substr(text, at + 1)
	}
}

END {
	for (part in parts)
		if (!found[part])
			fault("no function of " part " was found in its headers")
	for (name in functions) {
		if (!(name in how))
			fault(name " is declared by the headers of " functions[name] " and has no row")
		else if (lib[name] != functions[name])
			fault(name " is listed for " lib[name] ", declared by the headers of " functions[name])
		else if (functions[name] == "cuda" && (name in takes_stream) && how[name] == "pass")
			fault(name " takes a stream and must be hook or count")
	}
	for (name in how) {
		plain = name
		if (lib[name] != "cuda" || !sub(/_pt[ds][sz]$/, "", plain))
			continue
		if (how[name] == "pass")
			fault(name " works on the calling thread's stream and must be hook or count")
		if (how[plain] == "pass")
			fault(plain " has a per-thread variant and must be hook or count")
	}
	if (faults)
		exit 1
}
