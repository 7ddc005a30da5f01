"""Runs: the pipeline from data to student, its result, and everything a run or a sweep leaves in
its folder.
"""
