"""The privacy boundary: what is promised, drawn, admitted, priced and charged.

It imports no teacher, student, dataset, representation, protocol or run.
"""
