"""A study of five files: taking the large entries out of a matrix, on one device or on several."""
