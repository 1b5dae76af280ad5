/* null_symbol.S - a library with a symbol whose value is 0: found, and yet NULL. */
	.globl null_symbol
	.set null_symbol, 0
	.section .note.GNU-stack, ""
