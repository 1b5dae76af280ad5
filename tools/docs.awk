# docs.awk - put the option table into README.md, between its two markers.
#   turbo options --markdown | awk -f tools/docs.awk - README.md
FNR == 1 { file++ }
file == 1 { table = table $0 "\n"; next }
/<!-- options:begin -->/ { print; printf "%s", table; skipping = 1; next }
/<!-- options:end -->/ { skipping = 0 }
!skipping { print }
