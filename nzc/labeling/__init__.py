"""Labeling: the privacy boundary. Which rows are asked, which labels are released, and what that is
charged.
"""
