"""A study of four files: taking the large entries out of a matrix, on one device or on several."""
