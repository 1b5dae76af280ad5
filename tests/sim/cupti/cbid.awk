# cbid.awk - callback ids of a CUPTI header (cupti_driver_cbid.h, cupti_runtime_cbid.h) as X(domain, name, id).
match($1, /^CUPTI_(DRIVER|RUNTIME)_TRACE_CBID_cu/) {
	split($1, part, "_")
	name = $1
	sub(/^CUPTI_[A-Z]*_TRACE_CBID_/, "", name)
	id = $3
	sub(/,.*/, "", id)
	printf "X(%s_API, %s, %s)\n", part[2], name, id
}
