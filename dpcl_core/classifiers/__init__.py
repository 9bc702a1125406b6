"""Released classifiers as files: written by an export, used without the run that they come from."""
