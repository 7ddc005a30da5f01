"""Sweeps: what a sweep file asks, and its answer: table, figures and page, all views of one
DataFrame.
"""
