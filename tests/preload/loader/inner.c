/* inner.c - found through the RUNPATH of the library that opens it, and in no other way. */
int inner_value(void)
{
	return 42;
}
