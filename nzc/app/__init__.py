"""The command line, and `nzc.run`: configuration in, runs and sweeps out. The only package that
uses Hydra.
"""
