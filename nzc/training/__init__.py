"""Training with Lightning: settings of its Trainer, and optimisers, imported without torch."""
