# docs.awk - put a generated table into a README, between its two markers.
#   turbo options --markdown | awk -f tools/docs.awk -v name=options - README.md
FNR == 1 { file++ }
file == 1 { table = table $0 "\n"; next }
$0 == "<!-- " name ":begin -->" { print; printf "%s", table; skipping = 1; next }
$0 == "<!-- " name ":end -->" { skipping = 0 }
!skipping { print }
