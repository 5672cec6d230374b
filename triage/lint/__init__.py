"""What is wrong with a program before it is compiled, read out of its generic form, and what to write instead."""
