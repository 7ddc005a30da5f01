"""Training with Lightning: settings of its Trainer, and optimisers. Importing this package is
cheap.
"""
