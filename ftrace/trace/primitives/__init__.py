"""The primitives, by family. Each file is one family and one idea."""
