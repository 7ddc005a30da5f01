"""Labeling, the privacy boundary: which rows are asked, what is released, and at what charge."""
