"""Host side of a layout: its name, how a matrix and a vector are packed into it, how many bytes it takes."""
