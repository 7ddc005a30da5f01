"""Publishing: a folder with what may be published of a run, and the statement of its privacy."""
