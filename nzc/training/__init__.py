"""Training with Lightning: settings of its Trainer, progress bars, optimisers. Importing this package is cheap."""
