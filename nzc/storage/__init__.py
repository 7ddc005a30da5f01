"""What nzc keeps on disk: whole files, folders of its own, stored predictions and their keys."""
